#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# Containers of one image: the same library below two overlay mounts shows two devices and inodes,
# yet is one file to the kernel. One call makes one event, in whichever container it is.
# shellcheck disable=SC2016,SC2317 # for the inner shell; called by wait_until
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq unshare
need_built "$FABRICTRACE" "$TRAINER"

layer=$FT_TMP/layer
mkdir -p "$layer" "$FT_TMP/up" "$FT_TMP/a" "$FT_TMP/b"
cp -r "$(dirname "$TRAINER")/." "$layer"
# A private mount namespace, so that the mounts go with the processes.
contained()
{
	unshare -m bash -c '
		set -e
		mount -t tmpfs tmpfs "$1/up"
		for x in a b; do
			mkdir -p "$1/up/$x/u" "$1/up/$x/w"
			own=upperdir=$1/up/$x/u,workdir=$1/up/$x/w
			mount -t overlay overlay -o "lowerdir=$1/layer,$own" "$1/$x"
		done
		export MASTER_ADDR=127.0.0.1 MASTER_PORT=$2 WORLD_SIZE=2 NCCL_SOCKET_IFNAME=lo
		for r in 0 1; do
			[[ $r -eq 0 ]] && x=a || x=b
			export RANK=$r LOCAL_RANK=$r LD_LIBRARY_PATH=$1/$x
			"$1/$x/trainer" --steps 50 --size 4K --hold init --start-file "$1/go" \
				--print-step >"$1/rank$r.log" 2>&1 &
			echo $! >>"$1/pids"
		done
		touch "$1/started"
		wait
	' contained "$FT_TMP" "$((20000 + $$ % 20000))" </dev/null >"$FT_TMP/contained.log" 2>&1
}

unshare -m true || skip_all "no mount namespaces"
contained &
launcher=$!
own_process $launcher
if ! wait_until 10 test -e "$FT_TMP/started"; then
	skip_all "no overlay mounts here: $(head -c 200 "$FT_TMP/contained.log")"
fi
mapfile -t pids <"$FT_TMP/pids"
own_process "${pids[0]}"
own_process "${pids[1]}"
mapped()
{
	grep -q libnccl "/proc/${pids[0]}/maps" && grep -q libnccl "/proc/${pids[1]}/maps"
}
ok "both have the library mapped" wait_until 10 mapped
files=$(for pid in "${pids[@]}"; do awk '/libnccl/ { print $4, $5; exit }' "/proc/$pid/maps"; done |
	sort -u | wc -l)
diag "$files different device and inode numbers in their maps"

trace_start overlay --collectives -p "$launcher"
touch "$FT_TMP/go"
ok "the job ends" wait_until 30 gone "$launcher"
trace_wait overlay
for r in 0 1; do
	ok "rank $r: its results are verified" grep -q '"verified":true' "$FT_TMP/rank$r.log"
	is "$(trace_jq overlay "map(select(.kind == \"nccl.comm\" and .pid == ${pids[r]}
		and .data.op == \"CommInitRank\")) | length")" 1 "rank $r: one init, one event"
	is "$(count_of overlay ".kind == \"nccl.call\" and .pid == ${pids[r]}
		and .data.op == \"AllReduce\"")" 50 "rank $r: 50 calls, 50 events"
done

done_testing
