// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Whether uprobes work here and do no harm, found out on a throw-away child, never on the job:
 * - from 6.11 a return probe is a system call of the traced program, and until the pass-through fix
 *   (6.14 and stable) a seccomp filter without it killed the program;
 * - uprobe_multi links of 6.6 to 6.9 with a pid fire in the main thread only (fixed by kernel
 *   commit 46ba0e49b642 in 6.10); NCCL is called from any thread;
 * - security modules, lockdown and seccomp filters of the tracer's own container can refuse.
 */
#include <bpf/bpf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "source/uprobe.h"

#define CALIBRATE_MS   2000
#define DETACH_STEP_US 10000 /* about a grace period */

/* The probed function: not inlined, not folded with another, not left out. */
int ft_calibrate_target(int x);
__attribute__((noinline)) int ft_calibrate_target(int x)
{
	__asm__ volatile("" : "+r"(x) : : "memory");
	return x + 1;
}

static void *call_target(void *arg)
{
	(void)arg;
	ft_calibrate_target(1);
	return NULL;
}

struct place {
	uintptr_t addr;
	uint64_t offset;
	bool found;
};

/* The first object is the program itself. */
static int find_offset(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct place *p = ctx;
	uintptr_t addr = p->addr - info->dlpi_addr;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || addr < ph->p_vaddr ||
		    addr - ph->p_vaddr >= ph->p_filesz)
			continue;
		p->offset = addr - ph->p_vaddr + ph->p_offset;
		p->found = true;
	}
	return 1;
}

/* What a program with a strict sandbox allows itself. */
static int sandbox(void)
{
#define ALLOW(nr)                                                                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##nr, 0, 1),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(write),
		ALLOW(exit),
		ALLOW(exit_group),
		ALLOW(rt_sigreturn),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog prog = { .len = ARRAY_SIZE(filter), .filter = filter };
#undef ALLOW

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) ? -errno : 0;
}

/* Exit status: 0 both calls came back, 1 no filter or no thread to be had (nothing learned). */
static void child(int go)
{
	pthread_t thread;
	char c;

	signal(SIGSYS, SIG_DFL);
	prctl(PR_SET_DUMPABLE, 0);
	if (read(go, &c, 1) != 1)
		_exit(1);
	if (pthread_create(&thread, NULL, call_target, NULL) || pthread_join(thread, NULL))
		_exit(1);
	if (sandbox())
		_exit(1);
	/* The bare call: sanitizers have more to do in _exit() than the filter allows. */
	syscall(SYS_exit_group, ft_calibrate_target(1) == 2 ? 0 : 2);
}

/* A program that adds 1 to element `key` of the array. */
static int load_counter(int map_fd, int key, bool multi)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 10, .off = -4, .imm = key },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = 10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4 },
		{ .code = BPF_LD | BPF_DW | BPF_IMM,
		  .dst_reg = 1,
		  .src_reg = BPF_PSEUDO_MAP_FD,
		  .imm = map_fd },
		{},
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem },
		{ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 0, .off = 2 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = 1 },
		{ .code = BPF_STX | BPF_XADD | BPF_DW, .dst_reg = 0, .src_reg = 1 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	DECLARE_LIBBPF_OPTS(bpf_prog_load_opts, opts,
			    .expected_attach_type =
				    (enum bpf_attach_type)(multi ? FT_BPF_TRACE_UPROBE_MULTI : 0));

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "ft_calibrate", "Dual BSD/GPL", insns,
			     ARRAY_SIZE(insns), &opts);
}

struct trial {
	bool multi, ret;
	/* what came of it */
	int error; /* of loading or attaching */
	const char *step;
	int status; /* of wait() */
	uint64_t hits[2];
	struct ft_uprobe_links links[2];
};

static int attach_one(struct trial *t, int map_fd, pid_t pid, const struct place *p, int exe,
		      bool ret)
{
	struct ft_uprobe_set set = {
		.pid = pid,
		.fd = exe,
		.n = 1,
		.offsets = &p->offset,
		.ret = ret,
		.multi = t->multi,
	};
	_cleanup_close_ int prog = load_counter(map_fd, ret, t->multi);
	bool no_cookies;

	t->step = "load a program for";
	if (prog < 0)
		return prog;
	t->step = "attach";
	return ft_uprobe_attach(prog, &set, &t->links[ret], &no_cookies);
}

static int attach_child(struct trial *t, int map_fd, pid_t pid)
{
	struct place place = { .addr = (uintptr_t)ft_calibrate_target };
	_cleanup_close_ int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int err;

	t->step = "open the own program to try";
	if (exe < 0)
		return -errno;
	dl_iterate_phdr(find_offset, &place);
	if (!place.found)
		return -ENOENT;
	err = attach_one(t, map_fd, pid, &place, exe, false);
	if (!err && t->ret)
		err = attach_one(t, map_fd, pid, &place, exe, true);
	return err;
}

