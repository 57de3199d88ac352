#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# What the README says of this kernel is what loads on it, the rest says truly why not, and what
# loads counts right: a job of two ranks with a bad link, against the kernel's own counters.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"

[[ -n ${FT_VM_KERNEL-} ]] || skip_all "runs in a guest: tests/vm/kernel KERNEL"
need nft jq ip
need_built "$FABRICTRACE" "$TRAINER"

readonly DROPS=30
readonly TCP=(tcp_set_state tcp_retransmit tcp_retransmit_synack tcp_receive_reset tcp_send_reset
	sock_iter sock_look)
readonly MULTI=(nccl_enter_multi nccl_return_multi)

# What the kernel lacks and why, by program: no socket storage in tracing programs before 5.11, no
# uprobe_multi before 6.6. Where the latter is, plain uprobes are not needed.
declare -A LACKS=()
lacks()
{
	local why=$1 program

	shift
	for program in "$@"; do
		LACKS[$program]=$why
	done
}

# What something else makes needless: the better variant that this kernel has, or what this kernel
# does not do at all.
declare -A NEEDLESS=()
needless()
{
	local program

	for program in "$@"; do
		NEEDLESS[$program]=1
	done
}

needless link_speed_kprobe link_retrain_kprobe hp_change_kprobe hp_removed_kprobe dpc_error_kprobe \
	recovery_kprobe
case $FT_VM_KERNEL in
5.10 | 6.1) needless link_retrain ;;&
5.10 | 6.1 | 6.12)
	lacks 'this kernel has no' link_event hp_event
	needless link_bits_cleared link_irq
	;;
*) needless link_speed link_retrain hp_change hp_changed ;;
esac
case $FT_VM_KERNEL in
5.10)
	lacks 'verifier refused' "${TCP[@]}" net_drop
	lacks 'uprobe_multi is in 6.6+' "${MULTI[@]}"
	;;
6.1) lacks 'uprobe_multi is in 6.6+' "${MULTI[@]}" ;;
esac

# check_program NAME STATE REASON
check_program()
{
	local name=$1 state=$2 reason=$3 why=${LACKS[$1]-}

	if [[ -n $why ]]; then
		is "$state" "not attached" "$name is not attached"
		ok "$name: and the reason is true: $reason" test "$reason" != "${reason#*"$why"}"
	elif [[ -n ${NEEDLESS[$name]-} ]]; then
		is "$state" "not needed" "$name is not needed"
	elif [[ $name == nccl_* && -z ${LACKS[nccl_enter_multi]-} && $name != *_multi ]]; then
		is "$state" "not needed" "$name is not needed"
	elif [[ $name == nvml_* ]]; then
		is "$state" "not needed" "$name is not needed: no GPU is here"
	else
		is "$state" attached "$name is attached"
	fi
}

# Reads "program state reason" of each row of the table, tab-separated.
check_table()
{
	local name state reason

	while IFS=$'\t' read -r name state reason; do
		check_program "$name" "$state" "$reason"
	done < <(trace_jq job '.[] | select(.kind == "probe") | .data |
		[.program, .state, .reason] | @tsv')
}

# What another program does in its place is not missed.
check_not_missed()
{
	is "$(trace_jq job '[.[] | select(.kind == "session" or .kind == "verdict") |
		.data.blind[] | select(test("uprobe.multi"))] | length')" 0 \
		"uprobe.multi is not missed where plain uprobes are taken"
}

# Without a job the rows of NCCL and of the pollers have nothing to attach to yet.
check_probes()
{
	local status=0 off

	"$FABRICTRACE" probes --json >"$FT_TMP/probes.out" 2>"$FT_TMP/probes.err" || status=$?
	is "$status" 0 "fabrictrace probes: exit status"
	is "$(<"$FT_TMP/probes.err")" "" "and it complains of nothing"
	off=$(trace_jq probes 'map(.data | select(.state == "not attached") | .program) | sort | .[]')
	is "$off" "$(printf '%s\n' "${!LACKS[@]}" | sort | grep . || :)" \
		"it says that of all only these are not attached: ${!LACKS[*]}"
}

