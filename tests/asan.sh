#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 1500
# Unit, replay and end-to-end tests again with the build that has ASan and UBSan: one assertion each.
set -euo pipefail

cd "$(dirname "$0")/.."
export BUILD=build/debug FT_TEST_SLOW=4 TRAINER=$PWD/build/workload/trainer
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1
readonly END_TO_END=(10-loss 11-attach-late 13-burst 14-exit 15-cli 19-schema)
count=0 failed=0

again()
{
	local log=$BUILD/test-logs/asan-${1##*/}.log

	count=$((count + 1))
	mkdir -p "${log%/*}"
	if "$1" >"$log" 2>&1 </dev/null; then
		echo "ok $count - $1"
	else
		failed=1
		echo "not ok $count - $1"
		grep -vE '^ok ' "$log" | tail -n 40 | sed 's/^/# /'
	fi
}

for test in "$BUILD"/tests/unit/test_* "$BUILD"/tests/bpf/test_*; do
	[[ $test == *.d ]] || again "$test"
done
again tests/replay/run.sh
for test in "${END_TO_END[@]}"; do
	again "tests/e2e/$test.sh"
done
echo "1..$count"
exit $failed
