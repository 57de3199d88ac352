#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# A rank that dies is an event with its exit status or signal. Forked helpers (data loaders) have
# the library, the environment and the memory of their rank, but are no ranks: their end is no
# fault.
# shellcheck disable=SC2317 # some functions are called by wait_until
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq
need_built "$FABRICTRACE" "$TRAINER"

# The proc.exit line of a process: [exit_code, signal, global_rank], and whether it is a fault.
exits()
{
	trace_jq "$1" "map(select(.kind == \"proc.exit\" and .pid == $2)) | .[]
		| [.data.exit_code, .data.signal, .ranks[0].global_rank] | tojson"
}

is_fault()
{
	trace_jq "$1" "map(select(.kind == \"proc.exit\" and .pid == $2)) | .[]
		| .severity == \"error\" or .severity == \"fatal\""
}

# run J NAME ARGS..: rank 2 ends early as the arguments say; the others are left alone and fail.
run()
{
	local j=$1 name=$2

	shift 2
	net_star "$j" 4
	job_start "$j" 4 --steps 100000 --size 64K --print-step --hold steps "$@"
	ok "$name: the job is up" wait_until 20 job_says "$j" 3 '^init rank'
	trace_start "$name" -p "${JOB_PID[$j]}"
	job_go "$j"
	ok "$name: rank 2 has ended" wait_until 20 gone "$(job_pid "$j" 2)"
}

# What the ranks without their neighbour do is their own affair; the test has seen enough.
end()
{
	local j=$1 name=$2 r

	wait_until 3 gone "${JOB_PID[$j]}" || for r in 0 1 3; do
		kill -TERM "$(job_pid "$j" "$r")" 2>/dev/null || :
	done
	trace_wait "$name"
	is "${TRACE_STATUS[$name]}" 0 "$name: the trace ends with its last process"
}

run 0 code --exit-at 20 --exit-rank 2 --exit-code 3
end 0 code
is "$(exits code "$(job_pid 0 2)")" "[3,null,2]" "exit status 3 of rank 2"
is "$(is_fault code "$(job_pid 0 2)")" true "and it is a fault"

run 1 signal --signal-at 20 --signal-rank 2 --signal 11
end 1 signal
is "$(exits signal "$(job_pid 1 2)")" "[null,11,2]" "signal 11 of rank 2"
is "$(is_fault signal "$(job_pid 1 2)")" true "and it is a fault"

# 16 helpers per rank. They are ended by SIGKILL while the job goes on, as a data loader's are.
net_star 2 4
job_start 2 4 --seconds 4 --size 64K --print-step --hold steps --helpers 16
ok "helpers: the job is up" wait_until 20 job_says 2 3 '^init rank'
helpers_up()
{
	[[ $(pgrep -c -P "$(paste -sd, "$FT_TMP/job2/pids")") -eq 64 ]]
}
ok "helpers: all 64 run" wait_until 10 helpers_up
helpers=$(pgrep -P "$(paste -sd, "$FT_TMP/job2/pids")" | jq -s .)
trace_start helpers -p "${JOB_PID[2]}"
job_go 2
ok "helpers: the job ends, its results verified" job_wait 2
trace_wait helpers

# shellcheck disable=SC2016 # variables of jq's
{
	is "$(trace_jq helpers 'map(select(.kind == "proc.exit" and (.pid | IN($h[])))) | length' \
		--argjson h "$helpers")" 64 "helpers: the end of each is seen"
	is "$(trace_jq helpers 'map(select(.kind == "proc.exit" and (.pid | IN($h[]))
		and .severity != "info")) | length' --argjson h "$helpers")" 0 \
		"helpers: none of them is a fault"
	is "$(trace_jq helpers 'map(select(.pid | IN($h[])) | .ranks[]) | length' \
		--argjson h "$helpers")" 0 "helpers: none of them is a rank"
	is "$(trace_jq helpers 'map(select(.kind == "inv.proc" and .data.helper) | .pid) | sort
		| unique == ($h | sort)' --argjson h "$helpers")" true \
		"helpers: the inventory calls them so"
}
is "$(trace_jq helpers 'map(select(.kind == "proc.exit" and .severity != "info")) | length')" 0 \
	"helpers: no exit of this job is a fault"
is "$(trace_jq helpers '.[-1].data.cause.kind | tojson')" null "helpers: the verdict has no cause"

done_testing
