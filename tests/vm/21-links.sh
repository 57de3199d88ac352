#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# shellcheck disable=SC2154 # FT_LINKS: from the outer half
# deadline: 400
# A link that comes back slower and narrower, by polling alone: a NIC below a root port of QEMU's is
# taken out and another one put in, 16 GT/s x16 before, 2.5 GT/s x1 after. What the tracer says is
# what sysfs says. Run outside a guest it boots one: tests/vm/21-links.sh [KERNEL].
#
# The link is that of the port to function 0. A second root port stands there, because of QEMU's
# devices it alone can be told its speed; the NIC is function 1.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"

PORT=0000:00:09.0
OLD=0000:01:00.1
NEW=0000:01:00.0
SLOT=5
NIC=virtio-net-pci,bus=port0,aer=on,disable-legacy=on
DEVICES=(-q -global -q ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off
	-q -device -q "pcie-root-port,id=port0,chassis=1,slot=$SLOT,addr=9,x-speed=16,x-width=16"
	-q -device -q "$NIC,id=nic0,addr=0.1,multifunction=on"
	-q -device -q "pcie-root-port,bus=port0,id=port1,addr=0.0,multifunction=on,chassis=2,slot=6,x-speed=16,x-width=16")

# ------------------------------------------------------------------------------- outside the guest

# Runs this file in a guest and gives QEMU's monitor what it asks for.
outside()
{
	local kernel=$1 dir=$FT_TMP/links pid status=0

	need qemu-system-x86_64 busybox cpio python3
	need_built "$FABRICTRACE"
	mkdir "$dir"
	"$FT_ROOT/scripts/vm" run -t 300 -o "$dir" -m "$FT_TMP/monitor" -e FT_VM_KERNEL="$kernel" \
		-e FT_LINKS="$dir" -e FT_TEST_SLOW="${FT_TEST_SLOW:-4}" "${DEVICES[@]}" \
		"$kernel" "$FT_ROOT/tests/vm/21-links.sh" </dev/null &
	pid=$!
	own_process $pid
	until gone $pid; do
		if [[ -e $dir/ask ]]; then
			xargs -d '\n' "$FT_ROOT/scripts/vm" monitor "$FT_TMP/monitor" <"$dir/ask" \
				>"$dir/answer" 2>&1 || :
			rm "$dir/ask"
		fi
		sleep 0.1
	done
	wait $pid || status=$?
	exit $status
}

if [[ -z ${FT_LINKS-} ]]; then
	[[ -z ${FT_VM_TRACE-} ]] || skip_all "needs QEMU's monitor: it runs from outside"
	outside "${1:-${FT_VM_KERNEL:-7}}"
fi

# ------------------------------------------------------------------------------------ in the guest

monitor()
{
	printf '%s\n' "$@" >"$FT_LINKS/ask.new"
	mv "$FT_LINKS/ask.new" "$FT_LINKS/ask"
	wait_until 20 test ! -e "$FT_LINKS/ask"
	! grep -sq '^Error' "$FT_LINKS/answer" || diag "monitor: $(<"$FT_LINKS/answer")"
}

# sysfs BDF: "generation width"
sysfs()
{
	local speed width

	speed=$(cat "/sys/bus/pci/devices/$1/current_link_speed")
	width=$(cat "/sys/bus/pci/devices/$1/current_link_width")
	case $speed in
	2.5*) echo "1 $width" ;;
	16*) echo "4 $width" ;;
	*) echo "$speed $width" ;;
	esac
}

# aer BDF CLASS NAME
aer()
{
	awk -v name="$3" '$1 == name { print $2 }' "/sys/bus/pci/devices/$1/aer_dev_$2"
}

pci_lines()
{
	dmesg | grep -Ec 'pci|AER' || :
}

# Reading Link Status for a while is nothing that the kernel remarks on.
check_quiet()
{
	local lines

	lines=$(pci_lines)
	sleep 2
	is "$(pci_lines)" "$lines" "the kernel log has nothing new of PCI"
	is "$(of pcie.link .reason)$(of pcie.gone .how_seen)" "" "no line of a link that is as it was"
}

