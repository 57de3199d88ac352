// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Carrier and speed of the interfaces in the network namespaces of traced processes. The kernel
 * merges messages of fast flaps: what counts is the difference of carrier_down_count, not the
 * number of messages.
 */
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "host/fs.h"
#include "host/proc.h"
#include "source/link_query.h"
#include "source/source.h"

#define OPEN_MS	  2000
#define ASK_MS	  200		      /* the main loop waits so long for a NIC's firmware */
#define REST_NS	  (30 * NSEC_PER_SEC) /* after no answer, before the namespace is asked again */
#define ASK_EVERY NSEC_PER_SEC	      /* at most, for messages that show no change */
#define SWEEP_S	  2
#define TAKE_MAX  64 /* messages in a row, then others have their turn */
#define DRAIN_MAX 65536
#define NS_MAX	  FT_MAX_NETNS

struct ns {
	struct ns *next;
	struct ft_link_src *src;
	uint32_t netns, pid; /* pid: a process that lives in it */
	struct link_fds fds; /* monitor -1: could not be opened */
	struct link_list list;
	bool inhabited; /* at the last sweep */
	bool stale;	/* messages were lost: `list` must be made anew */
	uint64_t rest_until_ns;
};

struct ft_link_src {
	struct ft_loop *loop;
	struct ft_emit emit;
	struct ft_probe *row; /* may be NULL */
	int timer;
	struct ns *all;
};

/* --- records --- */
static void emit_missing(struct ns *ns, const char *of, int error)
{
	struct ft_ev_inv_host *e;
	struct ft_rec rec;
	char what[96];

	e = ft_rec_new(&rec, FT_KIND_inv_host, ft_mono_ns());
	e->h.pid = ns->pid;
	e->error = error;
	ft_fmt(what, "%s in network namespace %u of process %u", of, ns->netns, ns->pid);
	ft_rec_str(&rec, &e->what, what);
	ft_rec_str(
		&rec, &e->reason,
		error == -EPERM || error == -EACCES
			? "not permitted: needs CAP_SYS_ADMIN, CAP_SYS_PTRACE; its flaps are not seen"
		: error == -ETIMEDOUT ? "no answer in time"
		: error == -EBUSY
			? "not asked: too many earlier questions are still without an answer"
			: strerror(-error));
	ft_emit(&ns->src->emit, &rec);
}

static void emit_iface(struct ns *ns, const struct link_iface *i)
{
	struct ft_rec rec;
	struct ft_ev_inv_netdev *e = ft_netdev_rec(&i->d, ns->netns, ft_mono_ns(), &rec);

	for (int k = 0; k < i->naddrs; k++)
		ft_rec_strs_add(&rec, &e->addrs, i->addrs[k]);
	ft_emit(&ns->src->emit, &rec);
}

static uint32_t delta(uint32_t now, uint32_t before)
{
	return now == FT_NONE_U32 || before == FT_NONE_U32 ? FT_NONE_U32 : now - before;
}

static void emit_change(struct ns *ns, const struct ft_netdev *now, const struct ft_netdev *before,
			bool removed)
{
	struct ft_ev_net_link *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_net_link, ft_mono_ns());
	e->netns = ns->netns;
	e->ifindex = now->ifindex;
	e->speed_mbps = now->speed_mbps;
	e->carrier_down_count = now->carrier_down_count;
	e->carrier_down_delta = delta(now->carrier_down_count, before->carrier_down_count);
	e->carrier = now->carrier;
	e->removed = removed;
	ft_strcpy(e->ifname, now->ifname, sizeof(e->ifname));
	ft_emit(&ns->src->emit, &rec);
}

/* --- changes --- */
static bool flapped(const struct ft_netdev *a, const struct ft_netdev *b)
{
	return a->carrier != b->carrier || a->carrier_down_count != b->carrier_down_count;
}

