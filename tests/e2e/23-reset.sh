#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# Resets: every one that a traced process sends or receives is told, as often as the kernel counts
# them, with the kernel's own reason.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

COUNT=20 # below the records that a storm lets through: each has its own line

need jq bpftool python3
need_built "$FABRICTRACE"

# Rank 1 accepts and closes with data unread, which resets; rank 0 waits for that.
cat >"$FT_TMP/reset.py" <<'END'
import os, socket, sys, time

rank, addr, folder, count = int(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])


def wait_for(name):
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.01)


def end(name):
    open(f"{folder}/{name}", "w").close()


if rank == 1:
    listener = socket.create_server((addr, 5001))
    end("ready")
    for _ in range(count):
        conn, _ = listener.accept()
        conn.recv(1, socket.MSG_PEEK)
        conn.close()
else:
    wait_for("ready")
    wait_for("go")
    for _ in range(count):
        conn = socket.create_connection((addr, 5001))
        conn.sendall(b"unread")
        try:
            conn.recv(1)
            sys.exit("not reset")
        except ConnectionResetError:
            pass
    end("done")
wait_for("stop")
END

# The name that this kernel gives to the reason, null where it tells none.
reason_of_close()
{
	if [[ $(bpftool btf dump file /sys/kernel/btf/vmlinux) == *SK_RST_REASON_TCP_ABORT_ON_CLOSE* ]]
	then
		echo TCP_ABORT_ON_CLOSE
	else
		echo null
	fi
}

resets()
{
	count_of resets ".kind == \"tcp.reset\" and .pid == $(job_pid 0 "$1")
		and .data.direction == \"$2\""
}

net_star 0 2
job_start_command 0 2 "$(python3 -c "import sys; print(sys.executable)")" \
	"$FT_TMP/reset.py" "{rank}" "$(job_address 0 1)" "$FT_TMP/job0" "$COUNT"
wait_until 10 test -e "$FT_TMP/job0/ready"
trace_start resets -p "${JOB_PID[0]}"
touch "$FT_TMP/job0/go"
ok "the connections are reset" wait_until 30 test -e "$FT_TMP/job0/done"
sent=$(nstat_get "$(ns_rank 0 1)" TcpOutRsts)
received=$(nstat_get "$(ns_rank 0 0)" TcpEstabResets)
touch "$FT_TMP/job0/stop"
ok "the job ends" job_wait 0 20
trace_wait resets
is "$sent" "$COUNT" "the kernel counts $COUNT resets sent"
is "$(resets 1 sent)" "$sent" "as many are told as sent"
is "$received" "$COUNT" "the kernel counts $COUNT resets received"
is "$(resets 0 received)" "$received" "as many are told as received"
is "$(trace_jq resets 'map(select(.kind == "tcp.reset" and .data.direction == "sent")
	| .data.reason) | unique | map(tostring) | join(" ")')" "$(reason_of_close)" \
	"with the kernel's own reason"

done_testing
