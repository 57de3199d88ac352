#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# shellcheck disable=SC2317 # some functions are called by wait_until
# deadline: 180
# Four ranks, 1 % loss on rank 2's link: every retransmitted segment that the kernel counts is on
# the right process, rank and link, and nothing is on ranks whose traffic does not cross it. Then
# two jobs at once, with the same addresses, traced one by one.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

DROPS=60 # how many packets a loss takes before it ends

need nft jq
need_built "$FABRICTRACE" "$TRAINER"

declare -A BEFORE=() HOLD=() STRAY=()

# prepare J NET HOLD: hosts, a job that waits before its init or its first step, the counters.
prepare()
{
	local j=$1 r

	HOLD[$j]=$3
	net_star "$j" 4 "$2"
	job_start "$j" 4 --seconds 6 --size 4M --print-step --hold "$3"
	for r in 0 1 2 3; do
		[[ $3 == init ]] ||
			ok "job $j rank $r is up" wait_until 20 job_says "$j" "$r" '^init rank'
		BEFORE[$j,$r]=$(nstat_get "$(ns_rank "$j" "$r")" TcpRetransSegs)
	done
}

# Every other SYN and SYN-ACK of the rank, while the job meets: some are sent again for certain.
lose_handshakes()
{
	net_loss "$1" "$2" 1/2 both 'tcp flags & syn == syn'
	job_go "$1"
	ok "job $1: the ranks meet all the same" wait_until 20 job_says "$1" "$2" '^init rank'
}

# The loss ends before the job does: a FIN that is lost after its process has gone would be
# counted by the kernel, and nobody is there any more whose retransmission it is.
lose()
{
	local j

	for j in "$@"; do
		net_loss "$j" 2 1
		job_go "$j"
	done
	for j in "$@"; do
		ok "job $j: $DROPS packets are lost" wait_until 4 loss_reached "$j" 2 $DROPS
		net_loss_off "$j" 2
	done
}

segs_of()
{
	trace_jq "$1" "map(select(.kind == \"tcp.retransmit\" and ($2)) | .data.segs) | add // 0"
}

# The kernel may retransmit without a loss, on a busy machine. What it counted must be in the
# lines, here too (below), but then it is not for this test to say that there are none.
bystander()
{
	local what="job $1 rank $2: its links lose nothing, it retransmits nothing"

	STRAY[$1]=$((${STRAY[$1]-0} + $3))
	if [[ $3 -gt 0 && $3 -lt 20 ]]; then
		skip "$what" "the kernel retransmitted $3 by mistake"
	else
		is "$3" 0 "$what"
	fi
}

check_rank()
{
	local j=$1 r=$2 name=$3 pid space delta

	pid=$(job_pid "$j" "$r")
	space=$(ns_rank "$j" "$r")
	delta=$(($(nstat_get "$space" TcpRetransSegs) - BEFORE[$j,$r]))
	if [[ $r == [12] ]]; then
		ok "job $j rank $r: the kernel retransmitted ($delta)" test "$delta" -gt 0
	elif [[ ${HOLD[$j]} == steps ]]; then
		# In the steps only neighbours talk; while they meet, all talk to all.
		bystander "$j" "$r" "$delta"
	fi
	is "$(segs_of "$name" ".pid == $pid")" "$delta" \
		"job $j rank $r: segments on its process = TcpRetransSegs"
	is "$(segs_of "$name" ".ranks == [.ranks[0]] and .ranks[0].global_rank == $r")" "$delta" \
		"job $j rank $r: segments on its rank = TcpRetransSegs"
	is "$(segs_of "$name" ".data.netns == $(ns_inode "$space")")" "$delta" \
		"job $j rank $r: segments in its namespace = TcpRetransSegs"
}

