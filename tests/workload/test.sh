#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# Tests of the test job itself, in TAP. DIR holds libnccl.so.2 and the trainer: test.sh [DIR]
set -euo pipefail

dir=${1:-${BUILD:-build}/workload}
tmp=$(mktemp -d)
port=$((20000 + RANDOM % 10000))
number=0
failures=0
pids=()

# Only processes that this script started, and while they are its children: no pid is reused.
# TERM, since timeout passes it on.
stop_all() {
	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	for pid in "${pids[@]}"; do
		wait "$pid" 2>/dev/null || true
	done
	pids=()
}
trap 'stop_all; rm -rf "$tmp"' EXIT

export FT_NCCL_ADDR=127.0.0.1 MASTER_ADDR=127.0.0.1
# Helpers and runs that end by a signal have nothing to free.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:exitcode=99}
unset RANK WORLD_SIZE LOCAL_RANK NCCL_DEBUG NCCL_SOCKET_IFNAME NCCL_COMM_BLOCKING FT_NCCL_BLOCKING

report() {	# STATUS NAME
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number - $2"
		return
	fi
	echo "not ok $number - $2"
	failures=$((failures + 1))
	for f in "$tmp"/out.*; do
		[ -e "$f" ] || continue
		sed "s|^|# ${f##*.}: |" "$f" | tail -20
	done
}

try() {		# NAME COMMAND...: the test is that the command succeeds
	local name=$1 status=0
	shift
	"$@" || status=$?
	report "$status" "$name"
}

start() {	# RANKS OPTION...: a process for each rank
	local n=$1
	shift
	port=$((port + 1))
	rm -f "$tmp"/out.*
	pids=()
	for ((r = 0; r < n; r++)); do
		MASTER_PORT=$port RANK=$r WORLD_SIZE=$n LOCAL_RANK=$r \
			timeout -k 2 20 "$dir/trainer" "$@" >"$tmp/out.$r" 2>&1 &
		pids+=($!)
	done
}

# Waits for all; codes: what each exited with (124: it hung).
finish() {
	local pid code
	codes=
	for pid in "${pids[@]}"; do
		code=0
		wait "$pid" 2>/dev/null || code=$?
		codes+="$code "
	done
	pids=()
}

job() {		# RANKS OPTION...: all exit 0 and say that they verified
	local n=$1
	start "$@"
	finish
	[[ $codes =~ ^(0\ )+$ ]] && [ "$(cat "$tmp"/out.* | grep -c '"verified":true')" -eq "$n" ]
}

solo() {	# LINES OPTION...: one process
	local lines=$1
	shift
	rm -f "$tmp"/out.*
	timeout 20 "$dir/trainer" "$@" >"$tmp/out.0" 2>&1 &&
		[ "$(grep -c '"verified":true' "$tmp/out.0")" -eq "$lines" ]
}

# mov 0x1044d0(%base),%eax and within the next instructions a store of eax through a plain pointer:
# what tracers look for. Sanitizers and other architectures put other code there.
accessors() {
	[[ $dir != *-asan && $(uname -m) == x86_64 ]] && command -v objdump >/dev/null || return 0
	objdump -d --no-show-raw-insn --disassemble=pncclCommUserRank "$dir/libnccl.so.2" |
		grep -A1 'mov  *0x1044d0(%r..),%eax' | grep -q 'mov  *%eax,(%r..)'
}

symbols() {
	readelf -Ws --dyn-syms "$dir/libnccl.so.2" >"$tmp/syms"
	awk '$4 == "FUNC" && $8 ~ /^p?nccl[A-Z][A-Za-z]*$/ { at[$8] = $2; bind[$8] = $5 }
	     END { for (f in at) {
			if (f ~ /^p/) continue
			n++
			if (bind[f] != "WEAK" || bind["p" f] != "GLOBAL" || at[f] != at["p" f]) {
				print "# " f; bad = 1
			} }
		   exit bad || n < 31 }' "$tmp/syms" || return 1
	accessors || return 1
	grep -q 'LOCAL .* _Z12ncclDebugLog17ncclDebugLogLevelmPKciS1_z$' "$tmp/syms" &&
		readelf -d "$dir/libnccl.so.2" | grep -q 'soname: \[libnccl.so.2\]' &&
		grep -qa 'NCCL version 2.28.9+cuda13.0' "$dir/libnccl.so.2"
}

collectives() {
	timeout 60 "$dir/colltest" >"$tmp/out.0" 2>&1
}

