#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# shellcheck disable=SC2016,SC2317 # scripts for the guest; functions called by ok
# deadline: 400
# The lab itself, from outside: output and status of a guest's script, the writable directory,
# QEMU's monitor, and the end of a guest that panics, hangs, or whose starter is killed.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"

KERNEL=${1:-7}
VM=$FT_ROOT/scripts/vm

need qemu-system-x86_64 busybox cpio python3

# guest STATUS WHAT ARGS..: runs one; what it says is in $FT_TMP/vm.out and vm.err.
guest()
{
	local status=0

	"$VM" run "${@:3}" >"$FT_TMP/vm.out" 2>"$FT_TMP/vm.err" </dev/null || status=$?
	is "$status" "$1" "$2: status $1"
	[[ $status -eq $1 ]] || diag "$(tail -n 20 "$FT_TMP/vm.err")"
}

script()
{
	printf '#!/bin/bash\n%s\n' "$2" >"$FT_TMP/$1"
	chmod +x "$FT_TMP/$1"
	echo "$FT_TMP/$1"
}

check_run()
{
	local file

	file=$(script run 'echo "$PWD $NAME $1|$2" >&2; cat; echo kept >"$DIR/kept"
		(sleep 1000 &); exit 7')
	cd "$FT_ROOT/tests"
	guest 7 "a script" -t 120 -o "$FT_TMP/out" -e NAME=value -e DIR="$FT_TMP/out" \
		"$KERNEL" "$file" "a  b" '$c'
	is "$(<"$FT_TMP/vm.out")" "$PWD value a  b|\$c" "its directory, environment and arguments"
	is "$(<"$FT_TMP/vm.err")" "" "nothing else is printed"
	is "$(cat "$FT_TMP/out/kept")" kept "its file in the writable directory"
}

check_monitor()
{
	local file pid

	file=$(script wait 'echo here; until [[ -e $DIR/go ]]; do sleep 0.2; done
		dmesg | grep -c "AER: Uncorrect"')
	mkdir -p "$FT_TMP/mon"
	"$VM" run -t 120 -o "$FT_TMP/mon" -e DIR="$FT_TMP/mon" -m "$FT_TMP/socket" \
		-q -device -q pcie-root-port,id=port0,chassis=1 \
		-q -device -q virtio-net-pci,bus=port0,id=nic0,aer=on,disable-legacy=on \
		"$KERNEL" "$file" >"$FT_TMP/vm.out" 2>"$FT_TMP/vm.err" </dev/null &
	pid=$!
	own_process $pid
	ok "the script is at work" wait_until 90 grep -qx here "$FT_TMP/vm.out"
	like "$("$VM" monitor "$FT_TMP/socket" info status)" running "the monitor answers"
	ok "an AER error can be injected" \
		"$VM" monitor "$FT_TMP/socket" pcie_aer_inject_error nic0 POISON_TLP
	ok "a wrong command fails" eval '! "$VM" monitor "$FT_TMP/socket" nonsense'
	sleep 1
	touch "$FT_TMP/mon/go"
	ok "the script ends" wait $pid
	ok "and its kernel saw the error" test "$(tail -n 1 "$FT_TMP/vm.out")" -gt 0
	ok "the socket is gone" test ! -e "$FT_TMP/socket"
}

check_ends()
{
	local qemu pid

	guest 125 "a kernel that panics" -t 120 "$KERNEL" "$(script panic 'echo c >/proc/sysrq-trigger')"
	like "$(<"$FT_TMP/vm.err")" "Kernel panic" "its console is shown"
	guest 124 "a script that hangs" -t 30 "$KERNEL" "$(script hang 'echo hangs; sleep 1000')"
	like "$(<"$FT_TMP/vm.err")" "did not end within 30 s" "and that is said"
	"$VM" run -t 120 "$KERNEL" "$(script killed 'echo here; sleep 1000')" >"$FT_TMP/vm.out" \
		2>&1 </dev/null &
	pid=$!
	own_process $pid
	wait_until 90 grep -qx here "$FT_TMP/vm.out" || :
	qemu=$(pgrep -P "$pid" -f '[q]emu-system' || :)
	ok "its starter is at work" test -n "$qemu"
	kill -KILL $pid
	{ wait $pid || :; } 2>/dev/null
	ok "QEMU ends with its starter" wait_until 5 gone "$qemu"
	guest 69 "an unknown kernel" 4.4 /bin/true
}

check_run
check_monitor
check_ends

done_testing
