#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# Beside rasdaemon on the same AER errors: both tell what the tracepoint gave, and how long that
# takes each of them, and how much memory. The kernel's own record of the tracepoint, by the
# monotonic clock, is what both are measured against.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

readonly RASDAEMON=$BUILD/tests/vm/rasdaemon/usr/sbin/rasdaemon
readonly TRACING=/sys/kernel/tracing/instances
readonly STAMP=$FT_ROOT/tests/vm/stamp
readonly ROUNDS=3 BURST=100

need jq setpci python3
need_built "$FABRICTRACE"
[[ -x $RASDAEMON ]] || skip_all "the package rasdaemon could not be had: tests/vm/unpack rasdaemon"
! ldd "$RASDAEMON" | grep -q 'not found' || skip_all "a library of rasdaemon is not installed"

# The monitor's name, rasdaemon's and ours.
readonly NONFATAL=('POISON_TLP|Poisoned TLP|TLP' 'COMP_TIME|Completion Timeout|CmpltTO'
	'UNX_COMP|Unexpected Completion|UnxCmplt')
readonly CORRECTABLE=('0x40|Bad TLP|BadTLP' '0x1|Receiver Error|RxErr')
readonly HEADER='0x60000060 0x01000001 0x38000038 0xabcdcdab'

# A line of it, not of before it was there.
readonly OURS='"kind":"pcie.aer".*"before":false'

PORT=$(bdf_of_port 1)
NIC=$(bdf_below "$PORT")
ERRORS=()

# Tests before this one have had fatal errors of both: the kernel hears nothing of them any more,
# until it finds them anew.
find_anew()
{
	echo 1 >"/sys/bus/pci/devices/$PORT/remove"
	echo 1 >/sys/bus/pci/rescan
	wait_until 10 nic_is_back
}

# Its bus may have another number.
nic_is_back()
{
	NIC=$(bdf_below "$PORT")
	[[ -n $NIC ]]
}

# lines_of FILE WORDS: of stamp's, with both.
lines_of()
{
	grep -c "$2" "$1" || :
}

has_lines()
{
	[[ $(lines_of "$1" "$2") -ge $3 ]]
}

# reference: "NS ERROR" of each event of the tracepoint; the errors as the kernel's trace names them.
reference()
{
	sed -n "s/.* \([0-9]*\)\.\([0-9]*\): aer_event: $NIC .*\(Uncorrected, non-fatal\|Corrected\), \(.*\), TLP Header.*/\1\2000 \4/p" \
		"$TRACING/ft-reference/trace"
}

start_reference()
{
	mkdir -p "$TRACING/ft-reference"
	echo mono >"$TRACING/ft-reference/trace_clock"
	echo 1 >"$TRACING/ft-reference/events/ras/aer_event/enable"
}

# rasdaemon before 0.8 leaves buffer_percent alone, and since 6.1 (5.10.157, 5.15.81) poll() waits for
# so much: it would tell nothing until its buffer is half full. Its instance is made for it.
start_all()
{
	mkdir -p "$TRACING/rasdaemon" /var/lib/rasdaemon
	echo 0 >"$TRACING/rasdaemon/buffer_percent"
	"$STAMP" "$FT_TMP/ras" "$RASDAEMON" -f -r 2>"$FT_TMP/ras.err" &
	own_process $!
	RAS_STAMP=$!
	"$STAMP" "$FT_TMP/ours" "$FABRICTRACE" --json 2>"$FT_TMP/ours.err" &
	own_process $!
	OURS_STAMP=$!
	wait_until 20 grep -q '"kind":"session"' "$FT_TMP/ours" || :
	wait_until 20 grep -q 'Listening to events' "$FT_TMP/ras.err" || :
}

# Until the reference has it, and what runs beside it; then the next one is another event for all.
inject()
{
	local n

	n=$(reference | wc -l)
	# shellcheck disable=SC2086 # words
	monitor pcie_aer_inject_error $1 >/dev/null || return 1
	wait_until 5 reference_has $((n + 1)) || return 1
	[[ -z ${OURS_STAMP-} ]] || wait_until 5 has_lines "$FT_TMP/ours" "$OURS" $((n + 1)) || :
	[[ -z ${RAS_STAMP-} ]] || wait_until 5 has_lines "$FT_TMP/ras" aer_event: $((n + 1)) || :
	setpci -s "$NIC" ECAP_AER+4.l=ffffffff ECAP_AER+10.l=ffffffff
}

reference_has()
{
	[[ $(reference | wc -l) -ge $1 ]]
}

inject_all()
{
	local entry i bad=0

	for ((i = 0; i < ROUNDS; i++)); do
		for entry in "${NONFATAL[@]}"; do
			inject "aer-nic ${entry%%|*} $HEADER" || bad=1
		done
		for entry in ${ERRORS[@]+"${ERRORS[@]}"}; do
			inject "-c aer-nic ${entry%%|*}" || bad=1
		done
	done
	return "$bad"
}

