#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 180
# What a tracer does not expect: targets that are odd or hostile, an output that nobody reads,
# signals at bad moments, storms that outrun it. It ends when it should, the job is left alone, and
# what was lost is told exactly.
# shellcheck disable=SC2016,SC2119,SC2317 # jq and inner shells read the dollars
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq
need_built "$FABRICTRACE" "$BUILD/workload/libnccl.so.2"
HOSTILE=$(compile hostile)
LIB=$BUILD/workload/libnccl.so.2

# start NAME COMMAND..: in the background, its output in NAME.log; sets TARGET.
start()
{
	"${@:2}" >"$FT_TMP/$1.log" 2>&1 </dev/null &
	TARGET=$!
	own_process "$TARGET"
}

said()
{
	grep -q "$2" "$FT_TMP/$1.log"
}

# status WANT WHAT COMMAND..
status()
{
	local got=0

	timeout 20 "${@:3}" >"$FT_TMP/out" 2>"$FT_TMP/err" </dev/null || got=$?
	is "$got" "$1" "$2: exit status $1"
}

# --------------------------------------------------------------------------------------- targets

# The shell that the tracer was started from: the tracer is below it, and does not wait for itself.
test_own_shell()
{
	start shell bash -c '"$@" -p $$ >/dev/null & echo $! ; sleep 1.5; exit' shell "$FABRICTRACE" \
		--json
	wait_until 5 said shell '[0-9]'
	ok "own shell: the trace ends with it" wait_until 10 gone "$(cat "$FT_TMP/shell.log")"
}

test_leader_exited()
{
	start leader "$HOSTILE" leader
	wait_until 5 grep -q '^State:.*Z' "/proc/$TARGET/status"
	trace_start leader -p "$TARGET"
	trace_wait leader
	is "$(trace_jq leader 'map(select(.kind == "proc.exit") | .data.exit_code) | tojson')" "[3]" \
		"main thread ended: the others are traced to their end"
}

# It executes nothing in the network namespace that it goes to: only its sockets tell.
test_moves()
{
	start moves "$HOSTILE" moves "$FT_TMP/moves.go"
	trace_start moves -p "$TARGET"
	touch "$FT_TMP/moves.go"
	trace_wait moves
	is "$(trace_jq moves 'map(select(.kind == "tcp.state") | .data.netns)[0] as $there
		| any(.[]; .kind == "inv.netdev" and .data.netns == $there)')" true \
		"another network namespace: its interfaces are watched"
}

test_texts()
{
	local name=$'\e[31mevil\xff"\\'
	local dir=$FT_TMP/$name$'\n'

	mkdir "$dir"
	cp "$(command -v sleep)" "$dir/$name"
	"$dir/$name" 20 &
	own_process $!
	status 0 "control characters, text" "$FABRICTRACE" -v -d 0.2 -p $!
	is "$(LC_ALL=C grep -cP '[\x00-\x08\x0b-\x1f\x7f\xff]' "$FT_TMP/out" || :)" 0 \
		"control characters: none on the terminal"
	status 0 "control characters, JSON" "$FABRICTRACE" --json -d 0.2 -p $!
	ok "control characters: valid JSON" jq -e . "$FT_TMP/out"
}

# The rank may stand behind what is read of the environment.
test_environment()
{
	local i
	local -a vars=()

	for i in 1 2 3 4; do
		vars+=("V$i=$(head -c 100000 /dev/zero | tr '\0' x)")
	done
	env -i "${vars[@]}" RANK=1 WORLD_SIZE=2 "$(command -v sleep)" 20 &
	own_process $!
	wait_until 5 grep -qx sleep "/proc/$!/comm"
	trace_start environment -d 0.2 -p $!
	trace_wait environment
	is "$(trace_jq environment 'map(select(.kind == "inv.host" and .data.error == -27)) | length')" \
		1 "a huge environment: what was not read is named"
}

test_many_files()
{
	mkdir "$FT_TMP/files"
	truncate -s 4096 "$FT_TMP"/files/{0..4999}
	start files "$HOSTILE" files "$LIB" 5000 "$FT_TMP/files"
	wait_until 10 said files mapped
	trace_start files -d 0.2 -p "$TARGET"
	trace_wait files
	is "$(trace_jq files 'any(.[]; .kind == "nccl.lib" and .data.error == -7)')" true \
		"5000 executable files: that not all were looked through is said"
	kill "$TARGET"
}

test_pid_namespace()
{
	status 69 "in a pid namespace" unshare -p -f --mount-proc "$FABRICTRACE" -- true
	like "$(cat "$FT_TMP/err")" "pid namespace" "in a pid namespace: says why"
}

# ---------------------------------------------------------------------------------------- output