exits() {	# rank 1 exits: the others end with a remote error, not with a hang
	start 3 --steps 50 --exit-at 5 --exit-rank 1 --exit-code 7
	finish
	[ "$codes" = "1 7 1 " ] &&
		[ "$(cat "$tmp"/out.* | grep -c '"error":"asynchronous error: 6')" -eq 2 ]
}

killed() {
	start 2 --steps 50 --signal-at 3 --signal-rank 0
	finish
	[ "$codes" = "137 1 " ]
}

warns() {
	export NCCL_DEBUG=WARN
	start 2 --steps 4 --warn-at 2 --warn-rank 1 --warn-text 'NET/IB: Got completion'
	finish
	unset NCCL_DEBUG
	[ "$codes" = "0 0 " ] && grep -q 'NCCL WARN NET/IB: Got completion' "$tmp/out.1" &&
		! grep -q 'NCCL WARN' "$tmp/out.0"
}

blocking() {
	FT_NCCL_BLOCKING=1 job 3 --steps 5 &&
		FT_NCCL_BLOCKING=1 solo 2 --threads 2 --init group --ops allreduce,sendrecv
}

# Nobody gets past the step in which rank 1 sleeps, and all go on after it.
stalls() {
	start 2 --steps 6 --stall-at 3 --stall-rank 1 --stall-s 1 --print-step
	sleep 0.7
	! grep -q '^step 3' "$tmp"/out.* || return 1
	finish
	[ "$codes" = "0 0 " ] && 
		awk '/^step 3 rank 0/ { bad = $8 < 500 } END { exit bad }' "$tmp/out.0"
}

delays() {
	start 2 --steps 20 --compute-ms 5 --delay-ms 1:20 --delay-from 10 --print-step
	finish
	[ "$codes" = "0 0 " ] &&
		awk '/^step/ { if ($2 < 10) a += $8; else b += $8 }
		     END { exit b < a + 150 }' "$tmp/out.0"
}

children_of() {
	cat "/proc/$1/task/"*/children 2>/dev/null
}

gone() {	# PID: ended, a zombie at most, within 2 s
	for ((tries = 0; tries < 40; tries++)); do
		grep -qs '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status" || return 0
		sleep 0.05
	done
	return 1
}

# The helpers are there, and end with a trainer that is killed.
helpers() {
	local trainer='' kids='' kid tries
	start 1 --threads 2 --nranks 2 --seconds 30 --helpers 2
	for ((tries = 0; tries < 100; tries++)); do
		read -r trainer _ <<<"$(children_of "${pids[0]}")" || true
		kids=$(children_of "${trainer:-none}") || true
		[ "$(wc -w <<<"$kids")" -lt 4 ] || break
		sleep 0.05
	done
	[ "$(wc -w <<<"$kids")" -eq 4 ] || { stop_all; return 1; }
	kill -KILL "$trainer"
	finish
	for kid in $kids; do
		gone "$kid" || return 1
	done
}

held() {
	start 2 --steps 2 --start-file "$tmp/go" --hold init --print-step
	sleep 0.3
	! grep -q init "$tmp"/out.* || return 1
	touch "$tmp/go"
	finish
	[ "$codes" = "0 0 " ]
}

late() {
	rm -f "$tmp"/out.*
	timeout 20 "$dir/trainer-dl" --dlopen-after-ms 100 --threads 2 --steps 3 \
		>"$tmp/out.0" 2>&1 &&
		[ "$(grep -c '"verified":true' "$tmp/out.0")" -eq 2 ]
}

init_only() {
	local out
	out=$(timeout 20 "$dir/trainer-dl" --dlopen "$dir/libnccl.so.2" --init-only \
		--init config) &&
		[[ $out == *'"version":22809,"result":0'* ]]
}

usage() {
	local status=0
	"$dir/trainer" --size 12Q >"$tmp/out.0" 2>&1 || status=$?
	[ "$status" -eq 64 ] && grep -q "'12Q' is not BYTES" "$tmp/out.0"
}

all=allreduce,allgather,reducescatter,broadcast,reduce,sendrecv,alltoall
echo 1..19
try "symbols as in the real library" symbols
try "colltest: types, operations, groups, splits, errors" collectives
try "2 processes" job 2 --steps 60
try "3 processes, every collective, several sizes" \
	job 3 --steps 3 --ops $all --size 12,1000,3M --verify all
try "4 processes, fused in one group" \
	job 4 --steps 3 --ops $all --size 64K,1M --group --verify all
try "4 processes, split in 2, several steps ahead" \
	job 4 --steps 20 --split 2 --sync-every 5 --init scalable
try "4 threads" solo 4 --threads 4 --ops $all --init config
try "one thread, ncclCommInitAll" solo 4 --threads 4 --ops $all --init-all --split 3
try "one thread, init in a group, for a time" solo 3 --threads 3 --init group --seconds 0.5
try "2 processes for a time" job 2 --seconds 0.5
try "blocking calls" blocking
try "a rank exits" exits
try "a rank is killed" killed
try "a rank warns" warns
try "a rank stalls" stalls
try "a rank is late from a step on" delays
try "helpers end with a killed trainer" helpers
try "held before the init, late dlopen, init only" eval 'held && late && init_only'
try "wrong usage" usage
[ "$failures" -eq 0 ]
