#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# What the end-to-end tests share: hosts as network namespaces, a job on them, the tracer beside
# it, and TAP. Everything that is waited for has a deadline; whatever is started or made here is
# ended and deleted on the way out, also after a failure or a signal.
#
#   net_star J N [NET]            N hosts of job J around a switch: NET.1, NET.2 .. (NET 10.99.J)
#   net_loss J R PERCENT [WAY] [MATCH]   WAY: in (to the rank), out (from it), both
#   net_loss_off J R;  net_loss_counter J R [WAY]
#   ns NAMESPACE COMMAND..;  ns_rank J R;  ns_switch J;  nstat_get NAMESPACE TcpRetransSegs
#   job_start J N TRAINER-ARGS..; job_go J; job_pid J R; job_log J R; job_wait J [SECONDS]
#   trace_start NAME ARGS..; trace_stop NAME [SIGNAL]; trace_wait NAME [SECONDS]; trace_jq NAME ..
#   ok, is, like, skip, skip_all, diag, done_testing
set -Eeuo pipefail

FT_TEST=$(basename "$0")
FT_E2E=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
FT_ROOT=$(cd "$FT_E2E/../.." && pwd)
BUILD=$(cd "$FT_ROOT" && realpath -m "${BUILD:-build}")
FABRICTRACE=${FABRICTRACE:-$BUILD/fabrictrace}
TRAINER=${TRAINER:-$BUILD/workload/trainer}
FT_PREFIX=ft$$ # of every namespace of this run
FT_TMP=$(mktemp -d "${TMPDIR:-/tmp}/fabrictrace-e2e.XXXXXX")

# shellcheck disable=SC2034 # the tests read them
declare -A JOB_PID=() TRACE_PID=() TRACE_STATUS=()
declare -a FT_OWN=()     # "pid start-time"
declare -a FT_AT_EXIT=() # quoted commands
FT_COUNT=0 FT_FAILED=0

# ---------------------------------------------------------------------------- time and processes

now_ms()
{
	local us=${EPOCHREALTIME/[.,]/}

	echo $((us / 1000))
}

# wait_until SECONDS COMMAND..: 0 as soon as the command succeeds, 1 at the deadline.
wait_until()
{
	local end

	end=$(($(now_ms) + $1 * 1000 * ${FT_TEST_SLOW:-1}))
	shift
	while ! "$@" >/dev/null 2>&1; do
		[[ $(now_ms) -lt $end ]] || return 1
		sleep 0.02
	done
}

# Start time in clock ticks since boot: tells a process from a later one with its number.
start_time()
{
	local -a stat

	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
	read -ra stat <<<"${stat##*) }"
	echo "${stat[19]}"
}

own_process()
{
	FT_OWN+=("$1 $(start_time "$1" || echo gone)")
}