retransmitted()
{
	nstat_get "$(ns_rank 0 "$1")" TcpRetransSegs
}

# A lossy link from the init on; the job goes on for a while after it.
run_job()
{
	local r

	net_star 0 2
	job_start 0 2 --seconds 10 --size 256K --hold init --print-step
	for r in 0 1; do
		BEFORE[r]=$(retransmitted $r)
	done
	trace_start job -p "${JOB_PID[0]}"
	net_loss 0 1 3
	job_go 0
	wait_until 8 loss_reached 0 1 $DROPS || :
	net_loss_off 0 1
	ok "packets were lost" loss_reached 0 1 5
	ok "the job ends, its results verified" job_wait 0 60
	trace_wait job 60
	is "${TRACE_STATUS[job]}" 0 "fabrictrace: exit status"
	is "$(trace_jq job '.[0].kind, .[-1].kind' | paste -sd' ')" "session verdict" \
		"session first, verdict last"
}

segs_of()
{
	trace_jq job "map(select(.kind == \"tcp.retransmit\" and .pid == $1) | .data.segs) | add // 0"
}

check_counts()
{
	local r delta

	for r in 0 1; do
		delta=$(($(retransmitted $r) - BEFORE[r]))
		diag "rank $r: the kernel sent $delta segments again"
		is "$(segs_of "$(job_pid 0 $r)")" "$delta" "rank $r: segments = TcpRetransSegs"
	done
	ok "something was retransmitted" test "$(count_of job '.kind == "tcp.retransmit"')" -gt 0
	ok "drops are seen" test "$(count_of job '.kind == "net.drop"')" -gt 0
	is "$(trace_jq job '.[-1].data.cause.kind')" lossy-link "the verdict names the lossy link"
	is "$(trace_jq job 'map(select(.kind == "lost" and .data.of != "tcp.state")) | length')" 0 \
		"nothing is lost"
}

# lacks_storage OBJECT: in the verifier's own words; nothing before that stands in the way.
lacks_storage()
{
	bpftool -d prog loadall "$BUILD/bpf/$1.bpf.o" "/sys/fs/bpf/$1" >"$FT_TMP/$1.log" 2>&1 || :
	grep -q 'unknown func bpf_sk_storage_get' "$FT_TMP/$1.log"
}

# Not watched is said, and is no zero.
check_blind()
{
	local said

	ok "tcp: what is missing is socket storage" lacks_storage tcp
	ok "net: what is missing is socket storage" lacks_storage net
	is "$(count_of job '.kind | startswith("tcp.") or startswith("net.drop")')" 0 \
		"no line of what is not watched"
	said=$(trace_jq job '.[0].data.blind | join("; ")')
	like "$said" "TCP retransmissions" "the session says that retransmissions are not seen"
	like "$said" "packets dropped" "and drops"
	like "$(trace_jq job '.[-1].data.blind | join("; ")')" "packet loss: not watched" \
		"the verdict says so too"
	is "$(trace_jq job '.[-1].data.cause.kind')" null "and names no cause"
}

check_nccl()
{
	is "$(trace_jq job '[.[] | select(.kind == "nccl.comm") | .data.rank | values] | sort |
		tojson')" "[0,1]" "the communicator's ranks are known"
	ok "NCCL calls are counted" test "$(count_of job '.kind == "nccl.stats"')" -gt 0
	is "$(trace_jq job '.[0].data.blind | map(select(startswith("TCP") or
		startswith("packets"))) | length')" "$1" "$1 of TCP and drops in the blind spots"
}

declare -a BEFORE=()
check_probes
run_job
check_table
check_not_missed
if [[ -z ${LACKS[tcp_retransmit]-} ]]; then
	check_counts
	check_nccl 0
else
	check_blind
	check_nccl 2
fi
is "$(dmesg | grep 'WARNING: .*kernel/bpf/' || :)" "" "the kernel warned of no program or map"

done_testing
