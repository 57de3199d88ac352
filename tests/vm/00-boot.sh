#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# The guest is what the other tests of this folder take it for: the kernel that was asked for, with
# types and tracepoints, on the root of the machine that started it.
# shellcheck source-path=SCRIPTDIR source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"

[[ -n ${FT_VM_KERNEL-} ]] || skip_all "runs in a guest: tests/vm/kernel KERNEL"

like "$(uname -r)" "^${FT_VM_KERNEL//./\\.}\\." "the kernel is $FT_VM_KERNEL: $(uname -r)"
is "$EUID" 0 "root"
ok "the kernel has BTF" test -s /sys/kernel/btf/vmlinux
ok "tracefs is mounted" test -e /sys/kernel/tracing/events/tcp/tcp_retransmit_skb/format
ok "bpffs is mounted" test "$(stat -f -c %T /sys/fs/bpf)" = bpf_fs
ok "cgroup v2 is mounted" test -e /sys/fs/cgroup/cgroup.controllers
ok "the tree is here" test -e "$FT_ROOT/tests/vm/00-boot.sh"
ok "and what was built in it" "$FABRICTRACE" --version
ok "the tree can be written to" test -e "$FT_VM_TRACE"
ok "the shared directory too" test -s "$BUILD/test-logs/from-guest"
ok "modules of this kernel load" modprobe nf_tables
ok "loopback is up" ping -c 1 -W 5 127.0.0.1
ok "a namespace can be made" ip netns add "${FT_PREFIX}j0-r0"
is "$(dmesg | grep -E 'BUG:|WARNING:|Oops' || :)" "" "the kernel log has no complaint"

done_testing
