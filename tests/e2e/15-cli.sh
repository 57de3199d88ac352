#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 240
# The command line: errors and exit statuses, how a trace ends, what it prints, and that nothing
# that happens to the tracer touches the job.
# shellcheck disable=SC2016,SC2119,SC2120,SC2317 # awk and jq read the dollars
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq
need_built "$FABRICTRACE" "$TRAINER"

# exits STATUS REGEX WHAT ARGS..: the exit status, and what stderr says.
exits()
{
	local want=$1 regex=$2 what=$3 status=0

	shift 3
	timeout 15 ${TRACE_AS[@]+"${TRACE_AS[@]}"} "$FABRICTRACE" "$@" \
		>"$FT_TMP/out" 2>"$FT_TMP/err" </dev/null || status=$?
	is "$status" "$want" "$what: exit status $want"
	[[ -z $regex ]] || like "$(cat "$FT_TMP/err")" "$regex" "$what: says why"
}

# A process of ours to look at: SLEEPER.
sleeper()
{
	sleep "${1-60}" >/dev/null 2>&1 &
	SLEEPER=$!
	own_process "$SLEEPER"
}

free_pid()
{
	local pid

	pid=$(($(cat /proc/sys/kernel/pid_max) - 1))
	while [[ -d /proc/$pid ]]; do
		pid=$((pid - 1))
	done
	echo "$pid"
}

test_usage()
{
	local command

	exits 64 "." "unknown option" --no-such-option
	exits 64 "." "unknown command" no-such-command
	exits 64 "xyz" "a pid that is no number" -p xyz
	exits 64 "." "a pid of 0" -p 0
	exits 64 "." "a duration that is none" -d -1
	exits 64 "." "two targets" -a -p 1
	exits 64 "." "an argument without --" true
	exits 64 "no command after --" "-- and nothing behind it" --
	exits 64 "^fabrictrace: " "errors begin with the short name" --no-such-option
	for command in trace probes topo schema; do
		exits 0 "" "$command -h" "$command" -h
		like "$(cat "$FT_TMP/out")" '^Usage: fabrictrace' "$command -h: prints it"
	done
	exits 0 "" "-h" -h
	exits 0 "" "--version" --version
	like "$(cat "$FT_TMP/out")" '^fabrictrace [0-9]+\.[0-9]+' "--version: prints it"
	exits 0 "" "--help" --help
	like "$(cat "$FT_TMP/out")" '-p PID' "--help: shows the main use"
	exits 0 "" "trace --help" trace --help
	like "$(cat "$FT_TMP/out")" "nothing: this node.s links, GPUs and kernel log" \
		"trace --help: what is watched without a target"
}

test_no_such_process()
{
	local pid

	pid=$(free_pid)
	exits 66 "$pid" "no such process" -p "$pid"
	if [[ $(cat /proc/2/comm 2>/dev/null) == kthreadd ]]; then
		exits 66 "kernel thread" "a kernel thread" -p 2
	else
		skip "a kernel thread" "there is none in this pid namespace"
	fi
	exits 66 "." "a cgroup that is none" --cgroup no_such_cgroup_here
}

# A process that dies while it is attached to: a plain end, whatever the moment.
test_dying_process()
{
	local i status bad=

	for ((i = 0; i < 12; i++)); do
		status=0
		sleep "0.$(printf '%03d' $((i * 20)))" &
		timeout 30 "$FABRICTRACE" --json -p $! >"$FT_TMP/out" 2>"$FT_TMP/err" </dev/null ||
			status=$?
		[[ $status == 0 || $status == 66 ]] || bad+=" $status"
	done
	is "$bad" "" "a process that dies during the attach: exit status 0 or 66"
}