/* Tells what is new of an interface. */
static void report(struct ns *ns, struct link_iface *i)
{
	if (flapped(&i->d, &i->told) || i->d.speed_mbps != i->told.speed_mbps)
		emit_change(ns, &i->d, &i->told, false);
	i->told = i->d;
	i->dirty = false;
}

static void introduce(struct ns *ns, struct link_iface *i)
{
	emit_iface(ns, i);
	i->told = i->d;
	i->dirty = false;
}

static bool resting(const struct ns *ns)
{
	return ft_mono_ns() < ns->rest_until_ns;
}

/* A NIC that does not answer must not stop the main loop with each of its messages. */
static int rest(struct ns *ns, const char *of, int err)
{
	if (!err)
		return 0;
	ns->rest_until_ns = ft_mono_ns() + REST_NS;
	emit_missing(ns, of, err);
	return err;
}

static bool ask(struct ns *ns, struct link_iface *i)
{
	char of[48];

	ft_fmt(of, "speed of %s", i->d.ifname);
	return !resting(ns) && !rest(ns, of, link_ns_ask(&ns->fds, i, ASK_MS));
}

/* Whether a was made before b. */
static bool older(const struct link_iface *a, const struct link_iface *b)
{
	return a->changes != FT_NONE_U32 && b->changes != FT_NONE_U32 &&
	       (int32_t)(a->changes - b->changes) < 0;
}

static void on_newlink(struct ns *ns, const struct nlmsghdr *nlh)
{
	struct link_iface msg, *i;
	struct ft_netdev now;

	if (link_msg_parse(nlh, &msg))
		return;
	i = link_list_find(&ns->list, msg.d.ifindex);
	if (!i) {
		ask(ns, &msg);
		introduce(ns, &msg);
		if (link_list_add(&ns->list, &msg))
			emit_missing(ns, msg.d.ifname, -ENOMEM);
		return;
	}
	/* It was waiting while a list was made: the list has told more. */
	if (older(&msg, i))
		return;
	/* The message lacks what ethtool told. */
	now = i->d;
	ft_strcpy(now.ifname, msg.d.ifname, sizeof(now.ifname));
	now.mtu = msg.d.mtu;
	now.carrier = msg.d.carrier;
	now.carrier_down_count = msg.d.carrier_down_count;
	i->dirty |= flapped(&now, &i->told) || ft_mono_ns() - i->asked_ns >= ASK_EVERY;
	if (strcmp(now.ifname, i->d.ifname) != 0) {
		i->d = now;
		emit_iface(ns, i);
	}
	i->d = now;
	i->changes = msg.changes;
}

/*
 * After all messages that were there: several changes of an interface make one line, whose
 * carrier_down_delta has them all, and its speed is asked once.
 */
static void flush(struct ns *ns)
{
	for (size_t k = 0; k < ns->list.n; k++) {
		struct link_iface *i = &ns->list.v[k];

		if (!i->dirty)
			continue;
		/*
		 * With another carrier the old speed does not hold; otherwise no answer is no news.
		 */
		if (!ask(ns, i) && flapped(&i->d, &i->told))
			i->d.speed_mbps = FT_NONE_U32;
		report(ns, i);
	}
}

/* Moved to another namespace, or the device is gone. */
static void iface_gone(struct ns *ns, struct link_iface *old)
{
	old->d.carrier = 0;
	old->d.speed_mbps = FT_NONE_U32;
	if (old->told.carrier)
		emit_change(ns, &old->d, &old->told, true);
	*old = ns->list.v[--ns->list.n];
}

static void on_addr(struct ns *ns, const struct nlmsghdr *nlh)
{
	char addr[INET6_ADDRSTRLEN];
	struct link_iface *i;
	uint32_t ifindex;

	if (link_addr_parse(nlh, &ifindex, addr))
		return;
	i = link_list_find(&ns->list, ifindex);
	/* IPv6 repeats addresses when their lifetime is renewed: only what changes is told. */
	if (i && (nlh->nlmsg_type == RTM_NEWADDR ? link_addr_add(i, addr) : link_addr_del(i, addr)))
		emit_iface(ns, i);
}