# names COLUMN: of the reference's events, in their order, by one of the three names.
names()
{
	local name entry

	reference | cut -d' ' -f2- | while read -r name; do
		for entry in "${NONFATAL[@]}" "${CORRECTABLE[@]}"; do
			IFS='|' read -ra entry <<<"$entry"
			[[ ${entry[1]} != "$name" ]] || echo "${entry[$1]}"
		done
	done
}

ras_names()
{
	sed -n "s/.*aer_event:.* $NIC \(.*\) \(Corrected\|Uncorrected.*\)/\1/p" "$FT_TMP/ras" |
		sed 's/ TLP Header.*//'
}

our_lines()
{
	grep "$OURS" "$FT_TMP/ours" | cut -d' ' -f2- | jq -c "select(.data.device == \"$NIC\")"
}

# latency FILE WORDS: milliseconds from the tracepoint to the line, "median worst".
latency()
{
	paste -d' ' <(grep "$2" "$1" | cut -d' ' -f1) <(reference | cut -d' ' -f1) |
		awk 'NF == 2 { printf "%.2f\n", ($1 - $2) / 1e6 }' | sort -n |
		awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)], v[NR] }'
}

# memory FILE: of the process behind it, "RSS PSS" in kB.
memory()
{
	local pid

	pid=$(<"$1.pid")
	awk '/^Rss:/ { rss = $2 } /^Pss:/ { pss = $2 } END { print rss, pss }' \
		"/proc/$pid/smaps_rollup"
}

# say NAME FILE WORDS
say()
{
	local median worst rss pss

	read -r median worst < <(latency "$2" "$3")
	read -r rss pss < <(memory "$2")
	diag "$1: $(lines_of "$2" "$3") errors, told after $median ms (median), $worst ms (worst);" \
		"RSS $rss kB, PSS $pss kB"
	ok "$1: a line comes after its event, within a second as a rule" \
		awk -v m="$median" 'BEGIN { exit !(m > 0 && m < 1000) }'
}

check_each()
{
	local n

	n=$(reference | wc -l)
	is "$n" $((ROUNDS * (${#NONFATAL[@]} + ${#ERRORS[@]}))) "the tracepoint gave what was injected"
	is "$(ras_names | paste -sd,)" "$(names 1 | paste -sd,)" "rasdaemon: each of them, in order"
	is "$(our_lines | jq -r '.data.errors | join("+")' | paste -sd,)" \
		"$(names 2 | paste -sd,)" "fabrictrace: each of them, in order"
	say rasdaemon "$FT_TMP/ras" aer_event:
	say fabrictrace "$FT_TMP/ours" "$OURS"
}

ours_total()
{
	our_lines | jq -s "map(select(.data.errors == [\"$1\"]) | .count) | add // 0"
}

all_told()
{
	[[ $(ours_total BadTLP) -ge $1 && $(lines_of "$FT_TMP/ras" 'Bad TLP') -ge $1 ]]
}

# Errors that come before the last was read are one, for the kernel too: its record is what counts,
# and how many it has of a burst depends on the machine.
check_burst()
{
	local i n

	for ((i = 0; i < BURST; i++)); do
		echo 'pcie_aer_inject_error -c aer-nic 0x40'
	done | monitor_lines >/dev/null
	wait_until 5 reference_has $((ROUNDS * (${#NONFATAL[@]} + ${#ERRORS[@]}) + BURST)) || :
	n=$(reference | grep -c 'Bad TLP')
	ok "a burst of $BURST: $((n - ROUNDS)) events" test "$n" -gt $((ROUNDS + 1))
	wait_until 5 all_told "$n" || :
	is "$(ours_total BadTLP)" "$n" "fabrictrace counts all of them"
	is "$(lines_of "$FT_TMP/ras" 'Bad TLP')" "$n" "rasdaemon too"
}

# What rasdaemon keeps is what it told.
check_kept()
{
	local kept

	kept=$(python3 -c 'import sqlite3; print(sqlite3.connect(
		"/var/lib/rasdaemon/ras-mc_event.db").execute(
		"select count(*) from aer_event").fetchone()[0])')
	is "$kept" "$(lines_of "$FT_TMP/ras" aer_event:)" "rasdaemon keeps what it tells"
}

ok "the NIC is there: $NIC" test -n "$NIC"
ok "and found anew" find_anew
setpci -s "$NIC" CAP_EXP+8.w=f:f # before 6.1 the kernel leaves that to the driver
dmesg -n 1
start_reference
if inject "-c aer-nic 0x1"; then
	ERRORS=("${CORRECTABLE[@]}")
	echo >"$TRACING/ft-reference/trace"
else
	skip "correctable errors" "this QEMU routes none (8.0 does)"
fi
start_all
ok "errors are injected" inject_all
check_each
[[ ${#ERRORS[@]} -eq 0 ]] || check_burst
kill -INT "$OURS_STAMP"
ok "fabrictrace ends" wait_until 20 gone "$OURS_STAMP"
kill -TERM "$RAS_STAMP"
ok "rasdaemon ends" wait_until 20 gone "$RAS_STAMP"
check_kept

done_testing
