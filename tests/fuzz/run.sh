#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 120
# Each fuzzer for FUZZ_RUNS inputs, from the seeds; TAP. What breaks one is kept in $BUILD/fuzz.
set -uo pipefail

cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build} runs=${FUZZ_RUNS:-20000} n=0 failed=0
work=$build/fuzz

rm -rf "$work" && mkdir -p "$work"
tests/fuzz/seeds "$work/seeds" || exit 1
for fuzzer in "$build"/tests/fuzz/fuzz_{klog,parse,record}; do
	name=${fuzzer##*/fuzz_}
	n=$((n + 1))
	mkdir -p "$work/corpus-$name"
	if "$fuzzer" -runs="$runs" -seed=1 -max_len=4096 -timeout=10 -artifact_prefix="$work/$name-" \
		"$work/corpus-$name" "$work/seeds/$name" >"$work/$name.log" 2>&1; then
		echo "ok $n - $name: $runs inputs"
	else
		failed=1
		echo "not ok $n - $name"
		tail -n 20 "$work/$name.log" | sed 's/^/# /'
	fi
done
echo "1..$n"
exit $failed
