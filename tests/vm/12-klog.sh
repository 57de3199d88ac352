#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# The kernel log, on this kernel's own lines: AER errors from before the attach become records with
# the log's times, later ones are told once, whoever tells them, and nobody else's lines are believed.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq python3
need_built "$FABRICTRACE"

# A NIC of its own: a fatal error leaves it inaccessible.
find_devices()
{
	PORT=$(bdf_of_port 7) && NIC=$(bdf_below "$PORT") && [[ -n $NIC ]]
}

# inject BDF UNCORRECTABLE CORRECTABLE: through the kernel's own AER service. Waits for its lines.
inject()
{
	local lines

	lines=$(dmesg -k | grep -c "$1: .*$LAST_LINE" || :)
	BEGAN+=("${EPOCHREALTIME/./}000")
	python3 - "$@" <<-'END'
		import struct, sys
		domain, bus, device = sys.argv[1].split(":")
		device, function = device.split(".")
		data = struct.pack("<BBBxIIIIIII", int(bus, 16), int(device, 16), int(function),
			int(sys.argv[2], 0), int(sys.argv[3], 0), 0x40000001, 0xf, 0xfe000000, 4,
			int(domain, 16))
		open("/dev/aer_inject", "wb", buffering=0).write(data)
	END
	wait_until 10 log_grew "$1" "$lines"
	SEEN+=("${EPOCHREALTIME/./}000")
}

readonly LAST_LINE='\(error status/mask=\|Inaccessible\)'
log_grew()
{
	[[ $(dmesg -k | grep -c "$1: .*$LAST_LINE") -gt $2 ]]
}

# Of the records of a run: "device class errors" in order.
aer_of()
{
	trace_jq "$1" ".[] | select(.kind == \"pcie.aer\" and (.data.before == $2)) |
		[.data.device, .data.aer_class, (.data.errors | join(\"+\"))] | join(\" \")"
}

# Whether each record of before is dated between the injection and the sight of its lines.
dated_right()
{
	local ts i=0

	while read -r ts; do
		diag "$ts: ${BEGAN[i]} .. ${SEEN[i]}"
		[[ $ts -ge ${BEGAN[i]} && $ts -le ${SEEN[i]} ]] || return 1
		i=$((i + 1))
	done < <(trace_jq "$1" '.[] | select(.kind == "pcie.aer" and .data.before) | .ts_ns')
	[[ $i -eq ${#BEGAN[@]} ]]
}

check_before()
{
	inject "$NIC" 0 0x1
	inject "$NIC" 0 0x1041
	inject "$PORT" 0 0x80
	inject "$NIC" 0x1000 0
	wait_until 10 recovery_logged
	trace_start first
	ok "the kernel log is read" trace_has first \
		'.kind == "probe" and .data.program == "kmsg" and .data.state == "attached"'
	is "$(aer_of first true)" "$NIC correctable RxErr
$NIC correctable RxErr+BadTLP+Timeout
$PORT correctable BadDLLP
$NIC nonfatal TLP" "errors of before the attach, named right, each once"
	ok "and dated right" dated_right first
	is "$(trace_jq first 'map(select(.kind == "pcie.aer" and .data.before) |
		[.before_attach, .late]) | unique | tojson')" '[[true,null]]' \
		"they are marked, and in their place"
	is "$(trace_jq first '.[0].kind')" session "though the session's line is the first"
	is "$(trace_jq first '.[] | select(.kind == "pcie.recovery" and .data.before) |
		[.data.device, .data.result] | join(" ")')" "$NIC recovery failed
$PORT recovery failed" "and the recovery that failed"
}

recovery_logged()
{
	dmesg -k | grep -q "AER: device recovery failed"
}

# Told by the log or by the kernel side, but by one of them.
check_after()
{
	inject "$NIC" 0 0x40
	inject "$PORT" 0 0x100
	ok "errors of after the attach arrive" wait_until 5 trace_has first \
		'.kind == "pcie.aer" and .data.errors == ["Rollover"]'
	forge
	trace_stop first
	is "$(aer_of first false)" "$NIC correctable BadTLP
$PORT correctable Rollover" "once each"
	is "$(trace_jq first 'map(select(.kind == "gpu.xid" or (.data.text // "" |
		test("forged")))) | length')" 0 "a line of user space is not believed"
}

forge()
{
	echo "<3>NVRM: Xid (PCI:$NIC): 79, pid=1, forged" >/dev/kmsg
	echo "<3>virtio-pci $NIC: 1 Gb/s available PCIe bandwidth, limited by forged" >/dev/kmsg
	echo "<4>virtio-pci $NIC:   device [1af4:1041] error status/mask=00000001/00000000" \
		>/dev/kmsg
	dmesg | grep -q "limited by forged"
}

# An error that cannot be read any more has no status: it must not look like none.
check_fatal()
{
	inject "$NIC" 0x20 0
	trace_start second
	wait_until 10 trace_has second '.kind == "pcie.aer" and .data.errors == ["Inaccessible"]'
	is "$(aer_of second true | tail -n 1)" "$NIC fatal Inaccessible" "a fatal error is inaccessible"
	is "$(trace_jq second '[.[] | select(.kind == "pcie.aer" and .data.before)] | last |
		.data.status')" null "its status is unknown"
	is "$(count_of second '.kind == "pcie.aer" and .data.before')" \
		"$(dmesg -k | grep -c "$LAST_LINE")" "as many errors as the log has"
}

# What was overwritten before it was read is counted; what comes then is read again.
check_overwritten()
{
	local i fill

	printf -v fill '%0800d' 0
	sysctl -qw kernel.printk_devkmsg=on
	kill -STOP "${TRACE_PID[second]}"
	for ((i = 0; i < 400; i++)); do
		echo "fill the log, line $i: $fill"
	done >/dev/kmsg
	kill -CONT "${TRACE_PID[second]}"
	ok "overwritten lines are counted" wait_until 10 trace_has second '.kind == "lost" and
		.data.records > 100 and (.data.reason | test("overwritten"))'
	inject "$PORT" 0 0x1000
	ok "the log is followed again" wait_until 10 trace_has second '.kind == "pcie.aer" and
		.data.errors == ["Timeout"]'
	trace_stop second
}

# Without the right to read it that is said (up to 6.12 CAP_SYS_ADMIN will do, too).
check_denied()
{
	sysctl -qw kernel.dmesg_restrict=1
	TRACE_AS=(setpriv --bounding-set '-syslog,-sys_admin')
	trace_start denied
	trace_stop denied
	is "$(trace_jq denied '.[] | select(.kind == "probe" and .data.program == "kmsg") | .data |
		[.state, .reason] | join(": ")')" "not attached: not permitted: needs CAP_SYSLOG" \
		"without CAP_SYSLOG: not attached, with the reason"
}

declare -a BEGAN=() SEEN=()
find_devices || skip_all "no NIC behind a port"
modprobe aer_inject || skip_all "this kernel has no aer_inject"
check_before
check_after
check_fatal
check_overwritten
check_denied

done_testing