test_not_root()
{
	local -a TRACE_AS=(setpriv --reuid 65534 --regid 65534 --clear-groups)

	if ! "${TRACE_AS[@]}" test -x "$FABRICTRACE"; then
		cp "$FABRICTRACE" "$FT_TMP/fabrictrace"
		chmod 755 "$FT_TMP" "$FT_TMP/fabrictrace"
		local FABRICTRACE=$FT_TMP/fabrictrace
	fi
	sleeper
	exits 77 "CAP_(BPF|PERFMON|SYS_ADMIN)" "without root" -p "$SLEEPER"
	exits 77 "CAP_(BPF|PERFMON|SYS_ADMIN)" "without root, probes" probes
	is "$(awk '$NF == "OFF"' "$FT_TMP/out" | wc -l)" "$(grep -c 'why: .*CAP_BPF' "$FT_TMP/out")" \
		"without root, probes: each row is off and says why"
	like "$(cat "$FT_TMP/out")" 'CAP_SYS_PTRACE is missing' \
		"without root, probes: what is missing"
	# $$ is root's: what cannot be read is one line, and is not told as none.
	exits 0 "" "without root, topo" topo
	like "$(cat "$FT_TMP/out")" 'none visible has .*; [0-9]+ could not be read: run as root|not read: the mappings of [0-9]+ process' \
		"without root, topo: what it could not look through"
	exits 0 "" "without root, topo -p" topo -p $$
	is "$(grep -c '^not read: .* of process' "$FT_TMP/out")" 1 \
		"without root, topo -p: one line for what is not read"
	exits 0 "" "without root, --version" --version
	exits 0 "" "without root, schema" schema
}

test_command()
{
	exits 7 "" "-- CMD that exits 7" --json -- sh -c 'exit 7'
	exits 0 "" "-- CMD that exits 0" --json -- true
	exits 143 "" "-- CMD that is killed" --json -- sh -c 'kill -TERM $$'
	exits 127 "no-such-command" "-- CMD that is none" --json -- /no-such-command
	exits 0 "" "-- CMD with its output" -q -- echo "of the command"
	like "$(cat "$FT_TMP/out")" "of the command" "-- CMD: its output passes through"
	exits 3 "" "-- CMD that ends at once" -- sh -c 'exit 3'
	like "$(cat "$FT_TMP/out")" 'target +-- sh -c exit 3' "-- CMD: its arguments are told"
	like "$(cat "$FT_TMP/out")" 'the job ended with exit status 3 after 0\.[0-9] s' \
		"-- CMD that ends at once: says so"
}

# A target that is none, one that is found by a part of its name, one that is stopped.
test_targets()
{
	local dir

	exits 0 "" "no target" -d 1
	like "$(cat "$FT_TMP/out")" 'target +none: only this node' "no target: says what is watched"
	like "$(cat "$FT_TMP/out")" 'job +no process is traced' "no target: no job is blamed"
	sleeper
	kill -STOP "$SLEEPER"
	exits 0 "" "a stopped process" -d 1 -p "$SLEEPER"
	kill -CONT "$SLEEPER"
	like "$(tr -s ' \n' ' ' <"$FT_TMP/out")" "stopped at the end .*pid $SLEEPER \(sleep\)" \
		"a stopped process: is named"
	for dir in /sys/fs/cgroup/unified /sys/fs/cgroup /sys/fs/cgroup/pids; do
		[[ -w $dir/cgroup.procs ]] && mkdir "$dir/ft-words-$$" 2>/dev/null && break
		dir=
	done
	if [[ -z $dir ]]; then
		skip "a part of a cgroup's path" "no cgroup can be made here"
		return
	fi
	echo "$SLEEPER" >"$dir/ft-words-$$/cgroup.procs"
	exits 0 "" "a part of a cgroup's path" -d 1 --cgroup "words-$$"
	like "$(cat "$FT_TMP/out")" "target +--cgroup $dir/ft-words-$$" \
		"a part of a cgroup's path: which one is meant"
	kill "$SLEEPER"
	wait_until 5 gone "$SLEEPER"
	rmdir "$dir/ft-words-$$"
}

# One line of valid JSON each, the envelope in all of them.
check_json()
{
	local lines

	lines=$(wc -l <"$FT_TMP/$1.out")
	is "$(jq -c . "$FT_TMP/$1.out" 2>&1 | wc -l)" "$lines" "$1: every line is one JSON object"
	is "$(trace_jq "$1" 'map(.v == 1 and (.ts_ns | type == "string")
		and (.time | type == "string")
		and (.kind | type == "string") and (.count >= 1) and (.ranks | type == "array")
		and (.gpus | type == "array") and (.nics | type == "array")
		and (.links | type == "array") and (.how | type == "array")
		and (.severity | IN("info", "warning", "error", "fatal"))
		and (.data | type == "object")) | all')" true "$1: every line has the envelope"
	is "$(trace_jq "$1" '.[0].kind, .[-1].kind' | paste -sd' ')" "session verdict" \
		"$1: session first, verdict last"
}

