#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 90
# PCIe errors made by QEMU: each is told once, by its name, of the right device, and the sum of what
# is told is what the kernel's own counters say.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq setpci
need_built "$FABRICTRACE"

readonly BURST=1000

# Name at the monitor, and what the kernel calls it. Of an endpoint's fatal errors the kernel reads
# nothing: those are the port's.
readonly CORRECTABLE=(0x1 RxErr 0x40 BadTLP 0x80 BadDLLP 0x100 Rollover 0x1000 Timeout)
readonly NONFATAL=(POISON_TLP TLP COMP_TIME CmpltTO COMP_ABORT CmpltAbrt UNX_COMP UnxCmplt
	UNSUP UnsupReq)
readonly FATAL=(DLP DLP SDN SDES FCP FCP RX_OVER RxOF MALF_TLP MalfTLP)

# A header whose words read the same from both ends: QEMU before 8 swaps their bytes. A write of 96
# words by 01:00.0 to an address of 64 bits.
readonly HEADER='0x60000060 0x01000001 0x38000038 0xabcdcdab'

PORT=$(bdf_of_port 1)
EMPTY=$(bdf_of_port 3)
NIC=$(bdf_below "$PORT")

# count_told BDF CLASS NAME: errors of that name in the events.
count_told()
{
	count_of aer ".kind == \"pcie.aer\" and .data.before == false and .data.device == \"$1\" and
		.data.aer_class == \"$2\" and (.data.errors | index(\"$3\"))"
}

counted()
{
	[[ $(aer_get "$1" "$2" "$3") -ge $4 ]]
}

# Whatever was not handled stays in the register and would be told with the next one.
forget_status()
{
	setpci -s "$1" ECAP_AER+4.l=ffffffff ECAP_AER+10.l=ffffffff
}

# inject BDF CLASS NAME MONITOR-ARGUMENTS
inject()
{
	local bdf=$1 class=$2 name=$3 before

	before=$(aer_get "$bdf" "$class" "$name")
	monitor "pcie_aer_inject_error ${*:4}" >/dev/null
	wait_until 5 counted "$bdf" "$class" "$name" $((before + 1)) || return 1
	forget_status "$bdf"
}

