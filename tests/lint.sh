#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# deadline: 400
# What can be said without running anything: layers, format, clang-tidy, shellcheck, licences.
# Shellcheck: functions are called by name here (SC2317), and sed is clearer than substitutions (SC2001).
set -euo pipefail

cd "$(dirname "$0")/.."
count=0 failed=0

# check NAME COMMAND..: its output is shown when it fails.
check()
{
	local name=$1 out

	shift
	count=$((count + 1))
	if out=$("$@" 2>&1); then
		echo "ok $count - $name"
	else
		echo "not ok $count - $name"
		sed 's/^/# /' <<<"$out" | head -60
		failed=1
	fi
}

sources()
{
	git ls-files '*.c' '*.h' | grep -v '^vmlinux/'
}

formatted()
{
	sources | grep -v '^tests/workload/' | xargs clang-format --dry-run -Werror
}

tidy()
{
	git ls-files 'user/*.c' | xargs -P "$(nproc)" -n 6 sh -c 'clang-tidy --quiet "$@" -- \
		-std=gnu11 -D_GNU_SOURCE "-DFT_VERSION=\"\"" -Iuser -Ibpf 2>/dev/null' sh
}

scripts()
{
	git ls-files -z | xargs -0 grep -lIE '^#!/bin/(ba)?sh' |
		xargs shellcheck -x -P SCRIPTDIR -e SC2317,SC2001
}

licensed()
{
	! git ls-files bpf user vmlinux scripts tests Makefile |
		grep -vE '\.(ndjson|expect|txt|seed)$|/(fixtures|corpus)/' |
		xargs grep -L 'SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)' | grep .
}

top_level()
{
	! git ls-files | cut -d/ -f1 | sort -u |
		grep -vE '^(\..*|Makefile|README\.md|LICENSE|bpf|user|vmlinux|scripts|tests)$'
}

check "layers" scripts/check-layers
check "the layer check goes red" scripts/check-layers --self-test
check "the runner goes red" tests/run --self-test
check "clang-format" formatted
check "clang-tidy" tidy
check "shellcheck" scripts
check "licences" licensed
check "top level" top_level
check "man page" sh -c '! man --warnings -l user/cli/fabrictrace.8 2>&1 >/dev/null | grep .'
echo "1..$count"
exit $failed