gone()
{
	local stat

	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
	stat=${stat##*) }
	[[ ${stat%% *} == Z ]]
}

# end_process PID [START-TIME]: TERM, then KILL; nothing when the number is another's by now.
end_process()
{
	[[ -z ${2-} || $(start_time "$1" || echo) == "$2" ]] || return 0
	kill -TERM "$1" 2>/dev/null || return 0
	kill -CONT "$1" 2>/dev/null || :
	FT_TEST_SLOW=1 wait_until 3 gone "$1" || kill -KILL "$1" 2>/dev/null || :
}

# at_exit COMMAND..: on the way out, after the processes and namespaces.
at_exit()
{
	FT_AT_EXIT+=("$(printf '%q ' "$@")")
}

kill_all_in()
{
	local pid

	for pid in $(ip netns pids "$1" 2>/dev/null); do
		kill -KILL "$pid" 2>/dev/null || :
	done
}

cleanup()
{
	local entry ns

	trap '' INT TERM HUP
	trap - ERR
	set +e
	for entry in "${FT_OWN[@]}"; do
		# shellcheck disable=SC2086 # a pid and a time
		end_process $entry
	done
	for ns in $(own_namespaces); do
		kill_all_in "$ns"
		ip netns del "$ns"
	done
	for entry in "${FT_AT_EXIT[@]}"; do
		eval "$entry"
	done
	keep_logs
	rm -rf "$FT_TMP"
}

keep_logs()
{
	local dir=$BUILD/test-logs/$FT_TEST.files

	[[ $FT_FAILED -ne 0 ]] || return 0
	rm -rf "$dir"
	mkdir -p "$dir" && cp -r "$FT_TMP/." "$dir"
	echo "# what the processes said: $dir"
}

on_error()
{
	FT_FAILED=1
	echo "# $FT_TEST:$2: \"$3\" failed with status $1" >&2
}

on_exit()
{
	local status=$?

	cleanup
	exit "$status"
}

trap on_exit EXIT
trap 'on_error $? $LINENO "$BASH_COMMAND"' ERR
trap 'FT_FAILED=1; exit 130' INT
trap 'FT_FAILED=1; exit 143' TERM
trap 'FT_FAILED=1; exit 129' HUP

# ------------------------------------------------------------------------------------------- TAP

diag()
{
	printf '%s\n' "$*" | sed 's/^/# /'
}

tap_line()
{
	FT_COUNT=$((FT_COUNT + 1))
	if [[ $1 -eq 0 ]]; then
		echo "ok $FT_COUNT - $2"
	else
		FT_FAILED=$((FT_FAILED + 1))
		echo "not ok $FT_COUNT - $2"
	fi
}

# ok WHAT COMMAND..
ok()
{
	local what=$1 status=0

	shift
	# In this shell, not in a subshell: the command may wait for our children.
	"$@" >"$FT_TMP/said" 2>&1 || status=$?
	tap_line "$status" "$what"
	[[ $status -eq 0 ]] || diag "status $status of: $*"$'\n'"$(tail -n 20 "$FT_TMP/said")"
}

# is GOT EXPECTED WHAT
is()
{
	local status=0

	[[ $1 == "$2" ]] || status=1
	tap_line "$status" "$3"
	[[ $status -eq 0 ]] || diag "got:      $1"$'\n'"expected: $2"
}

# like TEXT REGEX WHAT
like()
{
	local status=0

	[[ $1 =~ $2 ]] || status=1
	tap_line "$status" "$3"
	[[ $status -eq 0 ]] || diag "no match for: $2"$'\n'"in: ${1:0:2000}"
}

skip()
{
	FT_COUNT=$((FT_COUNT + 1))
	echo "ok $FT_COUNT - $1 # SKIP $2"
}

skip_all()
{
	echo "1..0 # SKIP $1"
	exit 0
}

bail()
{
	FT_FAILED=1
	echo "Bail out! $1"
	exit 1
}

done_testing()
{
	echo "1..$FT_COUNT"
	[[ $FT_FAILED -eq 0 ]] || exit 1
	exit 0
}

# need COMMAND..: what the test cannot do without.
need()
{
	local command

	[[ $EUID -eq 0 ]] || skip_all "needs root"
	for command in "$@"; do
		command -v "$command" >/dev/null || skip_all "$command is not installed"
	done
}

need_built()
{
	local file

	for file in "$@"; do
		[[ -x $file ]] || bail "$file is not built: run make"
	done
}

# compile NAME: prints where the program of tests/e2e/NAME.c is, and builds it if make did not.
compile()
{
	if [[ -x $BUILD/tests/e2e/$1 ]]; then
		echo "$BUILD/tests/e2e/$1"
		return
	fi
	"${CC:-cc}" -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -o "$FT_TMP/$1" "$FT_E2E/$1.c" -ldl >&2
	echo "$FT_TMP/$1"
}

# --------------------------------------------------------------------------------------- network

ns_rank()
{
	echo "${FT_PREFIX}j$1-r$2"
}

ns_switch()
{
	echo "${FT_PREFIX}j$1-sw"
}

own_namespaces()
{
	ip netns list 2>/dev/null |
		awk -v prefix="${FT_PREFIX}j" 'index($1, prefix) == 1 { print $1 }'
}

# Namespaces of a run that was killed before it could delete them.
sweep_namespaces()
{
	local ns pid

	for ns in $(ip netns list 2>/dev/null | awk '$1 ~ /^ft[0-9]+j[0-9]+-/ { print $1 }'); do
		pid=${ns#ft}
		if gone "${pid%%j*}"; then
			kill_all_in "$ns"
			ip netns del "$ns" || :
		fi
	done
}

ns()
{
	nsenter --net="/run/netns/$1" -- "${@:2}"
}

net_star()
{
	local j=$1 n=$2 net=${3-10.99.$1} switch rank i

	sweep_namespaces
	switch=$(ns_switch "$j")
	ip netns add "$switch"
	ip -n "$switch" link add br0 type bridge
	ip -n "$switch" link set br0 up
	for ((i = 0; i < n; i++)); do
		rank=$(ns_rank "$j" "$i")
		ip netns add "$rank"
		ip -n "$switch" link add "p$i" mtu 1500 type veth \
			peer name eth0 mtu 1500 netns "$rank"
		ip -n "$switch" link set "p$i" master br0 up
		ip -n "$rank" -batch - <<-END
			link set lo up
			addr add $net.$((i + 1))/24 dev eth0
			link set eth0 up
		END
		keep_order "$rank" eth0
		keep_order "$switch" "p$i"
	done
}

# A wire keeps the order of packets. A veth pair does not when its sender moves to another CPU, and
# TCP then retransmits on links that lose nothing: let the flow choose the CPU, not the sender. Tail
# loss probes would do so too, whenever a busy receiver is slow.
keep_order()
{
	# shellcheck disable=SC2016 # for the inner shell, with the namespace's own /sys
	ip netns exec "$1" bash -c '
		echo 0 >/proc/sys/net/ipv4/tcp_early_retrans || :
		printf "%x" $(((1 << ($2 < 30 ? $2 : 30)) - 1)) >"$1" || :
	' rps "/sys/class/net/$2/queues/rx-0/rps_cpus" "$(nproc)" 2>/dev/null
}

# Prints "namespace device" of each point that the way passes.
loss_points()
{
	[[ $3 == out ]] || echo "$(ns_rank "$1" "$2") eth0"
	[[ $3 == in ]] || echo "$(ns_switch "$1") p$2"
}

# net_loss J R PERCENT|1/N [in|out|both] [MATCH]: 1/N drops every Nth packet, PERCENT by chance.
net_loss()
{
	local j=$1 r=$2 how=$3 way=${4-both} match=${5-} space device rule

	if [[ $how == 1/* ]]; then
		rule="numgen inc mod ${how#1/} 0"
	elif [[ $how == 100 ]]; then
		rule=
	else
		rule="numgen random mod 10000 < $(awk "BEGIN { print int($how * 100) }")"
	fi
	while read -r space device; do
		# An ingress hook of the receiving end: to the sender the packet is on the wire.
		ns "$space" nft -f - <<-END
			table netdev ft-$device {
				counter lost { }
				chain loss {
					type filter hook ingress device $device priority 0 ;
					$match $rule counter name lost drop
				}
			}
		END
	done < <(loss_points "$j" "$r" "$way")
}

# The counter stays readable.
net_loss_off()
{
	local space device

	while read -r space device; do
		ns "$space" nft flush chain netdev "ft-$device" loss 2>/dev/null || :
	done < <(loss_points "$1" "$2" both)
}

net_loss_counter()
{
	local space device

	while read -r space device; do
		ns "$space" nft list counter netdev "ft-$device" lost 2>/dev/null || :
	done < <(loss_points "$1" "$2" "${3-both}") |
		awk '/packets/ { sum += $2 } END { print sum + 0 }'
}

loss_reached()
{
	[[ $(net_loss_counter "$1" "$2") -ge $3 ]]
}

# nstat_get NAMESPACE TcpRetransSegs: the kernel keeps these per namespace.
nstat_get()
{
	# shellcheck disable=SC2016 # awk reads the dollars
	ns "$1" awk -v want="$2" '
	$1 != table { table = $1; split($0, name); next }
	{
		for (i = 2; i <= NF; i++)
			if (substr(table, 1, length(table) - 1) name[i] == want)
				print $i
	}' /proc/net/snmp
}

ns_inode()
{
	stat -L -c %i "/run/netns/$1"
}

# ------------------------------------------------------------------------------------------- job

# job_start_command J N COMMAND..: like job_start, for any program.
job_start_command()
{
	local j=$1 n=$2 dir=$FT_TMP/job$1

	shift 2
	mkdir -p "$dir"
	MASTER_ADDR=${MASTER_ADDR-$(job_address "$j" 0)} MASTER_PORT=${MASTER_PORT-29500} \
		LD_LIBRARY_PATH=$BUILD/workload \
		env --default-signal bash "$FT_E2E/launcher" "$dir" "${FT_PREFIX}j$j-r" "$n" "$@" \
		>"$dir/launcher.log" 2>&1 </dev/null &
	JOB_PID[$j]=$!
	own_process $!
	if ! wait_until 10 test -s "$dir/pids"; then
		diag "job $j did not start: $(cat "$dir/launcher.log")"
		return 1
	fi
	wait_until 10 job_execed "$j" "$n" "$1" || :
	if grep -qsxE '12[67]' "$dir"/rank*.status; then
		diag "job $j did not start: $(job_log "$j" 0)"
		return 1
	fi
}

# The ranks are what they shall be, no longer ip or env on the way to it.
job_execed()
{
	local r exe

	exe=$(readlink -f "$(command -v "$3")")
	for ((r = 0; r < $2; r++)); do
		[[ $(readlink "/proc/$(job_pid "$1" "$r")/exe") == "$exe" ]] ||
			[[ -s $FT_TMP/job$1/rank$r.status ]] || return 1
	done
}

# With --hold among the arguments the ranks wait there for job_go.
job_start()
{
	local j=$1 n=$2

	shift 2
	[[ " $* " != *" --hold "* ]] || set -- "$@" --start-file "$FT_TMP/job$j/go"
	job_start_command "$j" "$n" "$TRAINER" "$@"
}

job_go()
{
	touch "$FT_TMP/job$1/go"
}

job_address()
{
	ip -n "$(ns_rank "$1" "$2")" -4 -o addr show dev eth0 |
		awk '{ sub("/.*", "", $4); print $4 }'
}

job_pid()
{
	sed -n "$(($2 + 1))p" "$FT_TMP/job$1/pids"
}

job_log()
{
	cat "$FT_TMP/job$1/rank$2.log"
}

job_status()
{
	cat "$FT_TMP/job$1/rank$2.status" 2>/dev/null || echo running
}

job_says()
{
	grep -qE "$3" "$FT_TMP/job$1/rank$2.log"
}

# job_wait J [SECONDS]: the launcher's exit status, 1 at the deadline.
job_wait()
{
	local status=0 log

	if ! wait_until "${2-60}" gone "${JOB_PID[$1]}"; then
		diag "job $1 did not end within ${2-60} s"
		return 1
	fi
	wait "${JOB_PID[$1]}" || status=$?
	[[ $status -eq 0 ]] || for log in "$FT_TMP/job$1"/*.log; do
		diag "$(basename "$log"): $(tail -n 5 "$log")"
	done
	return "$status"
}

# ---------------------------------------------------------------------------------------- tracer

# trace_begin NAME ARGS..: starts it and does not wait. TRACE_AS=(setpriv ..) goes before it.
trace_begin()
{
	local name=$1

	shift
	TRACE_STATUS[$name]=
	env --default-signal ${TRACE_AS[@]+"${TRACE_AS[@]}"} "$FABRICTRACE" "$@" \
		>"$FT_TMP/$name.out" 2>"$FT_TMP/$name.err" </dev/null &
	TRACE_PID[$name]=$!
	own_process $!
}

trace_attached()
{
	grep -q '"kind":"session"' "$FT_TMP/$1.out" || gone "${TRACE_PID[$1]}"
}

# trace_start NAME ARGS..: with --json, returns when it is attached.
trace_start()
{
	local name=$1

	shift
	trace_begin "$name" --json "$@"
	wait_until 20 trace_attached "$name" || :
	if ! grep -q '"kind":"session"' "$FT_TMP/$name.out"; then
		diag "no session line of: fabrictrace --json $*"
		diag "$(tail -n 10 "$FT_TMP/$name.err")"
		return 1
	fi
}

# trace_wait NAME [SECONDS]: waits for its own end; TRACE_STATUS[NAME] is the exit status.
trace_wait()
{
	local status=0

	if ! wait_until "${2-30}" gone "${TRACE_PID[$1]}"; then
		diag "fabrictrace ($1) did not end within ${2-30} s"
		end_process "${TRACE_PID[$1]}"
	fi
	{ wait "${TRACE_PID[$1]}" || status=$?; } 2>/dev/null
	# shellcheck disable=SC2034 # the tests read it
	TRACE_STATUS[$1]=$status
	[[ ! -s $FT_TMP/$1.err ]] || diag "fabrictrace ($1): $(head -n 20 "$FT_TMP/$1.err")"
}

# trace_stop NAME [SIGNAL]
trace_stop()
{
	kill -"${2-INT}" "${TRACE_PID[$1]}" 2>/dev/null || :
	trace_wait "$1"
}

# trace_jq NAME FILTER [JQ-OPTIONS..]: all lines as one array.
trace_jq()
{
	jq -r -s "${@:3}" "$2" "$FT_TMP/$1.out"
}

# count_of NAME CONDITION: events (with what a line stands for) that match.
count_of()
{
	trace_jq "$1" "map(select($2) | .count) | add // 0"
}

# A line that matches has arrived.
trace_has()
{
	[[ $(trace_jq "$1" "any(.[]; $2)" 2>/dev/null) == true ]]
}