test_ends()
{
	local signal began

	sleeper
	for signal in INT TERM HUP; do
		trace_start "sig$signal" -p "$SLEEPER"
		trace_stop "sig$signal" "$signal"
		is "${TRACE_STATUS[sig$signal]}" 0 "SIG$signal: exit status 0"
		check_json "sig$signal"
	done
	began=$(now_ms)
	exits 0 "" "-d 1" --json -d 1 -p "$SLEEPER"
	ok "-d 1: no shorter" test $(($(now_ms) - began)) -ge 1000
	ok "-d 1: not much longer" test $(($(now_ms) - began)) -lt 8000
	trace_start exits -p "$SLEEPER"
	kill "$SLEEPER"
	trace_wait exits
	is "${TRACE_STATUS[exits]}" 0 "the process exits: so does the trace"
	check_json exits
}

# -p A,B: goes on until the last of them has ended.
test_two_pids()
{
	local first

	sleeper
	first="$SLEEPER"
	sleeper
	trace_start both -p "$first,$SLEEPER"
	kill "$first"
	ok "two pids: the end of the first is seen" wait_until 5 trace_has both \
		".kind == \"proc.exit\" and .pid == $first and .data.signal == 15"
	ok "two pids: the trace goes on" kill -0 "${TRACE_PID[both]}"
	kill "$SLEEPER"
	trace_wait both
	is "${TRACE_STATUS[both]}" 0 "two pids: ends with the second"
}

test_usr1()
{
	sleeper
	trace_start usr1 -p "$SLEEPER"
	kill -USR1 "${TRACE_PID[usr1]}"
	ok "SIGUSR1: a verdict" wait_until 10 trace_has usr1 \
		'.kind == "verdict" and .data.final == false'
	ok "SIGUSR1: and it goes on" kill -0 "${TRACE_PID[usr1]}"
	trace_stop usr1
	is "$(trace_jq usr1 'map(select(.kind == "verdict") | .data.final) | tojson')" \
		"[false,true]" \
		"SIGUSR1: the last verdict comes at the end"
}

# coloured ENV.. -- ARGS..: whether the program prints colours on a terminal.
coloured()
{
	local -a vars=()

	while [[ $1 != -- ]]; do
		vars+=("$1")
		shift
	done
	shift
	if env -u NO_COLOR "${vars[@]}" TERM=xterm timeout 15 script -qec \
		"$(printf '%q ' "$FABRICTRACE" "$@")" /dev/null </dev/null 2>&1 |
		grep -F $'\e[' >/dev/null; then
		echo yes
	else
		echo no
	fi
}

