// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Holds the process that asks NVML. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "host/nvml.h"
#include "host/nvml_asker.h"
#include "host/pci.h"

#define END_MS 200 /* a process that nothing holds ends sooner */

struct ft_nvml_asker {
	int fd;
	pid_t pid; /* 0: it has ended and was waited for */
	int status;
};

/* Nothing of the tracer's stays open in it: it may outlive the tracer by what the driver holds it. */
static int child_files(int fd)
{
	int null = open("/dev/null", O_RDWR);

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return -errno;
	if (fd != 3 && dup2(fd, 3) < 0)
		return -errno;
	return syscall(SYS_close_range, 4, ~0u, 0) ? -errno : 0; /* since 5.9 */
}

static void child(struct nvml_job *j, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "fabrictrace-gpu");
	if (getppid() != parent || child_files(j->fd))
		_exit(1);
	j->fd = 3;
	nvml_job_run(j);
	_exit(0);
}

static struct nvml_job *job_new(const struct ft_pci *pci, const struct ft_nvml_asker_opts *opts)
{
	struct nvml_job *j = calloc(1, sizeof(*j));
	const char *named = nvml_named();

	if (!j)
		return NULL;
	j->library = opts->library ? opts->library : named ? named : NVML_LIBRARY;
	j->root = opts->root;
	j->rest_ms = opts->rest_ms;
	for (size_t i = 0; i < GPUS_MAX; i++)
		j->gpus[i].minor = FT_NONE_S32;
	for (const struct ft_pci_dev *d; j->ngpus < GPUS_MAX && (d = ft_nvml_pci(pci, j->ngpus));
	     j->ngpus++) {
		ft_strcpy(j->gpus[j->ngpus].bdf, d->bdf, sizeof(d->bdf));
		j->gpus[j->ngpus].minor = d->gpu_index;
	}
	return j;
}

int ft_nvml_asker_new(struct ft_nvml_asker **out, const struct ft_pci *pci,
		      const struct ft_nvml_asker_opts *opts)
{
	_cleanup_free_ struct nvml_job *j = job_new(pci, opts);
	struct ft_nvml_asker *a = calloc(1, sizeof(*a));
	pid_t parent = getpid();
	int ends[2], err = 0;

	if (!j || !a)
		err = -ENOMEM;
	if (!err && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		err = -errno;
	if (err) {
		free(a);
		return err;
	}
	j->fd = ends[1];
	a->pid = fork();
	if (!a->pid)
		child(j, parent);
	err = a->pid < 0 ? -errno : 0;
	close(ends[1]);
	if (err) {
		close(ends[0]);
		free(a);
		return err;
	}
	a->fd = ends[0];
	*out = a;
	return 0;
}

int ft_nvml_asker_fd(const struct ft_nvml_asker *a)
{
	return a->fd;
}

pid_t ft_nvml_asker_pid(const struct ft_nvml_asker *a)
{
	return a->pid;
}

int ft_nvml_asker_ask(struct ft_nvml_asker *a, bool links)
{
	uint8_t what = links;

	return send(a->fd, &what, sizeof(what), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int ft_nvml_asker_take(struct ft_nvml_asker *a, struct ft_nvml_state *out, int *result)
{
	struct nvml_msg m;
	ssize_t n = recv(a->fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n != sizeof(m))
		return -EPIPE;
	if (m.what == FT_NVML_GPU)
		*out = m.state;
	else
		*result = m.result;
	return m.what;
}

void ft_nvml_asker_kill(struct ft_nvml_asker *a)
{
	if (a->pid)
		kill(a->pid, SIGKILL);
}

bool ft_nvml_asker_ended(struct ft_nvml_asker *a, int *signal)
{
	if (a->pid && waitpid(a->pid, &a->status, WNOHANG) == a->pid)
		a->pid = 0;
	if (a->pid)
		return false;
	*signal = WIFSIGNALED(a->status) ? WTERMSIG(a->status) : 0;
	return true;
}

void ft_nvml_asker_free(struct ft_nvml_asker *a)
{
	int signal;

	if (!a)
		return;
	ft_nvml_asker_kill(a);
	close(a->fd);
	for (int ms = 0; ms < END_MS && !ft_nvml_asker_ended(a, &signal); ms++)
		poll(NULL, 0, 1);
	free(a);
}
