// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * locked_down COMMAND [ARG...]: runs a command on a kernel that seems locked down for
 * confidentiality: programs that call a helper which reads kernel memory are refused the way the
 * kernel does it (security/lockdown, LOCKDOWN_BPF_READ_KERNEL since 5.4: the verifier has no such
 * helper, -EINVAL). All else, also of bpf(2), is the real kernel's answer. Exits as the command.
 */
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_INSNS 8192

/* The listener lives in the table of files that both share until the command is executed. */
static int install_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		       &prog);
}

static int reads_kernel(const struct bpf_insn *insn)
{
	if (insn->code != (BPF_JMP | BPF_CALL) || insn->src_reg)
		return 0;
	return insn->imm == BPF_FUNC_probe_read || insn->imm == BPF_FUNC_probe_read_str ||
	       insn->imm == BPF_FUNC_probe_read_kernel ||
	       insn->imm == BPF_FUNC_probe_read_kernel_str;
}

static int copy_from(pid_t pid, __u64 addr, void *to, size_t len)
{
	struct iovec local = { to, len }, remote = { (void *)(unsigned long)addr, len };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

static int refused(const struct seccomp_notif *n)
{
	static struct bpf_insn insns[MAX_INSNS];
	union bpf_attr attr = {};
	size_t size = n->data.args[2] < sizeof(attr) ? n->data.args[2] : sizeof(attr);

	if (n->data.args[0] != BPF_PROG_LOAD || !copy_from(n->pid, n->data.args[1], &attr, size))
		return 0;
	if (attr.insn_cnt > MAX_INSNS ||
	    !copy_from(n->pid, attr.insns, insns, attr.insn_cnt * sizeof(*insns)))
		return 0;
	for (unsigned int i = 0; i < attr.insn_cnt; i++)
		if (reads_kernel(&insns[i]))
			return 1;
	return 0;
}

static void answer(int listener)
{
	struct seccomp_notif n = {};
	struct seccomp_notif_resp r = {};

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n))
		return;
	r.id = n.id;
	if (refused(&n))
		r.error = -EINVAL;
	else
		r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

static void command(int ready, char **argv)
{
	int listener = install_filter();

	if (listener < 0)
		perror("seccomp");
	else
		fcntl(listener, F_SETFD, FD_CLOEXEC);
	if (write(ready, &listener, sizeof(listener)) != sizeof(listener) || listener < 0)
		_exit(70);
	execvp(argv[0], argv);
	perror(argv[0]);
	_exit(127);
}

int main(int argc, char **argv)
{
	struct pollfd p = { .events = POLLIN };
	int ready[2], status;
	pid_t child;

	if (argc < 2 || pipe2(ready, O_CLOEXEC))
		return 64;
	child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (!child)
		command(ready[1], argv + 1);
	if (child < 0 || read(ready[0], &p.fd, sizeof(p.fd)) != sizeof(p.fd) || p.fd < 0)
		return 70;
	while (poll(&p, 1, -1) > 0 && !(p.revents & POLLHUP))
		answer(p.fd);
	if (waitpid(child, &status, 0) != child)
		return 70;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