test_text()
{
	sleeper
	exits 0 "" "text" -d 1 -p "$SLEEPER"
	like "$(cat "$FT_TMP/out")" 'VERDICT|[Nn]o cause' "text: ends in a verdict"
	ok "text: at most 100 columns" awk 'length($0) > 100 { print; bad = 1 } END { exit bad }' \
		"$FT_TMP/out"
	is "$(awk 'index($0, "\033[")' "$FT_TMP/out")" "" "text: no colour when it is no terminal"
	like "$(cat "$FT_TMP/out" "$FT_TMP/err")" "NCCL" "a process without NCCL: says so"
	if ! command -v script >/dev/null; then
		skip "colours" "script(1) is not installed"
		return
	fi
	is "$(coloured A=b -- -d 1 -p "$SLEEPER")" yes "terminal: colours"
	is "$(coloured NO_COLOR=1 -- -d 1 -p "$SLEEPER")" no "NO_COLOR: no colour"
	is "$(coloured A=b -- --no-color -d 1 -p "$SLEEPER")" no "--no-color: no colour"
	is "$(coloured NO_COLOR= -- -d 1 -p "$SLEEPER")" yes "an empty NO_COLOR is as good as none"
}

# A reader that goes away ends the trace at the next line, here the end of the process.
test_closed_pipe()
{
	local status=0

	sleeper 2
	timeout 15 bash -c '"$0" --json -p "$1" 2>"$2" | head -n 1 >/dev/null' \
		"$FABRICTRACE" "$SLEEPER" "$FT_TMP/err" || status=$?
	ok "a closed pipe: it does not hang" test "$status" -ne 124
}

test_commands()
{
	local hides

	exits 0 "" "probes --json" probes --json
	is "$(jq -s 'map(select(.kind == "probe")) | length > 5' "$FT_TMP/out")" true \
		"probes: a row per program"
	is "$(jq -s 'map(.data | select(.state == "not attached" and .reason == null)) | length' \
		"$FT_TMP/out")" 0 "probes: what is not attached has a reason"
	is "$(jq -s 'map(.data) | [.[] | select(.hides != null).gives] as $told |
		map(select(.state == "not attached" and (.gives | IN($told[]) | not))) | length' \
		"$FT_TMP/out")" 0 "probes: and what it hides, or what stands in for it tells"
	hides=$(jq -s 'map(select(.data.hides != null)) | length' "$FT_TMP/out")
	exits 0 "" "probes" probes
	is "$(sed -n '2,/^-/s/^\([^ -].*[^ ]\) *[a-z]*\.[a-z_]* .*/\1/p' "$FT_TMP/out" | sort | uniq -d)" "" \
		"probes: no two rows look alike"
	like "$(cat "$FT_TMP/out")" '- not in use: needs a job' "probes: what - means"
	is "$(awk '/programs:/ { print $1 - $3 - $5 - $9 }' "$FT_TMP/out")" 0 \
		"probes: the numbers add up"
	exits 0 "" "probes -v" probes -v
	is "$(grep -c 'unseen' "$FT_TMP/out")" "$hides" "probes -v: what each one hides"
	exits 0 "" "topo --json" topo --json
	ok "topo: valid JSON" jq -e . "$FT_TMP/out"
	exits 0 "" "topo" topo
	exits 0 "" "schema" schema
	ok "schema: a JSON Schema" jq -e '."$schema" and (tostring | contains("tcp.retransmit"))' \
		"$FT_TMP/out"
}

# same_text PID LIBRARY: the executable mapping of the library in memory equals the file.
same_text()
{
	local range perms offset rest start size

	while read -r range perms offset _ _ rest; do
		[[ $perms == r-x* && $rest == *"/$2" ]] || continue
		start=$((16#${range%-*}))
		size=$((16#${range#*-} - start))
		cmp -n "$size" <(bytes_of "/proc/$1/mem" "$start" "$size") \
			<(bytes_of "$rest" $((16#$offset)) "$size")
		return
	done <"/proc/$1/maps"
	return 2
}

# Past the end of a file come zeros, as in the last page of a mapping.
bytes_of()
{
	dd if="$1" bs=64K iflag=skip_bytes,count_bytes skip="$2" count="$3" status=none
	head -c 65536 /dev/zero
}

# The job is not touched by the death of the tracer: no trap is left in its code.
test_killed_tracer()
{
	net_star 0 2
	job_start 0 2 --seconds 4 --size 256K --print-step --hold steps
	ok "kill -9: the job is up" wait_until 20 job_says 0 1 '^init rank'
	ok "kill -9: text equals the file before" same_text "$(job_pid 0 0)" libnccl.so.2
	exits 0 "" "topo of a job in namespaces" topo -p "${JOB_PID[0]}"
	like "$(cat "$FT_TMP/out")" '2 of these are in another network namespace' \
		"topo of a job in namespaces: whose interfaces are not in the table"
	exits 0 "" "no target, beside a job" -d 1
	like "$(tr -s ' \n' ' ' <"$FT_TMP/out")" "an NCCL library: pid .*$(job_pid 0 0)" \
		"no target, beside a job: names its processes"
	trace_start killed --collectives -p "${JOB_PID[0]}"
	if same_text "$(job_pid 0 0)" libnccl.so.2 >/dev/null; then
		diag "no probe is in the text while it is traced"
	fi
	job_go 0
	ok "kill -9: the job is at work" wait_until 10 job_says 0 1 '^step 10 '
	kill -KILL "${TRACE_PID[killed]}"
	ok "kill -9: the tracer is gone" wait_until 10 gone "${TRACE_PID[killed]}"
	ok "kill -9: text equals the file after" \
		wait_until 10 same_text "$(job_pid 0 0)" libnccl.so.2
	ok "kill -9: the job runs on and ends, its results verified" job_wait 0
}

for group in usage no_such_process dying_process not_root command targets ends two_pids usr1 text \
	closed_pipe commands killed_tracer; do
	test_$group
done
done_testing
