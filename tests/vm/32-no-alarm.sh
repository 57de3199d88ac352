#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 150
# What is no fault on the simulated node: a GPU that saves power, Gen5 cards in Gen4 slots, a
# planned reset, a driver loaded anew, a spare that is plugged. Each is seen, none is an incident.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
# shellcheck source=hgx/lib.sh
. "$(dirname "$0")/hgx/lib.sh"

[[ -n ${FT_VM_KERNEL-} ]] || skip_all "runs in a guest: tests/vm/kernel KERNEL"
need jq
need_built "$FABRICTRACE"

readonly INTERVAL_MS=200

# One rank, on GPU 0.
start_rank()
{
	RANK=8 LOCAL_RANK=0 WORLD_SIZE=64 bash -c "exec 5<>/dev/nvidia0 && exec sleep 1000" &
	RANK_PID=$!
	own_process $!
	wait_until 10 test "$(readlink "/proc/$RANK_PID/exe")" = "$(command -v sleep)" || :
}

# seen_link PORT GEN WIDTH
seen_link()
{
	ok "$4: is seen" wait_until 10 trace_has quiet ".kind == \"pcie.link\" and
		.data.port == \"$1\" and .data.to == {gen: $2, width: $3, gbps: .data.to.gbps}"
}

idle_downshift()
{
	hgx_link 0001:13:00.0 1 16
	seen_link 0001:12:00.0 1 16 "a GPU that goes to Gen1"
	hgx_link 0001:13:00.0 4 16
	ok "and back" wait_until 10 trace_has quiet '.kind == "pcie.link" and
		.data.port == "0001:12:00.0" and .data.from.gen == 1 and .data.to.gen == 4'
}

# Of a switch that nobody uses: for a moment reads of its ports give ones.
planned_reset()
{
	local port=0001:80:00.0

	hgx_gone 0001:81:00.0 1
	ok "a reset: reads give ones" wait_until 10 trace_has quiet '.kind == "pcie.gone" and
		.data.port == "'$port'" and .data.how_seen == "all-ones reads"'
	hgx_gone 0001:81:00.0 0
	ok "and the end of it" wait_until 10 trace_has quiet '.kind == "pcie.gone" and
		.data.port == "'$port'" and .data.how_seen == "answers again"'
}

driver_reload()
{
	local driver

	driver=$(readlink -f /sys/bus/pci/devices/0001:15:00.0/driver)
	echo 0001:15:00.0 >"$driver/unbind"
	ok "the NIC has no driver" test ! -e /sys/bus/pci/devices/0001:15:00.0/driver
	echo 0001:15:00.0 >"$driver/bind"
	ok "and has it again" test -e /sys/bus/pci/devices/0001:15:00.0/driver
}

spare_plugged()
{
	hgx_plug 0001:8c:00.0 1
	ok "the spare is found by the kernel" wait_until 20 \
		test -e /sys/bus/pci/devices/0001:8c:00.0
	ok "a hot plugged NIC is seen" wait_until 10 trace_has quiet \
		'(.kind == "pcie.hotplug" or .kind == "inv.pci" or .kind == "pcie.link") and
		(.data.device == "0001:8c:00.0" or .data.port == "0001:88:03.0") and .ts_ns > "'"$1"'"'
}

check_quiet()
{
	is "$(trace_jq quiet '.[-1].data.cause.kind')" null "the verdict names no cause"
	is "$(trace_jq quiet '[.[] | select(.kind == "incident" and .severity != "info") |
		.data.text] | join("; ")')" "" "nothing was an incident"
	is "$(trace_jq quiet '[.[] | select(.kind == "pcie.link" and .data.to.gen > 6)] | length')" 0 \
		"ones are no speed"
	is "$(trace_jq quiet '[.[] | select(.kind == "pcie.link" and
		.data.port == "0001:18:00.0")] | length')" 0 "a Gen5 card in a Gen4 slot is no news"
}

# Of all GPUs: one that has less than its equals would be a suspect. The kernel asks a port for its
# speeds once.
slower_slots()
{
	local gpu port

	for gpu in {0..7}; do
		port=$(hgx_port "$(hgx_bdf gpu "$gpu")")
		hgx_cap "$port" 4 16
		hgx_link "$port" 4 16
		echo 1 >"/sys/bus/pci/devices/$port/remove"
	done
	echo 1 >/sys/bus/pci/rescan
	is "$(</sys/bus/pci/devices/0001:18:00.0/max_link_speed)" "16.0 GT/s PCIe" "a Gen4 slot"
	is "$(</sys/bus/pci/devices/0001:19:00.0/max_link_speed)" "32.0 GT/s PCIe" "its Gen5 card"
}

hgx_load
slower_slots
hgx_plug 0001:8c:00.0 0
ok "a slot without its card" wait_until 20 test ! -e /sys/bus/pci/devices/0001:8c:00.0
start_rank
dmesg -C
trace_start quiet -p $RANK_PID --pcie-interval $INTERVAL_MS
idle_downshift
planned_reset
driver_reload
spare_plugged "$(date +%s%N)"
sleep 6
trace_stop quiet
check_quiet

done_testing