/* The child cannot outlast CALIBRATE_MS. */
static int wait_child(pid_t pid)
{
	int status = 0;

	for (int ms = 0; ms < CALIBRATE_MS; ms++) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			return status;
		if (got < 0 && errno != EINTR)
			return -1;
		usleep(ms < 20 ? 200 : 1000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return status;
}

/* Of all trials: each kind of probe at the entry and at the return, once with it and once without. */
static struct ft_uprobe_links kept[8];
static size_t nkept;

static void keep(struct ft_uprobe_links *links)
{
	if (links->n && nkept < ARRAY_SIZE(kept))
		kept[nkept++] = *links;
	else
		ft_uprobe_detach(links);
}

/* One after the other, but none waits for the grace periods of another: the lock stays ready. */
static void *detach_one(void *arg)
{
	usleep(((struct ft_uprobe_links *)arg - kept) * DETACH_STEP_US);
	ft_uprobe_detach(arg);
	return NULL;
}

void ft_uprobe_trials_end(void)
{
	pthread_t thread;

	while (nkept) {
		struct ft_uprobe_links *links = &kept[--nkept];

		if (pthread_create(&thread, NULL, detach_one, links))
			ft_uprobe_detach(links);
		else
			pthread_detach(thread);
	}
}

static void run_child(struct trial *t, int map_fd)
{
	int go[2];
	pid_t pid;

	t->step = "start a child to try";
	if (pipe2(go, O_CLOEXEC)) {
		t->error = -errno;
		return;
	}
	pid = fork();
	if (!pid) {
		close(go[1]);
		child(go[0]);
	}
	close(go[0]);
	t->error = pid < 0 ? -errno : attach_child(t, map_fd, pid);
	if (!t->error && write(go[1], "", 1) != 1)
		t->error = -errno;
	/* Without the byte it exits at once. */
	close(go[1]);
	if (pid > 0)
		t->status = wait_child(pid);
}

static void try(struct trial *t)
{
	_cleanup_close_ int map_fd =
		bpf_map_create(BPF_MAP_TYPE_ARRAY, "ft_calibrate", 4, 8, 2, NULL);

	t->step = "make a map for";
	if (map_fd < 0) {
		t->error = map_fd;
		return;
	}
	run_child(t, map_fd);
	for (int i = 0; i < 2; i++)
		bpf_map_lookup_elem(map_fd, &i, &t->hits[i]);
	keep(&t->links[0]);
	keep(&t->links[1]);
}

/* 0, or negative errno and why this kind of probe is not used. */
static int judge(const struct trial *t, const char *attach, char *reason, size_t size)
{
	if (t->error) {
		bool old = t->multi && t->error == -EINVAL;

		snprintf(reason, size, "cannot %s %s: %s%s", t->step, attach, strerror(-t->error),
			 old ? " (uprobe_multi is in 6.6+)" : "");
		return t->error;
	}
	if (WIFSIGNALED(t->status)) {
		snprintf(reason, size, "a sandboxed child with %s died of signal %d", attach,
			 WTERMSIG(t->status));
		return -EFAULT;
	}
	if (WEXITSTATUS(t->status) == 1) {
		snprintf(reason, size, "no child with a seccomp filter to be had to try %s on",
			 attach);
		return -ENOSYS;
	}
	if (WEXITSTATUS(t->status)) {
		snprintf(reason, size, "a child with %s did not return from a call", attach);
		return -EFAULT;
	}
	if (t->hits[0] != 2 || (t->ret && t->hits[1] != 2)) {
		snprintf(reason, size, "%s saw %llu of 2 calls of a child with a thread", attach,
			 (unsigned long long)t->hits[t->ret]);
		return -EPROTO;
	}
	return 0;
}

/* Answers, by [multi][ret]. */
static struct answer {
	bool known;
	int error;
	char reason[160];
} answers[2][2];

/* The return probe first: when it works the entry probe does. */
static void calibrate(bool multi)
{
	static const char *const names[2][2] = { { "uprobe", "uretprobe" },
						 { "uprobe.multi", "uretprobe.multi" } };
	struct answer *a = answers[multi];

	for (int ret = 1; ret >= 0; ret--) {
		struct trial t = { .multi = multi, .ret = ret };

		a[ret].known = true;
		if (!ret && !a[1].error)
			continue;
		try(&t);
		a[ret].error = judge(&t, names[multi][ret], a[ret].reason, sizeof(a[ret].reason));
	}
}

int ft_uprobe_usable(const char *attach, char *reason, size_t size)
{
	bool ret = !strncmp(attach, "uretprobe", 9), multi = strstr(attach, ".multi");
	struct answer *a = &answers[multi][ret];

	if (!a->known)
		calibrate(multi);
	if (a->error)
		ft_strcpy(reason, a->reason, size);
	return a->error;
}
