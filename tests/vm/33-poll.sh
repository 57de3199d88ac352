#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 150
# What looking at the links costs the simulated node: one read per link and look, none of a device
# that sleeps, no line in the kernel log. And 1,415 changes between two looks at a healthy link.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
# shellcheck source=hgx/lib.sh
. "$(dirname "$0")/hgx/lib.sh"

[[ -n ${FT_VM_KERNEL-} ]] || skip_all "runs in a guest: tests/vm/kernel KERNEL"
need jq
need_built "$FABRICTRACE"

readonly CHANGES=1415 # as many as users have seen in two minutes

# looks_of NAME: at each link, as the tracer counts them.
reads_of_all()
{
	awk '
	/^#/ { for (i = 2; i <= NF; i++) if ($i == "link-reads") c = i - 1; next }
	{ sum += $c } END { print sum + 0 }' $HGX/functions
}

# Ports with a link below, each read once per look; looks of all links come together.
check_reads()
{
	local began ended ports=20 reads ms want

	trace_start cost --pcie-interval 200
	sleep 3 # the inventory is read, the first looks are over
	hgx_reset_counts
	began=$(now_ms)
	sleep 8
	reads=$(reads_of_all)
	ended=$(now_ms)
	ms=$((ended - began))
	want=$((ports * ms / 200))
	diag "$reads reads of Link Status in $ms ms"
	ok "at most one read per link and look ($want)" test "$reads" -le $((want + 2 * ports))
	ok "and no look was left out" test "$reads" -ge $((want / 2))
	is "$(hgx_reads 0001:13:00.0)" 0 "the other end is not read"
	trace_stop cost
}

# A function without a driver sleeps when it is allowed to.
check_asleep()
{
	local device=/sys/bus/pci/devices/0001:1b:00.0

	echo 0001:1b:00.0 >"$device/driver/unbind"
	echo auto >$device/power/control
	if ! wait_until 10 grep -qx suspended $device/power/runtime_status; then
		skip "the kernel suspends no simulated device"
		echo on >$device/power/control
		return
	fi
	trace_start asleep --pcie-interval 200
	hgx_reset_counts
	sleep 4
	is "$(<$device/power/runtime_status)" suspended "a device that sleeps goes on sleeping"
	is "$(hgx_reads 0001:1b:00.0)" 0 "and is not read"
	trace_stop asleep
	is "$(trace_jq asleep '[.[] | select(.kind == "inv.pci" and
		.data.device == "0001:1b:00.0") | .data.asleep] | unique | tojson')" "[true]" \
		"it is named as asleep"
	echo on >$device/power/control
}

# From Gen5 to Gen1 and back, an odd number: it ends healthy with one more by hand.
check_changes()
{
	local seen total

	trace_start many --pcie-interval 10
	hgx_toggle 0001:1a:00.0 $CHANGES 8000 1 16 5 16 0x8000
	is "$(hgx_toggled)" $CHANGES "the link changed $CHANGES times"
	hgx_link 0001:1a:00.0 5 16
	sleep 2
	trace_stop many
	seen=$(trace_jq many '[.[] | select(.kind == "pcie.link" and
		.data.port == "0001:18:01.0") | .data.transitions // 0] | add // 0')
	total=$(hgx_get 0001:18:01.0 changes)
	diag "$seen of $total changes seen"
	trace_jq many '.[-1].data | .cause, .evidence' -c | while read -r line; do diag "$line"; done
}

hgx_load
dmesg -C
check_reads
check_asleep
check_changes
is "$(dmesg | grep -c 0001: || :)" 0 "no line in the kernel log"

done_testing
