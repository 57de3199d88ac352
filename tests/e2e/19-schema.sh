#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# Every line of a session with faults is what `fabrictrace schema` says it is.
# shellcheck disable=SC2317 # some functions are called by others
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need nft jq python3
need_built "$FABRICTRACE" "$TRAINER"

validate()
{
	/usr/bin/python3 - "$FT_TMP/schema.json" "$1" <<-'PYTHON'
		import json, sys
		from jsonschema import Draft202012Validator

		check = Draft202012Validator(json.load(open(sys.argv[1])))
		lines = [json.loads(line) for line in open(sys.argv[2])]
		bad = [(n, e) for n, line in enumerate(lines, 1) for e in check.iter_errors(line)]
		print(*(f"line {n}: {list(e.path)}: {e.message[:300]}" for n, e in bad[:5]), sep="\n")
		sys.exit(len(bad) > 0 or not lines)
	PYTHON
}

not()
{
	! "$@"
}

"$FABRICTRACE" schema >"$FT_TMP/schema.json"
net_star 0 2
job_start 0 2 --steps 200 --size 1M --exit-at 100 --exit-rank 1 --exit-code 3 --hold init
trace_start faults --collectives -p "${JOB_PID[0]}"
net_loss 0 1 1
job_go 0
trace_wait faults 60
kinds=$(trace_jq faults 'map(.kind) | unique | join(" ")')
for kind in session probe inv.proc inv.netdev nccl.lib nccl.comm nccl.call nccl.stats tcp.state \
	tcp.retransmit net.drop proc.exit incident verdict; do
	like " $kinds " " $kind " "a line of kind $kind"
done
ok "each line is valid by the schema" validate "$FT_TMP/faults.out"
sed -i '1s/"v":1/"v":2/' "$FT_TMP/faults.out"
ok "and a wrong one is not" not validate "$FT_TMP/faults.out"

done_testing
