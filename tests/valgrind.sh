#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 900
# Unit and replay tests under valgrind: no error, nothing lost. Left to ASan are those that load
# BPF programs, of which valgrind knows too little, and that of openat2(2), which 3.19 does not know.
set -euo pipefail

cd "$(dirname "$0")/.."
. tests/whole.sh
export BUILD=${BUILD:-build}
# The C library keeps blocks of detached threads, which look possibly lost.
readonly VALGRIND="valgrind -q --error-exitcode=99 --leak-check=full --show-possibly-lost=no
	--errors-for-leak-kinds=definite --trace-children=no"

for test in "$BUILD"/tests/unit/test_*; do
	case $test in
	*.d | *_source_* | *_nccl_uprobe | *_nccl_stats | *_nccl_mmap2 | *_nccl_maps) continue ;;
	esac
	# shellcheck disable=SC2086 # words
	whole valgrind "$test" $VALGRIND "$test"
done
REPLAY_WRAP=$(tr -d '\n' <<<"$VALGRIND") whole valgrind tests/replay/run.sh tests/replay/run.sh
whole_done
