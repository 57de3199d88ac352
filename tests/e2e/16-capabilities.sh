#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# With five capabilities and no root it sees a job in its own network namespace; what the missing
# ones cost is named. Without tracefs it runs, too.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need nft jq setpriv
need_built "$FABRICTRACE" "$TRAINER"

FIVE=+bpf,+perfmon,+sys_ptrace,+dac_read_search,+net_admin
readable_tracer()
{
	chmod 755 "$FT_TMP"
	cp "$FABRICTRACE" "$FT_TMP/fabrictrace"
	chmod 755 "$FT_TMP/fabrictrace"
	FABRICTRACE=$FT_TMP/fabrictrace
}

# with CAPABILITIES: how a user with these and no others runs a program.
with()
{
	TRACE_AS=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps "-all,$1"
		--ambient-caps "-all,$1")
}

readable_tracer
net_star 0 4
job_start 0 4 --seconds 8 --size 1M --print-step --hold steps
ok "the job is up" wait_until 20 job_says 0 3 '^init rank'
before=$(nstat_get "$(ns_rank 0 2)" TcpRetransSegs)

# The tracer is where the traced rank is: entering another namespace needs CAP_SYS_ADMIN.
with $FIVE
TRACE_AS=(nsenter --net="/run/netns/$(ns_rank 0 2)" -- "${TRACE_AS[@]}")
trace_start five -p "$(job_pid 0 2)"
net_loss 0 2 1
job_go 0
ok "packets are lost" wait_until 6 loss_reached 0 2 30
net_loss_off 0 2
ok "the job ends, its results verified" job_wait 0
trace_wait five
delta=$(($(nstat_get "$(ns_rank 0 2)" TcpRetransSegs) - before))
is "${TRACE_STATUS[five]}" 0 "five capabilities: exit status 0"
is "$(trace_jq five 'map(select(.kind == "tcp.retransmit") | .data.segs) | add // 0')" "$delta" \
	"five capabilities: segments = TcpRetransSegs of the namespace ($delta)"
is "$(trace_jq five 'map(select(.kind == "tcp.retransmit") | .ranks[0].global_rank) | unique
	| tojson')" "[2]" "five capabilities: on the right rank"

with $FIVE
timeout 30 "${TRACE_AS[@]}" "$FABRICTRACE" probes >"$FT_TMP/probes" 2>&1 || :
like "$(cat "$FT_TMP/probes")" SYS_ADMIN "probes: names what CAP_SYS_ADMIN would add"

# Exit status 77 only when no source at all can start.
status=0
with +net_raw
timeout 30 "${TRACE_AS[@]}" "$FABRICTRACE" -d 1 -p $$ >"$FT_TMP/out" 2>"$FT_TMP/err" \
	</dev/null || status=$?
is "$status" 77 "with a capability of no use: exit status 77"
like "$(cat "$FT_TMP/err")" 'CAP_BPF' "and it names CAP_BPF"

# No tracefs: nothing that it does needs it to be mounted.
unset TRACE_AS
status=0
# shellcheck disable=SC2016 # for the inner shell
timeout 30 unshare -m bash -c 'umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null
	exec "$0" --json -d 1 -p "$1"' "$FABRICTRACE" $$ >"$FT_TMP/notracefs.out" 2>"$FT_TMP/err" \
	</dev/null || status=$?
is "$status" 0 "without tracefs: exit status 0"
is "$(trace_jq notracefs '.[-1].kind')" verdict "without tracefs: ends in a verdict"

done_testing
