#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# shellcheck disable=SC2317 # some functions are called by wait_until
# A socket that several processes hold: its owner is who opened it, `how` says that it was
# inherited, and `shared` that another than the owner may have used it. What a rank forks counts
# as the rank: its data loaders put nothing in doubt. A port that two listeners have is of neither.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need nft jq python3
need_built "$FABRICTRACE" "$TRAINER"

cat >"$FT_TMP/sink.py" <<'END'
import socket, threading

def swallow(c):
    while c.recv(65536):
        pass

s = socket.create_server(("0.0.0.0", 7000))
while True:
    threading.Thread(target=swallow, args=(s.accept()[0],), daemon=True).start()
END

# opener.py DIR WHAT: opens a socket once DIR/open is there, forks once DIR/fork is; the child goes
# on with the socket until DIR/stop is there. WHAT: the parent waits for it, or exits.
cat >"$FT_TMP/opener.py" <<'END'
import os, socket, sys, time

dir, what = sys.argv[1:]

def wait(name):
    while not os.path.exists(f"{dir}/{name}"):
        time.sleep(0.01)

def note(name, text):
    with open(f"{dir}/{name}.tmp", "w") as f:
        f.write(text)
    os.rename(f"{dir}/{name}.tmp", f"{dir}/{name}")

wait("open")
s = socket.create_connection(("10.99.0.2", 7000))
note("opened", "")
wait("fork")
child = os.fork()
if not child:
    note("child", str(os.getpid()))
    wait("send")
    while not os.path.exists(f"{dir}/stop"):
        s.sendall(b"x" * 65536)
        time.sleep(0.005)
elif what == "wait":
    os.waitpid(child, 0)
END

opener_start()
{
	local dir=$FT_TMP/$1

	mkdir "$dir"
	ip netns exec "$(ns_rank 0 0)" python3 "$FT_TMP/opener.py" "$dir" "$2" &
	OPENER=$!
	own_process $OPENER
}

resent()
{
	trace_jq "$1" "map(select(.kind == \"tcp.retransmit\")) | $2"
}

# What is sent again after the fork, by the child alone.
check_shared()
{
	local name=$1 owner=$2

	is "$(resent "$name" 'map(.pid) | unique | tojson')" "[$owner]" \
		"$name: the owner is who opened it"
	is "$(resent "$name" 'map(.how | any(. == "inherited")) | unique | tojson')" "[true]" \
		"$name: and it says that it was inherited"
	is "$(resent "$name" 'map(.shared) | unique | tojson')" "[true]" \
		"$name: another process may have used it"
}

# run NAME WHAT WHEN: WHEN the tracer comes: before the socket is opened, or after the fork.
run()
{
	local name=$1 what=$2 when=$3 dir=$FT_TMP/$1

	opener_start "$name" "$what"
	[[ $when == after ]] || trace_start "$name" -p $OPENER
	touch "$dir/open"
	ok "$name: the socket is open" wait_until 10 test -e "$dir/opened"
	touch "$dir/fork"
	ok "$name: and forked" wait_until 10 test -e "$dir/child"
	own_process "$(cat "$dir/child")"
	[[ $when == before ]] || trace_start "$name" -p $OPENER
	[[ $what == wait ]] || ok "$name: the opener has gone" wait_until 10 gone $OPENER
	net_loss 0 0 1/10 out
	touch "$dir/send"
	ok "$name: segments are sent again" \
		wait_until 10 trace_has "$name" '.kind == "tcp.retransmit"'
	net_loss_off 0 0
	touch "$dir/stop"
	trace_wait "$name"
	check_shared "$name" $OPENER
}

# --- two processes that listen at one port ---

cat >"$FT_TMP/listen.py" <<'END'
import os, socket, sys, time

while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("0.0.0.0", 7100))
s.listen()
time.sleep(60)
END

listener_start()
{
	ip netns exec "$(ns_rank 2 1)" python3 "$FT_TMP/listen.py" "$FT_TMP/$1" &
	LISTENER[$1]=$!
	own_process $!
}

listeners()
{
	[[ $(ns "$(ns_rank 2 1)" ss -Hltn sport = 7100 | wc -l) -eq $1 ]]
}

knock()
{
	ns "$(ns_rank 2 0)" timeout 0.5 bash -c 'exec 3<>/dev/tcp/10.99.2.2/7100' 2>/dev/null || :
}

# What a dropped SYN is said to be of, since the last call.
knocked()
{
	local seen=${SEEN-0}

	knock
	wait_until 5 trace_has port ".kind == \"net.drop\" and .data.dport == 7100
		and (.ts_ns | tonumber) > $seen" || :
	trace_jq port "map(select(.kind == \"net.drop\" and .data.dport == 7100
		and (.ts_ns | tonumber) > $seen)) | map([.pid, .shared]) | unique | tojson"
}

seen()
{
	SEEN=$(trace_jq port 'map(select(.kind == "net.drop") | .ts_ns | tonumber) | max')
}

# The first was listening at the attach, the second comes later and goes again.
one_port()
{
	declare -gA LISTENER=()

	net_star 2 2
	listener_start first
	listener_start second
	touch "$FT_TMP/first"
	ok "port: one listens" wait_until 10 listeners 1
	trace_start port -p "${LISTENER[first]},${LISTENER[second]}"
	net_loss 2 1 100 in "tcp dport 7100"
	is "$(knocked)" "[[${LISTENER[first]},false]]" "port: what is for it is its own"
	touch "$FT_TMP/second"
	ok "port: two listen" wait_until 10 listeners 2
	seen
	is "$(knocked)" "[[${LISTENER[first]},true]]" "port: then it may be of either"
	kill "${LISTENER[second]}"
	ok "port: the second has gone" wait_until 10 listeners 1
	seen
	is "$(knocked)" "[[${LISTENER[first]},false]]" "port: and is the first one's again"
	trace_stop port
}

net_star 0 2
ip netns exec "$(ns_rank 0 1)" python3 "$FT_TMP/sink.py" &
own_process $!
sink_listens()
{
	[[ -n $(ns "$(ns_rank 0 1)" ss -Hltn sport = 7000) ]]
}
ok "the other end listens" wait_until 10 sink_listens

run early wait before
run late wait after
run orphan exit before
one_port

# Four ranks with 4 data loaders each, and 1 % loss at one of them.
net_star 1 4
job_start 1 4 --seconds 6 --size 4M --print-step --hold steps --helpers 4
ok "ranks: the job is up" wait_until 20 job_says 1 3 '^init rank'
loaders_up()
{
	[[ $(pgrep -c -P "$(paste -sd, "$FT_TMP/job1/pids")") -eq 16 ]]
}
ok "ranks: the data loaders run" wait_until 10 loaders_up
trace_start ranks -p "${JOB_PID[1]}"
net_loss 1 2 1
job_go 1
ok "ranks: packets are lost" wait_until 6 loss_reached 1 2 60
net_loss_off 1 2
ok "ranks: the job ends, its results verified" job_wait 1
trace_wait ranks
is "$(resent ranks 'map(.how | any(. == "inherited")) | any')" true \
	"ranks: their data loaders inherited their sockets"
is "$(resent ranks 'map(.shared) | any')" false "ranks: and put nothing in doubt"
is "$(resent ranks 'map(.ranks | length == 1) | all')" true "ranks: each is of one rank"
like "$(trace_jq ranks '.[-1].data.cause.object')" 'rank 2' "ranks: the verdict is rank 2's link"
is "$(trace_jq ranks '.[-1].data.confidence')" high "ranks: and as sure as ever"

done_testing