static void on_message(struct ns *ns, const struct nlmsghdr *nlh)
{
	struct link_iface msg, *old;

	switch (nlh->nlmsg_type) {
	case RTM_NEWLINK:
		on_newlink(ns, nlh);
		break;
	case RTM_DELLINK:
		old = link_msg_parse(nlh, &msg) ? NULL : link_list_find(&ns->list, msg.d.ifindex);
		if (old)
			iface_gone(ns, old);
		break;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		on_addr(ns, nlh);
		break;
	}
}

/* Messages were lost: the list tells what they would have told, the counters included. */
static void relist(struct ns *ns)
{
	struct link_list now = {};

	if (!ns->stale || resting(ns))
		return;
	if (rest(ns, "state of the interfaces", link_ns_list(&ns->fds, OPEN_MS, &now)))
		return;
	for (size_t k = 0; k < now.n; k++) {
		struct link_iface *i = &now.v[k], *old = link_list_find(&ns->list, i->d.ifindex);

		/* Fewer changes than before: another device with the same number. */
		if (!old || older(i, old)) {
			introduce(ns, i);
			continue;
		}
		i->told = old->told;
		report(ns, i);
	}
	for (size_t i = 0; i < ns->list.n;) {
		if (link_list_find(&now, ns->list.v[i].d.ifindex))
			i++;
		else
			iface_gone(ns, &ns->list.v[i]);
	}
	link_list_free(&ns->list);
	ns->list = now;
	ns->stale = false;
}

static void take(struct ns *ns, struct nlmsghdr *h, int left)
{
	for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left))
		on_message(ns, h);
}

static void on_readable(void *ctx)
{
	char buf[32768] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct ns *ns = ctx;

	/*
	 * Once some are lost the rest of the queue is only thrown away, as a whole, and a list
	 * made.
	 */
	for (int i = 0; i < (ns->stale ? DRAIN_MAX : TAKE_MAX); i++) {
		ssize_t n = recv(ns->fds.monitor, buf, sizeof(buf), 0);

		if (n < 0 && errno == ENOBUFS)
			ns->stale = true;
		else if (n < 0 && errno != EINTR)
			break;
		else if (n > 0 && !ns->stale)
			take(ns, (void *)buf, n);
	}
	relist(ns);
	flush(ns);
}

/* --- namespaces --- */
static void ns_free(struct ns *ns)
{
	if (ns->fds.monitor >= 0)
		ft_loop_del(ns->src->loop, ns->fds.monitor);
	link_fds_close(&ns->fds);
	link_list_free(&ns->list);
	free(ns);
}

static bool lives_in(uint32_t pid, uint32_t netns)
{
	char path[64];
	uint32_t ino;

	ft_fmt(path, "/proc/%u/ns/net", pid);
	return !ft_link_inode("", path, &ino) && ino == netns;
}

static bool all_inhabited(const struct ft_link_src *s)
{
	for (const struct ns *ns = s->all; ns; ns = ns->next)
		if (!ns->inhabited)
			return false;
	return true;
}

/* Processes that live in the namespaces now: one look through /proc for all that lost theirs. */
static void find_inhabitants(struct ft_link_src *s)
{
	_cleanup_(ft_proc_table_free) struct ft_proc_table t = {};
	int err = 0;

	for (struct ns *ns = s->all; ns; ns = ns->next)
		ns->inhabited = lives_in(ns->pid, ns->netns);
	if (!all_inhabited(s))
		err = ft_proc_table_read("", &t);
	for (size_t i = 0; i < t.n && !all_inhabited(s); i++) {
		char path[64];
		uint32_t ino;

		ft_fmt(path, "/proc/%u/ns/net", t.v[i].pid);
		if (ft_link_inode("", path, &ino))
			continue;
		for (struct ns *ns = s->all; ns; ns = ns->next) {
			if (ns->inhabited || ns->netns != ino)
				continue;
			ns->inhabited = true;
			ns->pid = t.v[i].pid;
		}
	}
	for (struct ns *ns = s->all; ns; ns = ns->next)
		ns->inhabited |= err != 0; /* cannot tell */
}

