#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# A kernel without BTF, a locked down one, a /proc that hides processes: it ends with the reason or
# goes on and names it. Each in a mount namespace of its own. (Without tracefs: 16-capabilities.sh)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

need jq setpriv unshare
need_built "$FABRICTRACE"
LOCKED_DOWN=$(compile locked_down)

# machine NAME PREPARE COMMAND..: status in $status, output in $FT_TMP/NAME.out and .err.
machine()
{
	local name=$1 prepare=$2

	shift 2
	status=0
	timeout 60 unshare ${UNSHARE:+"$UNSHARE"} -m bash -ec "$prepare"'
		exec "$@"' bash "$@" >"$FT_TMP/$name.out" 2>"$FT_TMP/$name.err" </dev/null ||
		status=$?
}

said()
{
	cat "$FT_TMP/$1.err"
}

# ------------------------------------------------------------------------------------ without BTF

# All the places where libbpf looks.
# shellcheck disable=SC2016 # for the inner shell
NO_BTF='for dir in /sys/kernel/btf /boot /lib/modules /usr/lib/modules /usr/lib/debug; do
		[[ ! -d $dir ]] || mount -t tmpfs none "$dir"
	done'

machine nobtf "$NO_BTF" "$FABRICTRACE" -d 1 -p $$
is "$status" 69 "no BTF: exit status 69"
like "$(said nobtf)" '/sys/kernel/btf/vmlinux.*CONFIG_DEBUG_INFO_BTF=y' \
	"no BTF: says what is missing and what to do"
is "$(said nobtf | wc -l)" 1 "no BTF: in one line"
machine nobtf "$NO_BTF" "$FABRICTRACE" probes
is "$status" 69 "no BTF: so does probes"
like "$(said nobtf)" CONFIG_DEBUG_INFO_BTF "no BTF: probes names it"
machine nobtf "$NO_BTF" "$FABRICTRACE" -- touch "$FT_TMP/started"
is "$status" 69 "no BTF: so does a command to start"
ok "no BTF: which is not started" test ! -e "$FT_TMP/started"
machine nobtf "$NO_BTF" "$FABRICTRACE" topo
is "$status" 0 "no BTF: topo needs none"

# --------------------------------------------------------------------------------------- lockdown

lockdown()
{
	echo "mount -t tmpfs none /sys/kernel/security
		echo '$1' >/sys/kernel/security/lockdown"
}
CONFIDENTIALITY=$(lockdown 'none integrity [confidentiality]')
INTEGRITY=$(lockdown 'none [integrity] confidentiality')
# Rows of our objects that the kernel refused.
# Not of PCIe: this kernel has few of these functions, and refuses those for a reason of its own.
REFUSED='map(select(.kind == "probe" and (.data.source | IN("", "pcie") | not) and
	.data.error != null))'

if [[ ! -d /sys/kernel/security ]]; then
	skip "lockdown" "this kernel has no /sys/kernel/security"
else
	machine locked "$CONFIDENTIALITY" "$LOCKED_DOWN" "$FABRICTRACE" --json -d 1 -p $$
	is "$status" 0 "confidentiality: runs with what is left"
	is "$(trace_jq locked "$REFUSED | [length > 8, (map(.data.reason) | unique | length)] | tojson")" \
		"[true,1]" "confidentiality: one reason for all programs"
	like "$(trace_jq locked "${REFUSED}[0].data.reason")" 'locked down \(confidentiality\)' \
		"confidentiality: and that is it"
	is "$(trace_jq locked '[.[0].data.blind[] | select(test("retransmissions.*locked down"))]
		| length > 0')" true "confidentiality: the session says what is not seen"
	is "$(trace_jq locked '.[-1] | [.kind, .data.cause_kind, (.data.blind | length > 5)]
		| tojson')" '["verdict",null,true]' "confidentiality: so does the verdict"
	machine locked "$CONFIDENTIALITY" "$LOCKED_DOWN" "$FABRICTRACE" probes
	is "$status" 0 "confidentiality: probes shows the table"
	like "$(cat "$FT_TMP/locked.out")" 'tcp_retransmit_skb[^'$'\n'']*OFF'$'\n'' *why: .*locked down' \
		"confidentiality: with the reason"
	# What is refused otherwise is not put down to it.
	machine integrity "$INTEGRITY" "$LOCKED_DOWN" "$FABRICTRACE" --json -d 1 -p $$
	is "$(trace_jq integrity "$REFUSED | [length > 8, any(.data.reason | test(\"locked\"))]
		| tojson")" "[true,false]" "integrity: another reason"
	machine allowed "$CONFIDENTIALITY" "$FABRICTRACE" probes --json
	is "$(trace_jq allowed 'any(.data | select(.source != "pcie").reason // "" |
		test("locked"))')" false \
		"a kernel that takes the programs is not called locked down"
fi

# Root of a user namespace has every capability, and is refused every program all the same.
if ! unshare -Urm true 2>/dev/null; then
	skip "every program refused" "no user namespaces"
elif [[ -d /sys/kernel/security ]]; then
	UNSHARE=-Ur machine refused "$CONFIDENTIALITY" "$FABRICTRACE" -d 1 -p $$
	is "$status" 69 "confidentiality, all refused: exit status 69"
	like "$(said refused)" 'locked down \(confidentiality\).*lockdown=integrity' \
		"confidentiality, all refused: the reason and what to do"
	UNSHARE=-Ur machine refused "$INTEGRITY" "$FABRICTRACE" -d 1 -p $$
	is "$status" 77 "all refused without lockdown: exit status 77"
	like "$(said refused)" 'refused every program' "all refused without lockdown: says so"
fi

# -------------------------------------------------------------------------------------- hidepid

# The words came with mount options of one's own (5.8); before, the whole machine would have them.
HIDEPID='mount -t proc -o hidepid=invisible proc /proc'
cp "$FABRICTRACE" "$FT_TMP/fabrictrace"
chmod 755 "$FT_TMP" "$FT_TMP/fabrictrace"
as=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps)
few=-all,+bpf,+perfmon,+dac_read_search,+net_admin
if ! unshare -m bash -c "$HIDEPID" 2>/dev/null; then
	skip "hidepid" "no hidepid=invisible before Linux 5.8"
else
	machine hidden "$HIDEPID" "${as[@]}" "$few" --ambient-caps "$few" \
		"$FT_TMP/fabrictrace" -d 1 -p $$
	is "$status" 77 "hidepid: exit status 77 for a process that is there"
	like "$(said hidden)" "process $$ \\(hidepid\\).*CAP_SYS_PTRACE" "hidepid: names what is needed"
	machine hidden "$HIDEPID" "${as[@]}" "$few,+sys_ptrace" --ambient-caps "$few,+sys_ptrace" \
		"$FT_TMP/fabrictrace" --json -d 1 -p $$
	is "$status" 0 "hidepid: with that capability it runs"
	is "$(trace_jq hidden '.[0].data.targets > 0')" true "hidepid: and sees the process"
fi

done_testing
