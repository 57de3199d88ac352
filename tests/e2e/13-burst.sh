#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# shellcheck disable=SC2317 # some functions are called by a name in a variable
# deadline: 180
# 1,000,000 dropped packets in a burst: the counts are exact, the output is not flooded, and what
# was lost on the way, if anything, is reported.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

COUNT=${COUNT:-1000000}

need nft jq
need_built "$FABRICTRACE"
BURST=$(compile udp_burst)

# Of the packets that nftables dropped: seen in the lines, and lost by the tracer's own account.
burst_seen()
{
	count_of "$1" '.kind == "net.drop" and .data.reason == "NETFILTER_DROP"'
}

burst_lost()
{
	trace_jq "$1" 'map(select(.kind == "lost" and .data.of == "net.drop") | .data.records)
		| add // 0'
}

# Packets are received where they were sent, in the sender's own time. Handed to another CPU they
# interrupt whoever runs there, and some kernels (a guest's 6.18 with its agent as process 1) never
# run BPF programs while certain tasks are interrupted, and count no miss: perf sees those events.
receive_at_sender()
{
	# shellcheck disable=SC2016 # for the inner shell, with the namespace's own /sys
	ip netns exec "$1" bash -c 'for f in /sys/class/net/*/queues/rx-0/rps_cpus; do
		echo 0 >"$f" || :
	done' 2>/dev/null
}

burst_net()
{
	net_star "$1" 2
	receive_at_sender "$(ns_switch "$1")"
	receive_at_sender "$(ns_rank "$1" 1)"
}

# burst J NAME: two ranks, the rule is in place; sends, ends, and compares with the counter.
burst()
{
	local j=$1 name=$2 dropped seen lost dir=$FT_TMP/job$1

	job_start_command "$j" 2 "$BURST" "{rank}" "10.99.$j.1" "10.99.$j.2" 5001 "$COUNT" "$dir"
	trace_start "$name" -p "${JOB_PID[$j]}"
	touch "$dir/go"
	ok "$name: the burst is sent" wait_until 90 test -e "$dir/sent"
	touch "$dir/stop"
	ok "$name: the job ends" job_wait "$j" 20
	trace_wait "$name"
	is "${TRACE_STATUS[$name]}" 0 "$name: the trace ends by itself"
	dropped=$("$name"_counter "$j")
	is "$dropped" "$COUNT" "$name: nftables dropped all of the burst"
	seen=$(burst_seen "$name")
	lost=$(burst_lost "$name")
	# What the kernel skipped may have been anybody's packet: it is reported as "at most".
	ok "$name: of $dropped dropped $seen are counted, at most $lost lost" \
		test "$seen" -le "$dropped" -a $((seen + lost)) -ge "$dropped"
	check_lines "$j" "$name"
}

check_lines()
{
	local j=$1 name=$2 lines

	diag "$name: lost $(burst_lost "$name")"
	lines=$(wc -l <"$FT_TMP/$name.out")
	ok "$name: no flood ($lines lines)" test "$lines" -lt 1000
	is "$(trace_jq "$name" 'map(select(.kind == "net.drop") | .pid) | unique | map(tostring)
		| join(" ")')" "$(job_pid "$j" "$("$name"_owner)")" \
		"$name: every drop is on the process that owns the socket"
	is "$(trace_jq "$name" 'map(select(.kind == "net.drop" and .count > 1)
		| .first_ts_ns == null or .last_ts_ns == null) | any')" false \
		"$name: what stands for several says from when to when"
}

# Received: the packet has no socket yet, its owner is found by the addresses.
ingress_counter()
{
	net_loss_counter "$1" 1 in
}

ingress_owner()
{
	echo 1
}

# Sent: the packet carries the sender's socket.
output_counter()
{
	ns "$(ns_rank "$1" 0)" nft list counter inet out lost | awk '/packets/ { print $2 }'
}

output_owner()
{
	echo 0
}

lives_in()
{
	[[ $(readlink "/proc/$1/ns/net") == *"$(ns_inode "$2")"* ]]
}

# Packets for a closed port are no fault: counted, as the kernel counts them, and not listed.
ordinary()
{
	local space pid counted total

	burst_net 2
	space=$(ns_rank 2 1)
	ip netns exec "$space" sleep 60 &
	pid=$!
	own_process $pid
	wait_until 5 lives_in $pid "$space"
	trace_start ordinary -p $pid
	ns "$(ns_rank 2 0)" python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(1000):
    s.sendto(b"x", ("10.99.2.2", 9))'
	counted=$(nstat_get "$space" UdpNoPorts)
	kill $pid
	trace_wait ordinary
	is "$counted" 1000 "ordinary: the kernel counts 1000 packets without a port"
	# A neighbour's IPv6 chatter may add a few.
	total=$(trace_jq ordinary '[.[] | select(.kind == "net.ordinary")][-1].data.total')
	ok "ordinary: so does the tracer ($total)" \
		test "$total" -ge "$counted" -a "$total" -le $((counted + 50))
	is "$(trace_jq ordinary 'map(select(.kind == "net.drop")) | length')" 0 \
		"ordinary: and lists none"
}

ordinary

burst_net 0
net_loss 0 1 100 in "udp dport 5001"
burst 0 ingress

burst_net 1
ns "$(ns_rank 1 0)" nft -f - <<'END'
	table inet out {
		counter lost { }
		chain out {
			type filter hook output priority 0 ;
			udp dport 5001 counter name lost drop
		}
	}
END
burst 1 output

done_testing
