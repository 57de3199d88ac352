#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 150
# What looking at the links costs the simulated node: one read per link and look, none of a device
# that sleeps, no line in the kernel log. And 1,416 changes of a link that is healthy before and after.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
# shellcheck source=hgx/lib.sh
. "$(dirname "$0")/hgx/lib.sh"

[[ -n ${FT_VM_KERNEL-} ]] || skip_all "runs in a guest: tests/vm/kernel KERNEL"
need jq
need_built "$FABRICTRACE"

readonly TRACE=/sys/kernel/tracing
readonly CHANGES=1416 # as many as users have seen in two minutes, and healthy before and after

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

# Changes that the kernel tells of (7.0+): those that come before it has handled the one before merge.
kernel_changes()
{
	awk -v last=24 '
	/pcie_link_event: 0001:18:01.0 .*reason:3/ {
		match($0, /cur_bus_speed:[0-9]+/)
		speed = substr($0, RSTART + 14, RLENGTH - 14)
		n += speed != last
		last = speed
	}
	END { print n + 0 }' "$TRACE/trace"
}

# Where the kernel tells of them they are counted as it does, else as far as looks go.
check_changes()
{
	local pace=8000 says

	if [[ -e $TRACE/events/pci/pcie_link_event ]]; then
		pace=20000
		echo 4096 >"$TRACE/buffer_size_kb"
		echo 1 >"$TRACE/events/pci/pcie_link_event/enable"
	fi
	trace_start many --pcie-interval 20
	hgx_toggle 0001:1a:00.0 $CHANGES $pace 1 16 5 16 0x8000
	is "$(hgx_toggled 120)" $CHANGES "the link changed $CHANGES times"
	is "$(<"/sys/bus/pci/devices/0001:1a:00.0/current_link_speed")" "32.0 GT/s PCIe" \
		"and is as it was before"
	sleep 1
	trace_stop many
	is "$(trace_jq many '.[-1].data.cause.kind')" pcie-link-flapping "it is named as flapping"
	says=$(trace_jq many '.[-1].data.evidence[] | select(test("changes? of speed"))')
	if [[ -e $TRACE/events/pci/pcie_link_event ]]; then
		is "$says" "$(kernel_changes) changes of speed or width (counted by events)" \
			"with all changes that the kernel told of"
		ok "which are nearly all" test "$(kernel_changes)" -gt $((CHANGES * 9 / 10))
		return
	fi
	like "$says" '^at least [0-9]+ changes of speed or width \(seen by looks: what is shorter' \
		"with what looks can see, which is said"
	ok "no more than there were" test "$(tr -dc 0-9 <<<"${says%%changes*}")" -le $CHANGES
}

mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
hgx_load
dmesg -C
check_reads
check_asleep
check_changes
is "$(dmesg | grep -c 0001: || :)" 0 "no line in the kernel log"

done_testing
