#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# A link that comes back slower and narrower: a NIC below a root port of QEMU's is taken out and
# another one put in, x16 at the port's full speed before, 2.5 GT/s x1 after. What the tracer says of
# it by polling is what sysfs says.
#
# The link is that of the port to function 0. A second root port stands there, because of QEMU's
# devices it alone is as fast as its port; the NIC is function 1.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

SLOT=5
PORT=$(bdf_of_port $SLOT)
NEW=$(bdf_below "$PORT" | sed -n 1p)
OLD=${NEW%.0}.1
NIC=virtio-net-pci,bus=link-port,aer=on,disable-legacy=on
FAST=$([[ $FT_VM_SPEED == 32 ]] && echo 5 || echo 4)
GBPS=$([[ $FAST == 5 ]] && echo 504 || echo 252)

# sysfs BDF: "generation width"
sysfs()
{
	local speed width

	speed=$(cat "/sys/bus/pci/devices/$1/current_link_speed")
	width=$(cat "/sys/bus/pci/devices/$1/current_link_width")
	case $speed in
	2.5*) echo "1 $width" ;;
	16*) echo "4 $width" ;;
	32*) echo "5 $width" ;;
	*) echo "$speed $width" ;;
	esac
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
	is "$(sysfs "$PORT")" "$FAST 16" "the link is as fast as its port"
	is "$(of inv.pci "select(.serves == \"$OLD\") | [.active, .os_aer, .asleep, .slot] | @json")" \
		"[true,true,false,\"$SLOT\"]" "up, with the kernel's AER, in its slot"
	is "$(of inv.pci "select(.serves == \"$OLD\") | .target_gen")" \
		"$((0x$(setpci -s "$PORT" CAP_EXP+30.w) & 15))" "its target speed is that of setpci"
	is "$(trace_jq links '.[] | select(.kind == "probe" and .data.program == "pcie_poll") |
		[.data.state, .data.reason] | @json')" '["attached",null]' "polled, by its registers"
}

check_out()
{
	monitor device_del link-nic
	ok "the old one goes" wait_until 20 test ! -e "/sys/bus/pci/devices/$OLD"
	ok "that is told" wait_until 10 trace_has links \
		".kind == \"pcie.gone\" and .data.device == \"$OLD\" and .data.how_seen == \"removed\""
	ok "so is the end of the link" wait_until 10 trace_has links \
		".kind == \"pcie.link\" and .data.port == \"$PORT\" and .data.to.width == 0 and
		.data.reason == \"poll\""
	is "$(of pcie.link 'select(.reason == "poll" and .to.width == 0) | [.from.gen, .from.width, .from.gbps] | @json')" \
		"[$FAST,16,$GBPS]" "which was at full speed, $GBPS Gbit/s"
}

check_in()
{
	local now

	monitor "device_add $NIC,id=link-nic2"
	ok "the new one comes" wait_until 20 test -e "/sys/bus/pci/devices/$NEW"
	now=$(sysfs "$PORT")
	is "$now" "1 1" "the link is at 2.5 GT/s x1"
	ok "that is told" wait_until 10 trace_has links \
		".kind == \"pcie.link\" and .data.port == \"$PORT\" and .data.to.width == 1 and
		.data.reason == \"poll\""
	is "$(of pcie.link 'select(.reason == "poll" and .to.width == 1) | "\(.to.gen) \(.to.width) \(.to.gbps) \(.reason)"')" \
		"$now 2 poll" "as sysfs has it, 2 Gbit/s"
	ok "and the new one" wait_until 10 trace_has links \
		".kind == \"inv.pci\" and .data.serves == \"$NEW\""
	is "$(of inv.pci "select(.serves == \"$NEW\") | [.now.gen, .now.width, .slot] | @json" |
		tail -n 1)" "[1,1,\"$SLOT\"]" "with its link and slot"
	is "$(of pcie.hotplug 'select(.event == "device added") | .device')" "$NEW" "added"
	is "$(of pcie.link 'select(.reason == "poll") | .transitions_total' | tail -n 1)" 2 "two changes in all"
}

counted()
{
	[[ $(aer_get "$PORT" nonfatal TLP) -gt 0 ]]
}

# What the counters gain is what the kernel's own say. QEMU 7 forwards no correctable errors.
check_counters()
{
	monitor pcie_aer_inject_error link-port POISON_TLP >/dev/null
	ok "the kernel counts an error of the port" wait_until 10 counted
	ok "so do we" wait_until 10 trace_has links \
		".kind == \"pcie.counter\" and .data.device == \"$PORT\" and .data.error == \"TLP\""
	is "$(of pcie.counter 'select(.error == "TLP") | [.total, .delta, .aer_class] | @json')" \
		"[$(aer_get "$PORT" nonfatal TLP),1,\"nonfatal\"]" "as many"
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
