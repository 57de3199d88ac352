#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# A real libnccl, the CUDA toolkit's or a Python wheel's: its init calls show the right arguments
# and result. Without a GPU they return 1, after their probe has seen everything.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq
need_built "$FABRICTRACE"

libraries()
{
	local dir file

	for file in ${FT_NCCL-} /usr/local/cuda*/lib*/libnccl.so.2 \
		/usr/local/cuda*/targets/*/lib/libnccl.so.2 /usr/lib/*/libnccl.so.2; do
		[[ ! -e $file ]] || realpath "$file"
	done
	for dir in /usr/lib/python3*/*-packages /usr/local/lib/python3*/*-packages \
		"${VIRTUAL_ENV:-/nonexistent}"/lib/python3*/site-packages \
		"${HOME:-/root}"/.local/lib/python3*/site-packages \
		"${PYENV_ROOT:-${HOME:-/root}/.pyenv}"/versions/*/lib/python3*/site-packages; do
		[[ ! -e $dir/nvidia/nccl/lib/libnccl.so.2 ]] ||
			realpath "$dir/nvidia/nccl/lib/libnccl.so.2"
	done
}

# Of the nccl.comm line of one init call.
comm_field()
{
	trace_jq "$1" "map(select(.kind == \"nccl.comm\" and .data.op == \"$2\")) | .[] | $3"
}

check()
{
	local name=$1 pid=$2 version=$3 op
	local fields='[.data.nranks, .data.rank, .data.result] | tojson'

	for op in CommInitRank CommInitRankConfig; do
		is "$(comm_field "$name" $op "$fields")" "[4,2,1]" \
			"$name: $op: nranks 4, rank 2, result 1, once ($version)"
		is "$(comm_field "$name" $op .pid)" "$pid" "$name: $op: on its process"
	done
}

# The library is mapped before the attach.
attached()
{
	local library=$1 dir=$2 version=$3 pid

	mkdir -p "$dir"
	"$INIT" "$library" "$dir" >"$dir/log" 2>&1 </dev/null &
	pid=$!
	own_process $pid
	if ! wait_until 20 test -e "$dir/loaded"; then
		skip "$library" "it does not load: $(head -c 200 "$dir/log")"
		return
	fi
	trace_start attach -p $pid
	touch "$dir/go"
	ok "the process ends" wait_until 60 gone $pid
	if ! grep -q '^ncclCommInitRank 1$' "$dir/log"; then
		skip "arguments of $library" "its init does not return 1 here: there is a GPU"
		return
	fi
	trace_wait attach
	check attach $pid "$version"
}

# The library comes after the attach; the program's output and exit status pass through.
started()
{
	local library=$1 dir=$2 version=$3

	mkdir -p "$dir"
	# shellcheck disable=SC2016 # for the inner shell
	trace_start start -- sh -c 'exec "$0" "$1" "$2" >/dev/null' "$INIT" "$library" "$dir"
	ok "start: the library is seen as soon as it is loaded" \
		wait_until 20 trace_has start '.kind == "nccl.lib"'
	touch "$dir/go"
	trace_wait start 60
	is "${TRACE_STATUS[start]}" 0 "-- CMD: its exit status"
	check start "$(trace_jq start 'map(select(.kind == "nccl.comm"))[0].pid')" "$version"
}

mapfile -t found < <(libraries | sort -u)
[[ ${#found[@]} -gt 0 ]] || skip_all "no real libnccl.so.2 (CUDA toolkit or Python wheel) is here"
INIT=$(compile nccl_init)
for ((i = 0; i < ${#found[@]}; i++)); do
	version=$(grep -aom1 'NCCL version [0-9][0-9.]*' "${found[i]}" || echo "unknown version")
	diag "${found[i]}: $version"
	attached "${found[i]}" "$FT_TMP/nccl$i" "${version##* }"
	started "${found[i]}" "$FT_TMP/nccl$i.start" "${version##* }"
done

done_testing
