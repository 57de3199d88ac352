#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# A job attached to after it started: the sockets that were open belong to their process, ranks
# come from the environment, or are unknown where it has none. Never 0 for unknown.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need nft jq
need_built "$FABRICTRACE" "$TRAINER"

declare -A BEFORE=()

# signal_job J SIGNAL
signal_job()
{
	local r

	for r in 0 1 2 3; do
		kill -"$2" "$(job_pid "$1" "$r")"
	done
}

# The kernel's count of each rank; true when none has moved since the last call.
counts_rest()
{
	local j=$1 r now moved=0

	sleep 0.2
	for r in 0 1 2 3; do
		now=$(nstat_get "$(ns_rank "$j" "$r")" TcpRetransSegs)
		[[ $now == "${BEFORE[$j,$r]-}" ]] || moved=1
		BEFORE[$j,$r]=$now
	done
	[[ $moved -eq 0 ]]
}

# run J ARGS..: the job is at work, then the tracer comes, then the loss; it ends by itself.
run()
{
	local j=$1

	shift
	net_star "$j" 4
	job_start "$j" 4 --seconds 7 --size 1M --print-step "$@"
	ok "job $j is at work" wait_until 20 job_says "$j" 3 '^step 20 '
	# It stands still while the tracer comes, so that both counts begin at one place.
	signal_job "$j" STOP
	ok "job $j stands still" wait_until 10 counts_rest "$j"
	trace_start "late$j" -p "${JOB_PID[$j]}"
	net_loss "$j" 2 1
	signal_job "$j" CONT
	ok "job $j: packets are lost" wait_until 6 loss_reached "$j" 2 30
	net_loss_off "$j" 2
	ok "job $j ends, its results verified" job_wait "$j"
	trace_wait "late$j"
}

retransmits()
{
	trace_jq "late$1" "map(select(.kind == \"tcp.retransmit\")) | $2"
}

check_sockets()
{
	local j=$1 r delta space

	for r in 0 1 2 3; do
		space=$(ns_rank "$j" "$r")
		delta=$(($(nstat_get "$space" TcpRetransSegs) - BEFORE[$j,$r]))
		is "$(retransmits "$j" "map(select(.pid == $(job_pid "$j" "$r")) | .data.segs)
			| add // 0")" \
			"$delta" "job $j rank $r: its old sockets are its own ($delta segments)"
	done
	is "$(retransmits "$j" 'map(.how | any(. == "open-file" or . == "sock-owner"))
		| all')" true \
		"job $j: says how it knows the owner"
}

check_env()
{
	local r

	for r in 1 2; do
		is "$(retransmits 0 "map(select(.pid == $(job_pid 0 $r)) | .ranks[0].global_rank)
			| unique | tojson")" "[$r]" "rank $r by its environment"
	done
	is "$(retransmits 0 'map(.how | any(. == "env" or . == "comm-memory")) | all')" true \
		"says that the rank is the environment's"
	is "$(retransmits 0 'map(.ranks | length == 1) | all')" true "one rank each"
}

check_unknown()
{
	is "$(retransmits 1 'map(.ranks | tojson) | unique | join(" ")')" "[]" \
		"without an environment the rank is unknown, not 0"
	is "$(retransmits 1 'map(.how | any(. == "env")) | any')" false \
		"and nothing claims to be the environment's"
	ok "the lines are there all the same" test "$(retransmits 1 length)" -gt 0
}

run 0
check_sockets 0
check_env

LAUNCHER_ENV=none
export LAUNCHER_ENV
run 1 --rank "{rank}" --nranks 4
check_sockets 1
# Once the communicator's memory can be read, ranks are known without an environment.
if [[ $(retransmits 1 'map(.how | any(. == "comm-memory")) | any') == true ]]; then
	skip "unknown ranks" "ranks are read from the communicator's memory"
else
	check_unknown
fi

done_testing
