#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 150
# What is sent again is not always lost. A receiver whose acknowledgements are slow tells the sender
# that it had the segments already: that is counted as the kernel counts it, and accuses no link. A
# path that swallows everything is found though its retransmissions become ever fewer, also when the
# tracer comes later.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq tc
need_built "$FABRICTRACE"

# Rank 0 sends 1000 bytes every 20 ms to rank 1, which reads.
cat >"$FT_TMP/drip.py" <<'END'
import os, select, socket, sys, time

rank, addr, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
stop = f"{folder}/stop"


def end(name):
    open(f"{folder}/{name}", "w").close()


if rank == 1:
    listener = socket.create_server((addr, 5001))
    end("ready")
    conn, _ = listener.accept()
    while not os.path.exists(stop):
        if select.select([conn], [], [], 0.1)[0] and not conn.recv(65536):
            break
else:
    while not os.path.exists(f"{folder}/ready"):
        time.sleep(0.01)
    conn = socket.create_connection((addr, 5001))
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conn.setblocking(False)
    end("connected")
    while not os.path.exists(stop):
        try:
            conn.send(bytes(1000))
        except BlockingIOError:
            pass
        time.sleep(0.02)
END

# tcpext J RANK NAME: a counter of the rank's namespace.
tcpext()
{
	# shellcheck disable=SC2016 # awk reads the dollars
	ns "$(ns_rank "$1" "$2")" awk -v want="$3" '$1 == "TcpExt:" {
		if (!n) { n = split($0, name); next }
		for (i = 2; i <= NF; i++) if (name[i] == want) print $i
	}' /proc/net/netstat
}

drip_start()
{
	net_star "$1" 2
	# With timestamps a sender soon sees that its timeout was in vain.
	ns "$(ns_rank "$1" 0)" sh -c 'echo 0 >/proc/sys/net/ipv4/tcp_timestamps'
	job_start_command "$1" 2 "$(python3 -c "import sys; print(sys.executable)")" \
		"$FT_TMP/drip.py" "{rank}" "$(job_address "$1" 1)" "$FT_TMP/job$1"
	wait_until 10 test -e "$FT_TMP/job$1/connected"
}

drip_stop()
{
	touch "$FT_TMP/job$1/stop"
	ok "$2: the job ends" job_wait "$1" 20
	trace_wait "$2"
	is "${TRACE_STATUS[$2]}" 0 "$2: the trace ends"
}

cause()
{
	trace_jq "$1" 'map(select(.kind == "verdict"))[-1].data.cause.kind'
}

enough_late()
{
	[[ $(tcpext 0 0 TCPDSACKRecvSegs) -ge 20 ]]
}

ack_rate()
{
	tc -n "$(ns_rank 0 1)" qdisc "$1" dev eth0 root tbf rate "$2" burst 200 limit 1mb
}

# Acknowledgements wait in a queue, and the sender's timeout comes before them.
slow_acks()
{
	local counted

	drip_start 0
	ack_rate add 10mbit
	trace_start slow -p "${JOB_PID[0]}"
	for _ in 1 2 3 4 5 6 7 8; do
		ack_rate change 1kbit
		sleep 2
		ack_rate change 10mbit
		sleep 1 # the queue empties, the sender's idea of the round trip recovers
		! enough_late || break
	done
	drip_stop 0 slow
	counted=$(tcpext 0 0 TCPDSACKRecvSegs)
	ok "slow: the kernel counts segments that had arrived already ($counted)" \
		test "$counted" -ge 20
	is "$(trace_jq slow 'map(select(.kind == "tcp.late") | .data.segs) | add')" "$counted" \
		"slow: the tracer counts as many"
	is "$(trace_jq slow 'map(select(.kind == "tcp.late") | .pid) | unique | join(" ")')" \
		"$(job_pid 0 0)" "slow: all of them the sender's"
	is "$(cause slow)" null "slow: no link is accused"
}

# To an address that nobody has: the switch floods it, and nobody takes it.
blackhole()
{
	ip -n "$(ns_rank 1 0)" neigh replace "$(job_address 1 1)" lladdr 02:00:00:00:00:99 \
		dev eth0 nud permanent
}

stall_seen()
{
	trace_has "$1" ".kind == \"tcp.stall\" and .pid == $(job_pid 1 0) and $2"
}

check_stall()
{
	ok "$1: the connection stands still" wait_until 20 stall_seen "$1" '.data.timeouts >= 3'
	ok "$1: that is a finding" wait_until 10 trace_has "$1" \
		'.kind == "incident" and .data.cause.kind == "lossy-link" and
			(.data.text | contains("nothing is acknowledged"))'
}

stalls()
{
	drip_start 1
	trace_start seen -p "${JOB_PID[1]}"
	blackhole
	check_stall seen
	trace_start later -p "${JOB_PID[1]}"
	check_stall later
	ip -n "$(ns_rank 1 0)" neigh del "$(job_address 1 1)" dev eth0
	ok "seen: it goes on again" wait_until 60 stall_seen seen '.data.timeouts == 0'
	drip_stop 1 seen
	trace_wait later
	is "$(trace_jq later 'map(select(.kind == "verdict"))[-1].data.cause.object')" \
		"path between rank 0 and rank 1" "later: the path is named"
	is "$(trace_jq seen 'map(select(.kind == "tcp.stall") | .pid) | unique | join(" ")')" \
		"$(job_pid 1 0)" "seen: only the sender stands still"
}

slow_acks
stalls

done_testing
