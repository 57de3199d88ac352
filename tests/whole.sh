# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# shellcheck shell=bash
# Sourced by tests that run other tests in another way: each of those is one assertion.
count=0 failed=0

# whole KIND TEST [COMMAND..]: what the command says goes to a log, its end is shown on failure.
whole()
{
	local log=$BUILD/test-logs/$1-${2##*/}.log name=$2

	shift 2
	[[ $# -gt 0 ]] || set -- "$name"
	count=$((count + 1))
	mkdir -p "${log%/*}"
	if "$@" >"$log" 2>&1 </dev/null; then
		echo "ok $count - $name"
	else
		failed=1
		echo "not ok $count - $name"
		sed '/^ok /d' "$log" | tail -n 40 | sed 's/^/# /'
	fi
}

whole_done()
{
	echo "1..$count"
	exit "$failed"
}