# each BDF CLASS MONITOR-ID ERRORS..
each()
{
	local bdf=$1 class=$2 id=$3

	shift 3
	[[ $class != correctable ]] || id="-c $id"
	while [[ $# -gt 0 ]]; do
		# shellcheck disable=SC2086 # words of a command
		ok "$class $2 can be had of $bdf" inject "$bdf" "$class" "$2" $id "$1" $HEADER
		shift 2
	done
}

# QEMU before 8.0 keeps correctable errors for itself.
has_correctable()
{
	inject "$NIC" correctable RxErr -c aer-nic 0x1
}

# One connection to the monitor takes many; the kernel's queue holds 128 of them. Errors that came
# before the last was read are one, in the counters too.
burst()
{
	local before missing

	before=$(aer_get "$NIC" correctable BadDLLP)
	for _ in {1..20}; do
		missing=$((before + BURST - $(aer_get "$NIC" correctable BadDLLP)))
		[[ $missing -gt 0 ]] || return 0
		yes 'pcie_aer_inject_error -c aer-nic 0x80' | head -n $((missing < 500 ? missing : 500)) |
			monitor_lines >/dev/null
	done
	return 1
}

# counters COMMAND: runs it with device, class, name and count of each counter of this machine.
counters()
{
	local dir bdf class name count

	for dir in /sys/bus/pci/devices/*/aer_dev_correctable; do
		bdf=$(basename "$(dirname "$dir")")
		for class in correctable nonfatal fatal; do
			while read -r name count; do
				[[ $name == TOTAL_* ]] || "$1" "$bdf" "$class" "$name" "$count"
			done <"${dir%correctable}$class"
		done
	done
}

remember()
{
	BEFORE[$1 $2 $3]=$4
}

check_counter()
{
	local counted=$(($4 - ${BEFORE[$1 $2 $3]-0})) told=${TOLD[$1 $2 $3]-0}

	[[ $counted -eq 0 && $told -eq 0 ]] ||
		is "$told" "$counted" "$1 $2 $3: told as often as counted, $counted"
}

# Every counter that moved, of every device, against the events.
# shellcheck disable=SC2016 # variables of jq
check_sums()
{
	local bdf class name count

	while read -r bdf class name count; do
		TOLD[$bdf $class $name]=$count
	done < <(trace_jq aer 'map(select(.kind == "pcie.aer" and .data.before == false) | . as $e | .data.errors[] |
		{ key: "\($e.data.device) \($e.data.aer_class) \(.)", count: $e.count }) |
		group_by(.key)[] | "\(.[0].key) \(map(.count) | add)"')
	counters check_counter
}

# check_names BDF CLASS NAME..: only what was injected is told.
check_names()
{
	local told

	told=$(trace_jq aer "[.[] | select(.kind == \"pcie.aer\" and .data.before == false and .data.device == \"$1\" and
		.data.aer_class == \"$2\") | .data.errors[]] | unique | join(\" \")")
	is "$told" "$(printf '%s\n' "${@:3}" | sort | paste -sd' ')" "$1 $2: no other names"
}

odd()
{
	local i

	for ((i = 2; i <= $#; i += 2)); do
		echo "${!i}"
	done
}

check_header()
{
	local header

	header=$(trace_jq aer "[.[] | select(.kind == \"pcie.aer\" and .data.before == false and .data.device == \"$NIC\" and
		.data.errors == [\"TLP\"])][0].data.tlp | [.type, .requester, .address, .dw0, .dw3] |
		join(\" \")")
	is "$header" "MWr 0000:01:00.0 0x38000038abcdcda8 0x60000060 0xabcdcdab" \
		"the packet with the error is told"
	is "$(trace_jq aer '[.[] | select(.kind == "pcie.aer" and .data.before == false and .data.aer_class == "correctable" and
		.data.tlp.dw0 != null)] | length')" 0 "and none where there is none"
}

# The advisory one comes with a packet, where that is told at all (7.3).
# Correctable errors first: a fatal one resets the NIC, which then reports nothing.
check_errors()
{
	local advisory=false

	if has_correctable; then
		each "$NIC" correctable aer-nic "${CORRECTABLE[@]}"
		ok "$BURST errors at once" burst
		[[ $FT_VM_KERNEL != 7 ]] || advisory=true
		setpci -s "$NIC" ECAP_AER+14.l=0
		# shellcheck disable=SC2086 # words of a command
		ok "an advisory error" inject "$NIC" correctable NonFatalErr -a aer-nic POISON_TLP \
			$HEADER
	else
		skip "correctable errors" "this QEMU routes none (8.0 does)"
	fi
	forget_status "$NIC"
	each "$NIC" nonfatal aer-nic "${NONFATAL[@]}"
	monitor pcie_aer_inject_error aer-nic MALF_TLP >/dev/null
	ok "a fatal error of the NIC" wait_until 10 trace_has aer '.kind == "pcie.gone"'
	each "$PORT" fatal aer-port "${FATAL[@]}"
	# Below this port nobody stands in the way of a recovery.
	each "$EMPTY" nonfatal empty-port POISON_TLP TLP
	ADVISORY=$advisory
}

# The kernel logs not all of them (6.16+), we tell all.
check_burst()
{
	local lines told

	has_kind_correctable || return 0
	told=$(count_told "$NIC" correctable BadDLLP)
	ok "it was one: $told" test "$told" -gt $BURST
	lines=$(trace_jq aer '[.[] | select(.kind == "pcie.aer" and .data.before == false and
		.data.errors == ["BadDLLP"])] | length')
	ok "told in fewer lines: $lines" test "$lines" -lt "$told"
	diag "the kernel logged $(dmesg | grep -c 'BadDLLP') of them"
}

has_kind_correctable()
{
	[[ $(count_told "$NIC" correctable BadDLLP) -gt 0 ]]
}

check_told()
{
	local names=()

	mapfile -t names < <(odd "${NONFATAL[@]}")
	check_names "$NIC" nonfatal "${names[@]}"
	mapfile -t names < <(odd "${FATAL[@]}")
	check_names "$PORT" fatal "${names[@]}"
	if has_kind_correctable; then
		mapfile -t names < <(odd "${CORRECTABLE[@]}")
		check_names "$NIC" correctable "${names[@]}" NonFatalErr
	fi
	is "$(trace_jq aer '[.[] | select(.kind == "pcie.aer" and .data.before == false) | .data.advisory] | any')" "$ADVISORY" \
		"an advisory error that is told again is marked"
	is "$(trace_jq aer "[.[] | select(.kind == \"pcie.aer\" and .data.before == false and .data.errors == [])] |
		map([.data.device, .data.aer_class, .data.status] | join(\" \")) | join(\";\")")" \
		"$NIC fatal 0x0" "a fatal error of an endpoint has no name"
	is "$(trace_jq aer '[.[] | select(.kind == "pcie.gone") | .data.device] | join(" ")')" "$NIC" \
		"which leaves it inaccessible"
	is "$(trace_jq aer '[.[] | select(.kind == "pcie.aer" and .data.before == false) | .data.bus_type] | unique |
		tojson')" "$([[ $FT_VM_KERNEL == 7 ]] && echo '["PCIe"]' || echo '[null]')" \
		"the bus is named where the kernel does"
	is "$(trace_jq aer 'map(select(.pid != null and (.kind | startswith("pcie")))) | length')" 0 \
		"of no process"
}

# One begin and one end for each error that is not correctable, but those told twice.
check_recovery()
{
	local n

	n=$(count_of aer '.kind == "pcie.aer" and .data.before == false and .data.aer_class != "correctable" and
		(.data.advisory | not)')
	is "$(count_of aer '.kind == "pcie.recovery" and .data.result == "recovery begins"')" "$n" \
		"$n recoveries begin"
	is "$(count_of aer '.kind == "pcie.recovery" and .data.result == "recovery failed"')" \
		$((n - 1)) "all but one in vain"
	is "$(trace_jq aer '[.[] | select(.data.result? == "recovered") | .data.device] | join(" ")')" \
		"$EMPTY" "which is that of the empty port"
}

declare -A BEFORE=() TOLD=()
ADVISORY=
ok "the ports and the NIC are there: $PORT $NIC $EMPTY" test -n "$PORT" -a -n "$NIC" -a -n "$EMPTY"
# Kernels before 6.1 leave it to the driver to switch reporting on; virtio's does not.
setpci -s "$NIC" CAP_EXP+8.w=f:f
dmesg -n 1
counters remember
trace_start aer
check_errors
trace_stop aer
is "${TRACE_STATUS[aer]}" 0 "fabrictrace: exit status"
check_sums
check_told
check_header
check_burst
check_recovery
is "$(trace_jq aer 'map(select(.kind == "lost")) | length')" 0 "nothing is lost"

done_testing
