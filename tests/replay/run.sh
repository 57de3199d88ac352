#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# Replays each fixture and compares the text with NAME.expect and the verdict with what must be in it; TAP.
# run.sh --update writes the .expect files anew: look at the difference before you keep it.
set -uo pipefail

cd "$(dirname "$0")" || exit 1
root=$(cd ../.. && pwd)
build=$(cd "$root" && realpath -m "${BUILD:-build}")
replay=$build/tests/replay/replay
n=0 failed=0
export TZ=UTC

# shellcheck disable=SC2206 # a prefix such as valgrind and its options
wrap=(${REPLAY_WRAP-})

tap()
{
	n=$((n + 1))
	if [[ $1 -eq 0 ]]; then
		echo "ok $n - $2"
	else
		failed=1
		echo "not ok $n - $2"
	fi
}

same()
{
	local diff status=0

	diff=$(diff -u "$1" <(printf '%s\n' "$2")) || status=1
	tap $status "$3"
	[[ $status -eq 0 ]] || sed 's/^/# /' <<<"$diff"
}

for fixture in *.ndjson; do
	name=${fixture%.ndjson}
	status=0
	text=$("${wrap[@]}" "$replay" "$fixture" 2>&1) || status=1
	if [[ ${1-} == --update ]]; then
		printf '%s\n' "$text" >"$name.expect"
		continue
	fi
	tap $status "$name: replays"
	same "$name.expect" "$text" "$name: text"
	[[ -z $(awk 'length > 100' <<<"$text") ]]
	tap $? "$name: at most 100 columns"
	"$replay" --json "$fixture" | python3 -c '
import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert lines[0]["kind"] == "session" and lines[-1]["kind"] == "verdict"' 2>&1
	tap $? "$name: lines are JSON, session first, verdict last"
	# What was written is read again, with the same verdict.
	again=$(mktemp)
	"$replay" --json "$fixture" >"$again"
	[[ $("$replay" --verdict "$fixture") == "$("$replay" --verdict "$again")" ]]
	tap $? "$name: its own output replays to the same verdict"
	rm -f "$again"
done

# The fixtures are what their generator makes (recorded ones are not its own).
if [[ ${1-} != --update ]]; then
	made=$(mktemp -d)
	./generate "$made" && ./generate-pcie "$made"
	for fixture in "$made"/*.ndjson; do
		cmp -s "$fixture" "$(basename "$fixture")"
		tap $? "$(basename "$fixture" .ndjson): as generated"
	done
	rm -rf "$made"
	echo "1..$n"
fi
exit $failed
