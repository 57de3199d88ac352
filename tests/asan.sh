#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 1500
# Unit, replay and end-to-end tests again with the build that has ASan and UBSan: one assertion each.
set -euo pipefail

cd "$(dirname "$0")/.."
. tests/whole.sh
export BUILD=build/debug FT_TEST_SLOW=4 TRAINER=$PWD/build/workload/trainer
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1
readonly END_TO_END=(10-loss 11-attach-late 13-burst 14-exit 15-cli 19-schema)

for test in "$BUILD"/tests/unit/test_* "$BUILD"/tests/bpf/test_*; do
	[[ $test == *.d ]] || whole asan "$test"
done
whole asan tests/replay/run.sh
for test in "${END_TO_END[@]}"; do
	whole asan "tests/e2e/$test.sh"
done
whole_done
