#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 900
# Unit and replay tests under valgrind: no error, nothing lost. Left to ASan are those that load
# BPF programs, of which valgrind knows too little, and that of openat2(2), which 3.19 does not know.
set -euo pipefail

cd "$(dirname "$0")/.."
export BUILD=${BUILD:-build}
# The C library keeps blocks of detached threads, which look possibly lost.
readonly VALGRIND="valgrind -q --error-exitcode=99 --leak-check=full --show-possibly-lost=no
	--errors-for-leak-kinds=definite --trace-children=no"
count=0 failed=0

run()
{
	local name=$1 log=$BUILD/test-logs/valgrind-${1##*/}.log

	shift
	count=$((count + 1))
	mkdir -p "${log%/*}"
	if "$@" >"$log" 2>&1 </dev/null; then
		echo "ok $count - $name"
	else
		failed=1
		echo "not ok $count - $name"
		grep -vE '^ok ' "$log" | tail -n 40 | sed 's/^/# /'
	fi
}

for test in "$BUILD"/tests/unit/test_*; do
	case $test in
	*.d | *_source_* | *_nccl_uprobe | *_nccl_stats | *_nccl_mmap2 | *_nccl_maps) continue ;;
	esac
	# shellcheck disable=SC2086 # words
	run "$test" $VALGRIND "$test"
done
REPLAY_WRAP=$(tr -d '\n' <<<"$VALGRIND") run tests/replay/run.sh tests/replay/run.sh
echo "1..$count"
exit $failed
