// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "source/uprobe.h"

#define UPROBE_MULTI_RETURN (1u << 0)
#define UPROBE_DEV	    "/sys/bus/event_source/devices/uprobe"

/* BPF_LINK_CREATE for uprobe_multi as 6.6 defined it; linux/bpf.h of 6.1 ends before. */
struct link_create {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, reserved;
};

static int attach_multi(int prog_fd, const struct ft_uprobe_set *set, struct ft_uprobe_links *out)
{
	char path[64];
	struct link_create attr = {
		.prog_fd = prog_fd,
		.attach_type = FT_BPF_TRACE_UPROBE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)set->offsets,
		.cookies = (uintptr_t)set->cookies,
		.cnt = set->n,
		.multi_flags = set->ret ? UPROBE_MULTI_RETURN : 0,
		.pid = set->pid,
	};
	int fd;

	ft_fmt(path, "/proc/self/fd/%d", set->fd);
	fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	if (fd < 0)
		return -errno;
	out->fds[out->n++] = fd;
	return 0;
}

/* Type of the event and the bit of its config that asks for a return probe. */
static int perf_uprobe_attr(const struct ft_uprobe_set *set, struct perf_event_attr *attr)
{
	char format[64];
	unsigned int bit;
	uint64_t type;
	int err = ft_read_u64("", UPROBE_DEV "/type", &type);

	if (err)
		return err == -ENOENT ? -EOPNOTSUPP : err;
	*attr = (struct perf_event_attr){ .size = sizeof(*attr), .type = type };
	if (!set->ret)
		return 0;
	err = ft_read_line("", UPROBE_DEV "/format/retprobe", format, sizeof(format));
	if (err)
		return err;
	if (sscanf(format, "config:%u", &bit) != 1 || bit > 63)
		return -EPROTO;
	attr->config = 1ull << bit;
	return 0;
}

/* 5.15+ has links on perf events, with cookies; before, an ioctl. */
static int perf_bind(int perf_fd, int prog_fd, uint64_t cookie, struct ft_uprobe_links *out,
		     bool *no_cookies)
{
	DECLARE_LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);
	int fd = bpf_link_create(prog_fd, perf_fd, BPF_PERF_EVENT, &opts);

	if (fd >= 0) {
		/* The link holds the event. */
		close(perf_fd);
		out->fds[out->n++] = fd;
		return 0;
	}
	if (fd != -EINVAL || ioctl(perf_fd, PERF_EVENT_IOC_SET_BPF, prog_fd)) {
		close(perf_fd);
		return fd;
	}
	*no_cookies = true;
	out->fds[out->n++] = perf_fd;
	return 0;
}

static int attach_perf(int prog_fd, const struct ft_uprobe_set *set, struct ft_uprobe_links *out,
		       bool *no_cookies)
{
	struct perf_event_attr attr;
	char path[64];
	int err = perf_uprobe_attr(set, &attr);

	if (err)
		return err;
	ft_fmt(path, "/proc/self/fd/%d", set->fd);
	attr.config1 = (uintptr_t)path;
	for (uint32_t i = 0; i < set->n; i++) {
		int fd;

		attr.config2 = set->offsets[i];
		fd = syscall(SYS_perf_event_open, &attr, (pid_t)set->pid, -1, -1,
			     PERF_FLAG_FD_CLOEXEC);
		err = fd < 0 ? -errno
			     : perf_bind(fd, prog_fd, set->cookies ? set->cookies[i] : 0, out,
					 no_cookies);
		if (err)
			return err;
	}
	return 0;
}

int ft_uprobe_attach(int prog_fd, const struct ft_uprobe_set *set, struct ft_uprobe_links *out,
		     bool *no_cookies)
{
	struct ft_uprobe_links links = { .fds = calloc(set->n ?: 1, sizeof(int)) };
	int err;

	if (!links.fds)
		return -ENOMEM;
	err = set->multi ? attach_multi(prog_fd, set, &links)
			 : attach_perf(prog_fd, set, &links, no_cookies);
	if (err) {
		ft_uprobe_detach(&links);
		return err;
	}
	*out = links;
	return 0;
}

void ft_uprobe_detach(struct ft_uprobe_links *links)
{
	for (uint32_t i = 0; i < links->n; i++)
		close(links->fds[i]);
	free(links->fds);
	*links = (struct ft_uprobe_links){};
}

bool ft_uprobe_row(const struct ft_probe *p)
{
	return !strncmp(p->attach, "uprobe", 6) || !strncmp(p->attach, "uretprobe", 9);
}

bool ft_uprobe_row_multi(const struct ft_probe *p)
{
	return ft_uprobe_row(p) && strstr(p->attach, ".multi/");
}

/* The row of `x_multi` when p is that of `x`. */
static struct ft_probe *better_variant(struct ft_probe *probes, size_t n, const struct ft_probe *p)
{
	char name[64];

	ft_fmt(name, "%s_multi", p->program);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(probes[i].object, p->object) && !strcmp(probes[i].program, name))
			return &probes[i];
	return NULL;
}

static void resolve_row(struct ft_probe *probes, size_t n, struct ft_probe *p)
{
	struct ft_probe *better = better_variant(probes, n, p);
	char kind[32];

	if (better && !better->error) {
		p->state = FT_PROBE_UNNEEDED;
		ft_fmt(p->reason, "%s is used", better->program);
		return;
	}
	ft_strcpy(kind, p->attach, sizeof(kind));
	kind[strcspn(kind, "/")] = 0;
	p->error = ft_uprobe_usable(kind, p->reason, sizeof(p->reason));
	if (p->error)
		p->state = FT_PROBE_OFF;
	else if (better)
		better->hides = ""; /* this one takes its place */
}

void ft_uprobe_resolve(struct ft_probe *probes, size_t n)
{
	for (int multi = 1; multi >= 0; multi--)
		for (size_t i = 0; i < n; i++)
			if (ft_uprobe_row(&probes[i]) && ft_uprobe_row_multi(&probes[i]) == multi)
				resolve_row(probes, n, &probes[i]);
}