# of KIND FILTER: data of the lines of the port, or of its devices, one a line.
of()
{
	trace_jq links ".[] | select(.kind == \"$1\") | .data |
		select(.port == \"$PORT\" or (.device | IN(\"$PORT\", \"$OLD\", \"$NEW\"))) | $2"
}

check_before()
{
	is "$(sysfs $PORT)" "4 16" "the link is at 16 GT/s x16"
	is "$(of inv.pci "select(.serves == \"$OLD\") | [.active, .os_aer, .asleep, .slot] | @json")" \
		"[true,true,false,\"$SLOT\"]" "up, with the kernel's AER, in its slot"
	is "$(of inv.pci "select(.serves == \"$OLD\") | .target_gen")" \
		"$((0x$(setpci -s $PORT CAP_EXP+30.w) & 15))" "its target speed is that of setpci"
	is "$(trace_jq links '.[] | select(.kind == "probe" and .data.program == "pcie_poll") |
		[.data.state, .data.reason] | @json')" '["attached",null]' "polled, by its registers"
}

check_out()
{
	monitor device_del nic0
	ok "the old one goes" wait_until 20 test ! -e /sys/bus/pci/devices/$OLD
	ok "that is told" wait_until 10 trace_has links \
		".kind == \"pcie.gone\" and .data.device == \"$OLD\" and .data.how_seen == \"removed\""
	ok "so is the end of the link" wait_until 10 trace_has links \
		".kind == \"pcie.link\" and .data.port == \"$PORT\" and .data.to.width == 0"
	is "$(of pcie.link 'select(.to.width == 0) | [.from.gen, .from.width, .from.gbps] | @json')" \
		"[4,16,252]" "which was at 16 GT/s x16, 252 Gbit/s"
}

check_in()
{
	local now

	monitor device_add "$NIC,id=nic1"
	ok "the new one comes" wait_until 20 test -e /sys/bus/pci/devices/$NEW
	now=$(sysfs $PORT)
	is "$now" "1 1" "the link is at 2.5 GT/s x1"
	ok "that is told" wait_until 10 trace_has links \
		".kind == \"pcie.link\" and .data.port == \"$PORT\" and .data.to.width == 1"
	is "$(of pcie.link 'select(.to.width == 1) | "\(.to.gen) \(.to.width) \(.to.gbps) \(.reason)"')" \
		"$now 2 poll" "as sysfs has it, 2 Gbit/s"
	ok "and the new one" wait_until 10 trace_has links \
		".kind == \"inv.pci\" and .data.serves == \"$NEW\""
	is "$(of inv.pci "select(.serves == \"$NEW\") | [.now.gen, .now.width, .slot] | @json" |
		tail -n 1)" "[1,1,\"$SLOT\"]" "with its link and slot"
	is "$(of pcie.hotplug 'select(.event == "device added") | .device')" "$NEW" "added"
	is "$(of pcie.link '.transitions_total' | tail -n 1)" 2 "two changes in all"
}

counted()
{
	[[ $(aer "$PORT" nonfatal TLP) -gt 0 ]]
}

# What the counters gain is what the kernel's own say. QEMU forwards no correctable errors.
check_counters()
{
	monitor pcie_aer_inject_error port0 POISON_TLP
	ok "the kernel counts an error of the port" wait_until 10 counted
	ok "so do we" wait_until 10 trace_has links \
		".kind == \"pcie.counter\" and .data.device == \"$PORT\" and .data.error == \"TLP\""
	is "$(of pcie.counter 'select(.error == "TLP") | [.total, .delta, .aer_class] | @json')" \
		"[$(aer "$PORT" nonfatal TLP),1,\"nonfatal\"]" "as many"
}

# Without CAP_SYS_ADMIN speed and width are seen, and it is said what is not.
check_unprivileged()
{
	# shellcheck disable=SC2034 # lib.sh reads it
	TRACE_AS=(setpriv --inh-caps -sys_admin --bounding-set -sys_admin)
	trace_start less -d 1
	unset TRACE_AS
	trace_wait less
	like "$(trace_jq less '.[] | select(.kind == "probe" and .data.program == "pcie_poll") |
		.data.reason')" "LBMS unseen: needs CAP_SYS_ADMIN" "without the right: LBMS is unseen"
	ok "and named" trace_has less \
		'.kind == "inv.host" and (.data.what | startswith("LBMS, LABS, training"))'
}

need jq setpci setpriv
need_built "$FABRICTRACE"
trace_start links
check_before
check_quiet
check_out
check_in
check_counters
trace_stop links
check_unprivileged
done_testing
