// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Start, exec and end of traced processes. */
#include "include/maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ARGS_MAX 512
#define EXE_MAX	 256

struct exec_rec {
	struct ft_ev_proc_start e;
	char exe[EXE_MAX];
	char args[ARGS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exec_rec);
} exec_scratch SEC(".maps");

SEC("tp_btf/sched_process_fork")
int BPF_PROG(proc_fork, struct task_struct *parent, struct task_struct *child)
{
	struct ft_proc new = {};
	struct ft_ev_proc_start *e;
	__u32 ptgid = BPF_CORE_READ(parent, tgid), tgid = BPF_CORE_READ(child, tgid);

	if (!cfg.follow || tgid == ptgid || !proc_of(ptgid))
		return 0;
	new.start_ns = BPF_CORE_READ(child, start_boottime);
	new.ppid = ptgid;
	if (bpf_map_update_elem(&ft_procs, &tgid, &new, BPF_ANY)) {
		count_map_full(FT_KIND_proc_start);
		return 0;
	}
	if (!ready)
		return 0;
	e = rec_reserve(FT_KIND_proc_start, sizeof(*e));
	if (!e)
		return 0;
	__builtin_memset(e, 0, sizeof(*e));
	hdr_init(&e->h, FT_KIND_proc_start, sizeof(*e));
	e->h.pid = tgid;
	e->h.tid = tgid;
	e->h.start_ns = new.start_ns;
	e->h.how = FT_HOW(task);
	BPF_CORE_READ_STR_INTO(&e->h.task, child, comm);
	e->ppid = ptgid;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

static __always_inline void exec_args(struct exec_rec *r, struct task_struct *task)
{
	__u64 start = BPF_CORE_READ(task, mm, arg_start), end = BPF_CORE_READ(task, mm, arg_end);
	__u32 len = end - start;

	if (end <= start)
		return;
	if (len > ARGS_MAX)
		len = ARGS_MAX;
	if (bpf_probe_read_user(r->args, len, (void *)start))
		return;
	r->e.args.off = __builtin_offsetof(struct exec_rec, args);
	r->e.args.len = len;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(proc_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	__u32 zero = 0;
	struct exec_rec *r;
	long len;

	if (!proc_of(BPF_CORE_READ(task, tgid)))
		return 0;
	r = bpf_map_lookup_elem(&exec_scratch, &zero);
	if (!ready || !r)
		return 0;
	__builtin_memset(&r->e, 0, sizeof(r->e));
	hdr_init(&r->e.h, FT_KIND_proc_start, sizeof(*r));
	hdr_task(&r->e.h);
	r->e.ppid = BPF_CORE_READ(task, real_parent, tgid);
	r->e.exec = 1;
	__builtin_memset(r->exe, 0, sizeof(r->exe) + sizeof(r->args));
	len = bpf_probe_read_kernel_str(r->exe, sizeof(r->exe), BPF_CORE_READ(bprm, filename));
	if (len > 1) {
		r->e.exe.off = __builtin_offsetof(struct exec_rec, exe);
		r->e.exe.len = len - 1;
	}
	exec_args(r, task);
	if (bpf_ringbuf_output(&ft_ring, r, sizeof(*r), 0))
		count_lost(FT_KIND_proc_start);
	return 0;
}

/* What the parent's wait() will see: the group's code when one was set, else the main thread's. */
static __always_inline void exit_status(struct ft_ev_proc_exit *e, struct task_struct *task)
{
	int code = BPF_CORE_READ(task, signal, group_exit_code);

	if (!code)
		code = BPF_CORE_READ(task, group_leader, exit_code);
	e->exit_code = code & 0x7f ? (__s32)0x80000000 : (code >> 8) & 0xff;
	e->signal = code & 0x7f ? code & 0x7f : (__s32)0x80000000;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(proc_exit, struct task_struct *task)
{
	__u32 tgid = BPF_CORE_READ(task, tgid);
	struct ft_ev_proc_exit *e;

	/* Of threads that end together the one that removes the entry reports. */
	if (!proc_of(tgid) || BPF_CORE_READ(task, signal, live.counter) ||
	    bpf_map_delete_elem(&ft_procs, &tgid) || !ready)
		return 0;
	e = rec_reserve(FT_KIND_proc_exit, sizeof(*e));
	if (!e)
		return 0;
	hdr_init(&e->h, FT_KIND_proc_exit, sizeof(*e));
	hdr_task(&e->h);
	BPF_CORE_READ_STR_INTO(&e->h.task, task, group_leader, comm);
	exit_status(e, task);
	bpf_ringbuf_submit(e, 0);
	return 0;
}