/*
 * Our sockets would keep a namespace alive whose last process has gone, and with it its interfaces.
 */
static void on_sweep(void *ctx)
{
	struct ft_link_src *s = ctx;
	uint64_t ticks;

	if (read(s->timer, &ticks, sizeof(ticks)) < 0)
		return;
	find_inhabitants(s);
	for (struct ns **p = &s->all; *p;) {
		struct ns *ns = *p;

		if (ns->inhabited) {
			relist(ns);
			p = &ns->next;
			continue;
		}
		*p = ns->next;
		ns_free(ns);
	}
}

int ft_link_src_new(struct ft_link_src **out, struct ft_loop *loop, const struct ft_emit *emit)
{
	const struct itimerspec period = { { SWEEP_S, 0 }, { SWEEP_S, 0 } };
	struct ft_link_src *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct ft_link_src){ .loop = loop, .emit = *emit };
	s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	err = s->timer < 0 || timerfd_settime(s->timer, 0, &period, NULL) ? -errno : 0;
	if (!err)
		err = ft_loop_add(loop, s->timer, on_sweep, s);
	if (err) {
		ft_closep(&s->timer);
		free(s);
		return err;
	}
	*out = s;
	return 0;
}

void ft_link_src_free(struct ft_link_src *s)
{
	if (!s)
		return;
	while (s->all) {
		struct ns *ns = s->all;

		s->all = ns->next;
		ns_free(ns);
	}
	ft_loop_del(s->loop, s->timer);
	close(s->timer);
	free(s);
}

static struct ns *ns_find(struct ft_link_src *s, uint32_t netns, size_t *n)
{
	*n = 0;
	for (struct ns *ns = s->all; ns; ns = ns->next, ++*n)
		if (ns->netns == netns)
			return ns;
	return NULL;
}

void ft_link_src_row(struct ft_link_src *s, struct ft_probe *row)
{
	s->row = row;
	if (row)
		ft_strcpy(row->reason, "no network namespace was opened yet", sizeof(row->reason));
}

/* ON is said of what was opened, not of what was tried. */
static void row_result(struct ft_probe *row, uint32_t netns, int err)
{
	if (!row)
		return;
	if (err) {
		row->error = err;
		ft_fmt(row->reason, "network namespace %u: %s", netns, strerror(-err));
		return;
	}
	row->state = FT_PROBE_ON;
	if (!row->error)
		row->reason[0] = 0;
}

int ft_link_src_add(struct ft_link_src *s, uint32_t pid, uint32_t netns)
{
	struct ns *ns;
	size_t n;
	int err;

	if (ns_find(s, netns, &n))
		return 0;
	ns = n < NS_MAX ? calloc(1, sizeof(*ns)) : NULL;
	if (!ns)
		return n < NS_MAX ? -ENOMEM : -ENOSPC;
	*ns = (struct ns){ .src = s, .netns = netns, .pid = pid, .fds = { -1, -1, -1 } };
	err = link_ns_open(pid, netns, OPEN_MS, &ns->fds, &ns->list);
	if (!err)
		err = ft_loop_add(s->loop, ns->fds.monitor, on_readable, ns);
	if (err == -ESTALE || err == -ENOENT) {
		/* The process has gone meanwhile; another one may come. */
		ns_free(ns);
		return -ESRCH;
	}
	row_result(s->row, netns, err);
	if (err) {
		link_fds_close(&ns->fds);
		emit_missing(ns, "link state", err);
	}
	/* Also one that cannot be watched is remembered: it is named once. */
	ns->next = s->all;
	s->all = ns;
	for (size_t i = 0; i < ns->list.n; i++)
		introduce(ns, &ns->list.v[i]);
	return err;
}
