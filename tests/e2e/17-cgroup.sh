#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# A job named by its cgroup, version 1 or 2, by the whole path or a part that only one has: its
# processes and those that they start, and no others.
# shellcheck disable=SC2317 # called by at_exit
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq
need_built "$FABRICTRACE"

UNIQUE=ft$$

cgroup_root()
{
	awk -v want="$1" '
	$3 == want && (want == "cgroup2" || $4 ~ /(^|,)pids(,|$)/) { print $2; exit }' /proc/mounts
}

# run NAME ROOT PATTERN: a process in ROOT/UNIQUE/job_88UNIQUE starts others after the attach.
run()
{
	local name=$1 dir=$2/$UNIQUE/job_88$UNIQUE pattern=$3 pid go=$FT_TMP/$1.go other child joins

	mkdir -p "$dir"
	sh -c 'while ! test -e "$0"; do sleep 0.05; done; sleep 0.3 & echo $! >"$0.child"; wait' \
		"$go" </dev/null >/dev/null 2>&1 &
	pid=$!
	own_process $pid
	sleep 60 &
	other=$!
	own_process $other
	echo $pid >"$dir/cgroup.procs"
	sleep 60 &
	joins=$!
	own_process $joins
	trace_start "$name" --cgroup "$pattern"
	echo $joins >"$dir/cgroup.procs"
	ok "$name: a process that is moved in is seen" \
		wait_until 5 trace_has "$name" ".kind == \"inv.proc\" and .pid == $joins"
	kill $joins
	touch "$go"
	trace_wait "$name" 20
	child=$(cat "$go.child")
	is "${TRACE_STATUS[$name]}" 0 "$name: ends with the last process of the cgroup"
	is "$(trace_jq "$name" "any(.[]; .kind == \"proc.exit\" and .pid == $pid)")" true \
		"$name: its process is seen"
	is "$(trace_jq "$name" "any(.[]; .kind == \"proc.exit\" and .pid == $child)")" true \
		"$name: and what that started later"
	is "$(trace_jq "$name" "any(.[]; .pid == $other)")" false "$name: no other process is"
	kill $other
	rmdir "$dir"
}

remove_group()
{
	rmdir "$1"/job_* "$1" 2>/dev/null
}

for type in cgroup2 cgroup; do
	root=$(cgroup_root $type)
	if [[ -z $root ]] || ! mkdir "$root/$UNIQUE" 2>/dev/null; then
		skip "$type" "no $type hierarchy in which a group can be made"
		continue
	fi
	at_exit remove_group "$root/$UNIQUE"
	run "$type-part" "$root" "job_88$UNIQUE"
	run "$type-path" "$root" "$root/$UNIQUE/job_88$UNIQUE"
done

done_testing
