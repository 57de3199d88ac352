#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 150
# On the simulated node, while ranks hold its GPUs: a link that narrows in place, a switch's uplink
# that all below it pay for, a GPU taken out under load, and errors that one end reports.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
# shellcheck source=hgx/lib.sh
. "$(dirname "$0")/hgx/lib.sh"

[[ -n ${FT_VM_KERNEL-} ]] || skip_all "runs in a guest: tests/vm/kernel KERNEL"
need jq
need_built "$FABRICTRACE"

readonly INTERVAL_MS=500 # emulated, and beside another guest: a look may come late
declare -a RANK_PID=()

# Ranks 8 to 15 of 64 hold GPUs 0 to 7.
start_ranks()
{
	local gpu

	for gpu in {0..7}; do
		RANK=$((8 + gpu)) LOCAL_RANK=$gpu WORLD_SIZE=64 \
			bash -c "exec 5<>/dev/nvidia$gpu && exec sleep 1000" &
		RANK_PID[gpu]=$!
		own_process $!
	done
	for gpu in {0..7}; do
		wait_until 10 test "$(readlink "/proc/${RANK_PID[gpu]}/exe")" = "$(command -v sleep)" || :
	done
}

# attach NAME: to all ranks.
attach()
{
	trace_start "$1" -p "$(IFS=,; echo "${RANK_PID[*]}")" --pcie-interval $INTERVAL_MS
}

# sysfs, whose numbers are the kernel's own: "32.0 GT/s PCIe x16"
now_of()
{
	echo "$(<"/sys/bus/pci/devices/$1/current_link_speed") x$(<"/sys/bus/pci/devices/$1/current_link_width")"
}

real_ns() { date +%s%N; }

# cause NAME: kind and object of the verdict's cause.
cause()
{
	trace_jq "$1" '.[-1].data.cause | .kind, .object' | paste -sd' '
}

hit_ranks()
{
	trace_jq "$1" '[.[-1].ranks[].global_rank] | sort | map(tostring) | join(" ")'
}

check_degraded()
{
	local device=0001:1a:00.0 port=0001:18:01.0 before after ts link

	attach narrow
	is "$(now_of $device)" "32.0 GT/s PCIe x16" "the link is at full speed"
	before=$(real_ns)
	hgx_link $device 3 8
	after=$(real_ns)
	is "$(now_of $device)" "8.0 GT/s PCIe x8" "then the kernel sees Gen3 x8"
	ok "an event says so" wait_until 5 trace_has narrow \
		".kind == \"pcie.link\" and .data.port == \"$port\" and .data.to.width == 8"
	trace_stop narrow
	link=$(trace_jq narrow "map(select(.kind == \"pcie.link\" and .data.port == \"$port\"))[0] |
		[.ts_ns, .data.from.gen, .data.from.width, .data.from.gbps, .data.to.gen,
		.data.to.width, .data.to.gbps, .data.slot, .ranks[0].global_rank, .gpus[0].index] |
		@tsv")
	read -r ts link <<<"$link"
	is "$(xargs <<<"$link")" "5 16 504 3 8 63 16 11 3" \
		"from and to, Gbit/s after line coding, slot, rank and GPU"
	ok "within two looks: $(((ts - before) / 1000000)) ms after it was asked for" \
		test "$ts" -ge "$before" -a "$ts" -le $((after + 2 * INTERVAL_MS * 1000000))
	is "$(cause narrow)" \
		"pcie-link-degraded PCIe link of GPU 3 = rank 11, slot 16 ($port -> 1a:00.0)" \
		"the verdict names the link, its slot, the GPU and the rank"
	is "$(trace_jq narrow '.[-1].data.confidence')" high "for certain"
	is "$(hit_ranks narrow)" 11 "and who is hit directly"
	like "$(trace_jq narrow '.[-1].data.evidence | join("; ")')" "63.0 -> 7.9 GB/s" \
		"GB/s before and after are in the evidence"
	hgx_link $device 5 16
}

check_uplink()
{
	local port=0001:10:01.0

	attach uplink
	hgx_link $port 5 4
	ok "an event says so" wait_until 5 trace_has uplink \
		".kind == \"pcie.link\" and .data.port == \"$port\" and .data.to.width == 4"
	trace_stop uplink
	like "$(cause uplink)" "^pcie-link-degraded .*0001:10:01.0 -> 17:00.0" \
		"the verdict names the uplink"
	is "$(hit_ranks uplink)" "10 11" "and the ranks below it"
	hgx_link $port 5 16
}

check_at_attach()
{
	hgx_link 0001:17:00.0 4 16
	attach early
	trace_stop early
	like "$(cause early)" "^pcie-link-degraded .*0001:10:01.0 -> 17:00.0" \
		"an uplink that was slow before the attach is named"
	is "$(hit_ranks early)" "10 11" "with the ranks below it"
	hgx_link 0001:17:00.0 5 16
}

# sum_of NAME DEVICE CLASS: what the events say.
sum_of()
{
	trace_jq "$1" "map(select(.kind == \"pcie.aer\" and .data.device == \"$2\" and
		.data.aer_class == \"$3\" and .data.before == false) | .count) | add // 0"
}

total_of()
{
	awk '/^TOTAL/ { print $2 }' "/sys/bus/pci/devices/$1/aer_dev_$2"
}

check_ends()
{
	local port=0001:12:00.0 device=0001:13:00.0 before_port before_device

	before_port=$(total_of $port correctable)
	before_device=$(total_of $device correctable)
	attach ends
	hgx_aer $port cor 0x1 12
	hgx_aer $device cor 0x40 3
	ok "both are seen" wait_until 5 trace_has ends \
		".kind == \"pcie.aer\" and .data.device == \"$device\" and .data.errors == [\"BadTLP\"]"
	trace_stop ends
	is "$(sum_of ends $port correctable)" \
		$(($(total_of $port correctable) - before_port)) "the port's errors, as sysfs has them"
	is "$(sum_of ends $device correctable)" \
		$(($(total_of $device correctable) - before_device)) "the GPU's, as sysfs has them"
	is "$(trace_jq ends '[.[] | select(.kind == "pcie.aer" and .data.before == false) |
		.links[0]] | unique | join(" ")')" \
		$port "both belong to one link"
	is "$(trace_jq ends '[.[] | select(.kind == "pcie.aer" and .data.before == false) |
		.ranks[0].global_rank] | unique | map(tostring) | join(" ")')" 8 "and to the rank that uses it"
	like "$(cause ends)" "^pcie-errors .*rank 8.*$port -> 13:00.0" "the verdict names the link"
	like "$(trace_jq ends '.[-1].data.evidence | join("; ")')" "12.*port" \
		"and which end has counted more"
}

check_gone()
{
	local device=0001:8a:00.0

	attach gone
	hgx_plug $device 0
	ok "it is out for the kernel, too" wait_until 20 test ! -e /sys/bus/pci/devices/$device
	ok "an event says so" wait_until 10 trace_has gone \
		".kind == \"pcie.gone\" and .data.device == \"$device\""
	trace_stop gone
	like "$(cause gone)" "^pcie-device-gone .*GPU 7.*rank 15" "the verdict names GPU and rank"
	is "$(hit_ranks gone)" 15 "who is hit directly"
}

hgx_load
start_ranks
check_degraded
check_uplink
check_at_attach
check_ends
check_gone

done_testing