test_outputs()
{
	sleep 30 &
	own_process $!
	status 70 "no stdout" bash -c '"$@" >&-' x "$FABRICTRACE" --json -d 0.2 -p $!
	status 70 "no stdin, stdout, stderr" bash -c '"$@" >&- 2>&- <&-' x "$FABRICTRACE" --json \
		-d 0.2 -p $!
	status 70 "a full disk" bash -c '"$@" >/dev/full' x "$FABRICTRACE" --json -d 0.2 -p $!
	status 70 "probes to a full disk" bash -c '"$@" >/dev/full' x "$FABRICTRACE" probes
	like "$(cat "$FT_TMP/err")" "No space left" "probes to a full disk: says why"
}

# Nobody reads: the job goes on, and a signal a second after the first one ends the tracer.
test_blocked()
{
	local tracer job

	mkfifo "$FT_TMP/fifo"
	sleep 60 <>"$FT_TMP/fifo" &
	own_process $!
	start blocked bash -c 'for ((i = 0; i < 300; i++)); do /bin/true; done; echo done; sleep 20'
	job=$TARGET
	env --default-signal "$FABRICTRACE" --json -p "$job" >"$FT_TMP/fifo" 2>/dev/null &
	tracer=$!
	own_process "$tracer"
	ok "blocked output: the job goes on" wait_until 15 said blocked 'done'
	kill -TERM "$tracer"
	sleep 1.3
	kill -TERM "$tracer" 2>/dev/null || :
	ok "blocked output: the second signal ends the tracer" wait_until 5 gone "$tracer"
	kill "$job"
}

# --------------------------------------------------------------------------------------- signals

test_signals()
{
	trace_begin early --json -- touch "$FT_TMP/started"
	sleep 0.02
	trace_stop early TERM
	is "${TRACE_STATUS[early]}" 143 "SIGTERM during the attach: the command's status"
	ok "SIGTERM during the attach: the command is not started" test ! -e "$FT_TMP/started"
	sleep 30 &
	own_process $!
	env --ignore-signal=HUP "$FABRICTRACE" --json -p $! >"$FT_TMP/nohup.out" 2>&1 &
	TRACE_PID[nohup]=$!
	own_process $!
	wait_until 10 trace_attached nohup
	kill -HUP "${TRACE_PID[nohup]}"
	sleep 0.3
	ok "nohup: SIGHUP is ignored" kill -0 "${TRACE_PID[nohup]}"
	kill -INT "${TRACE_PID[nohup]}"
	ok "nohup: SIGINT is not" wait_until 10 gone "${TRACE_PID[nohup]}"
}

# ---------------------------------------------------------------------------------------- storms

storm_start()
{
	start "$1" "$HOSTILE" storm "$LIB" "$2" "$FT_TMP/$1.go"
	wait_until 5 said "$1" loaded
	trace_start "$1" --collectives -p "$TARGET"
}

# Calls in the lines and calls reported lost.
storm_seen()
{
	trace_jq "$1" 'map(if .kind == "nccl.call" then 1
		elif .kind == "lost" and .data.of == "nccl.call" then .data.records else 0 end) | add'
}

storm_end()
{
	rm "$FT_TMP/$1.go"
	ok "$1: the job ends" wait_until 20 gone "$TARGET"
}

storm_check()
{
	trace_wait "$1"
	is "${TRACE_STATUS[$1]}" 0 "$1: the trace ends with the job"
	is "$(storm_seen "$1")" "$(sed -n 's/^calls //p' "$FT_TMP/$1.log")" \
		"$1: what is told and what is reported lost is what was called"
}

# More calls than it can take: it still listens.
test_storm()
{
	storm_start storm 4
	touch "$FT_TMP/storm.go"
	sleep 1
	storm_end storm
	storm_check storm
	storm_start deaf 8
	touch "$FT_TMP/deaf.go"
	sleep 0.5
	kill -INT "${TRACE_PID[deaf]}"
	ok "a storm that goes on: SIGINT ends the trace" wait_until 10 gone "${TRACE_PID[deaf]}"
	storm_end deaf
}

# It was not running when the job ended, and the record of that end found no room.
test_lost_end()
{
	storm_start stopped 4
	sleep 1.2
	kill -STOP "${TRACE_PID[stopped]}"
	touch "$FT_TMP/stopped.go"
	sleep 1.5
	storm_end stopped
	kill -CONT "${TRACE_PID[stopped]}"
	storm_check stopped
	is "$(trace_jq stopped 'map(select(.kind == "lost") | .data.of) | any(. == "proc.exit")')" \
		true "stopped: the record of the end was lost"
}

for group in own_shell leader_exited moves texts environment many_files pid_namespace outputs \
	blocked signals storm lost_end; do
	test_$group
done
done_testing