check_job()
{
	local j=$1 name=$2 net=$3 r away foreign
	local lossy=".data.saddr == \"$net.3\" or .data.daddr == \"$net.3\""

	for r in 0 1 2 3; do
		check_rank "$j" "$r" "$name"
	done
	# While they meet, all talk to all: then a busy machine's mistakes are everywhere.
	if [[ ${HOLD[$j]} == steps ]]; then
		away=$(segs_of "$name" "$lossy | not")
		ok "job $j: every segment crosses rank 2's link" test "$away" -le "${STRAY[$j]-0}"
	fi
	# Also a SYN-ACK, which has no route yet, and a closed socket, which has none any more.
	is "$(segs_of "$name" '.nics | map(.netdev) != ["eth0"]')" 0 \
		"job $j: every segment names its NIC"
	is "$(segs_of "$name" '(.how | any(. == "route")) != (.data.ifindex != null)')" 0 \
		"job $j: and by its route only where it has one"
	is "$(segs_of "$name" '.shared')" 0 "job $j: no segment is in doubt"
	foreign="(.data.saddr | startswith(\"$net.\")) and (.data.daddr | startswith(\"$net.\"))"
	is "$(segs_of "$name" "$foreign | not")" 0 "job $j: no address of another net"
	# A state change on a CPU that is in another one is skipped by the kernel, and told.
	is "$(trace_jq "$name" 'map(select(.kind == "lost" and .data.of != "tcp.state")) | length')" \
		0 "job $j: nothing lost"
}

# The counters are read once nothing of the job is left, not even its sockets.
finish()
{
	local j=$1 name=$2

	ok "job $j ends, its results verified" job_wait "$j"
	trace_wait "$name"
	is "${TRACE_STATUS[$name]}" 0 "job $j: the trace ends with its last process"
	is "$(trace_jq "$name" '.[0].kind, .[-1].kind' | paste -sd' ')" "session verdict" \
		"job $j: session first, verdict last"
}

# Every socket of the job is closed for good: TIME_WAIT sends nothing.
quiet()
{
	local r

	for r in 0 1 2 3; do
		[[ -z $(ns "$(ns_rank "$1" "$r")" ss -Htn state connected exclude time-wait) ]] ||
			return 1
	done
}

check_verdict()
{
	local name=$1 verdict

	verdict=$(trace_jq "$name" '.[-1] | tojson')
	like "$(jq -r '.data.cause.kind' <<<"$verdict")" '.' "$name: the verdict has a cause"
	like "$(jq -r '.data.cause.object' <<<"$verdict")" 'rank 2' \
		"$name: and its object is rank 2's link"
}

prepare 0 10.99.0 steps
trace_start one -p "${JOB_PID[0]}"
lose 0
finish 0 one
wait_until 10 quiet 0 || diag "sockets are left"
check_job 0 one 10.99.0
check_verdict one

check_own()
{
	local j=$1 name=$2 own

	own=$({
		echo "${JOB_PID[$j]}"
		cat "$FT_TMP/job$j/pids"
	} | jq -s .)
	# shellcheck disable=SC2016 # a variable of jq's
	is "$(trace_jq "$name" 'map(.pid | select(. != null)) - $own | unique | tojson' \
		--argjson own "$own")" "[]" "job $j: no line of the other job's processes"
}

# Both nets have the same addresses: only the namespace tells their sockets apart. One of them is
# held before its init: lost SYNs and SYN-ACKs count too.
prepare 1 10.99.1 steps
prepare 2 10.99.1 init
trace_start two -p "${JOB_PID[1]}"
trace_start three -p "${JOB_PID[2]}"
lose_handshakes 2 2
lose 1 2
finish 1 two
finish 2 three
for j in 1 2; do
	wait_until 10 quiet $j || diag "sockets are left in job $j"
done
check_job 1 two 10.99.1
check_job 2 three 10.99.1
ok "job 2: there are SYN-ACKs among them" test \
	"$(segs_of three '.data.tcp_state == "NEW_SYN_RECV"')" -gt 0
check_own 1 two
check_own 2 three

done_testing
