// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Names and hints for people. */
#include <arpa/inet.h>
#include <signal.h>
#include <time.h>

#include "diagnose/internal.h"

int rank_number(const struct ft_attr_rank *r)
{
	return r->global_rank >= 0 ? r->global_rank : r->rank;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* "rank 2", "ranks 0-3, 7": unknown numbers are left out. */
void ranks_name(struct ft_buf *b, const struct ft_attr_rank *ranks, size_t n, bool more)
{
	int v[FT_ATTR_MAX * 4];
	size_t nv = 0, kept = 0;

	for (size_t i = 0; i < n && nv < ARRAY_SIZE(v); i++)
		if (rank_number(&ranks[i]) >= 0)
			v[nv++] = rank_number(&ranks[i]);
	qsort(v, nv, sizeof(v[0]), by_number);
	for (size_t i = 0; i < nv; i++)
		if (!kept || v[kept - 1] != v[i])
			v[kept++] = v[i];
	if (!kept)
		return;
	ft_buf_puts(b, kept > 1 || more ? "ranks " : "rank ");
	for (size_t i = 0, k; i < kept; i = k + 1) {
		for (k = i; k + 1 < kept && v[k + 1] == v[k] + 1; k++)
			;
		ft_buf_printf(b, "%s%d", i ? ", " : "", v[i]);
		if (k > i)
			ft_buf_printf(b, "%s%d", k > i + 1 ? "-" : ", ", v[k]);
	}
	if (more)
		ft_buf_puts(b, " and more");
}

void ip_name(const uint8_t ip[16], char out[48])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool v4 = !memcmp(ip, mapped, sizeof(mapped));

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? ip + 12 : ip, out, 48))
		out[0] = 0;
}

void place_short(const struct place *p, char *out, size_t size)
{
	_cleanup_buf_ struct ft_buf b = {};

	ranks_name(&b, p->ranks, p->nranks, p->ranks_cut);
	if (b.len) {
		ft_strcpy(out, b.s, size);
	} else if (!p->local) {
		char ip[48];

		ip_name(p->key.ip, ip);
		snprintf(out, size, "%s (another node, or not traced)", ip);
	} else if (p->pid) {
		snprintf(out, size, "pid %u (%s)", p->pid, p->task);
	} else {
		snprintf(out, size, "%.16s (netns %u)", p->key.ifname[0] ? p->key.ifname : "?",
			 p->key.netns);
	}
}

void place_name(const struct place *p, char *out, size_t size)
{
	char owner[96];

	place_short(p, owner, sizeof(owner));
	if (!p->local || (!p->nranks && !p->pid))
		ft_strcpy(out, owner, size);
	else if (p->key.ifname[0])
		snprintf(out, size, "%.16s of %s (netns %u)", p->key.ifname, owner, p->key.netns);
	else
		snprintf(out, size, "network of %s (netns %u)", owner, p->key.netns);
}

/* What a signal says about who sent it. */
const char *signal_hint(int sig)
{
	static const struct {
		int sig;
		const char *hint;
	} hints[] = {
		{ SIGKILL,
		  "SIGKILL: the out-of-memory killer, the scheduler, or kill -9 (dmesg | grep -i oom)" },
		{ SIGTERM, "SIGTERM: somebody asked it to end (launcher, scheduler, kill)" },
		{ SIGINT, "SIGINT: Ctrl-C or a launcher" },
		{ SIGSEGV, "SIGSEGV: a crash in its own code or in a library (coredumpctl)" },
		{ SIGABRT,
		  "SIGABRT: an assertion or an uncaught exception; the log of the rank tells which" },
		{ SIGBUS,
		  "SIGBUS: /dev/shm is full, or memory failed (df /dev/shm; dmesg | grep -i mce)" },
		{ SIGFPE, "SIGFPE: a crash in its own code" },
		{ SIGILL, "SIGILL: built for another CPU" },
		{ SIGHUP, "SIGHUP: its terminal or its launcher went away" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (hints[i].sig == sig)
			return hints[i].hint;
	return NULL;
}

void how_ended(int32_t code, int32_t sig, char *out, size_t size)
{
	if (sig != FT_NONE_S32)
		snprintf(out, size, "killed by signal %d (%s)", sig, strsignal(sig));
	else
		snprintf(out, size, "exit status %d", code);
}

static bool runs(const struct ft_diag *d, uint32_t pid)
{
	const struct dproc *p;

	HASH_FIND(hh, d->procs, &pid, sizeof(pid), p);
	return p && !p->exit_ns;
}

void netns_enter(const struct ft_diag *d, uint32_t netns, char *out, size_t size)
{
	out[0] = 0;
	for (const struct place *p = d->places; p; p = p->hh.next)
		if (p->local && p->key.netns == netns && runs(d, p->pid)) {
			snprintf(out, size, "nsenter -t %u -n ", p->pid);
			return;
		}
}

void time_name(const struct ft_diag *d, uint64_t ns, char *out, size_t size)
{
	time_t sec = (ns + d->opts.clock->offset_ns) / NSEC_PER_SEC;
	struct tm tm;

	localtime_r(&sec, &tm);
	strftime(out, size, "%H:%M:%S", &tm);
}

/* QDISC_DROP and, since Linux 6.13, one for each queueing discipline. */
bool reason_is_software(const char *reason)
{
	static const char *const own[] = { "NETFILTER_DROP", "QDISC_",	       "XDP",
					   "TC_INGRESS",     "TC_EGRESS",      "CPU_BACKLOG",
					   "SOCKET_RCVBUFF", "SOCKET_BACKLOG", "PROTO_MEM",
					   "IP_RPFILTER" };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (!strncmp(reason, own[i], strlen(own[i])))
			return true;
	return false;
}

/* Where to look, by the kernel's drop reason. */
const char *reason_hint(const char *reason)
{
	static const struct {
		const char *reason, *hint;
	} hints[] = {
		{ "NETFILTER_DROP",
		  "a firewall rule drops it: nft list ruleset; iptables-save -c" },
		{ "QDISC_DROP", "its transmit queue is full: tc -s qdisc show" },
		{ "FULL_RING", "its ring is full: ethtool -S, ethtool -G" },
		{ "CPU_BACKLOG",
		  "the CPU's backlog is full: sysctl net.core.netdev_max_backlog; spread interrupts" },
		{ "SOCKET_RCVBUFF",
		  "the receiving process does not read fast enough: sysctl net.ipv4.tcp_rmem" },
		{ "SOCKET_BACKLOG", "the receiving process is too busy: sysctl net.ipv4.tcp_rmem" },
		{ "PROTO_MEM", "TCP memory is used up: sysctl net.ipv4.tcp_mem" },
		{ "TCP_CSUM", "checksum errors: cable, NIC or offload" },
		{ "IP_CSUM", "checksum errors: cable, NIC or offload" },
		{ "PKT_TOO_SMALL", "damaged packets: cable or NIC" },
		{ "PKT_TOO_BIG",
		  "larger than the MTU: compare the MTU of both ends and the switch" },
		{ "DEV_READY", "the interface was not up" },
		{ "NOMEM", "no memory for packets" },
		{ "XDP", "an XDP program drops it: ip link show" },
		{ "TC_INGRESS", "a tc filter drops it: tc filter show" },
		{ "TC_EGRESS", "a tc filter drops it: tc filter show" },
		{ "IP_RPFILTER", "reverse path filter: sysctl net.ipv4.conf.all.rp_filter" },
		{ "NEIGH_FAILED", "no answer to ARP or neighbour discovery: ip neigh" },
		{ "NEIGH_QUEUEFULL", "no answer to ARP or neighbour discovery yet: ip neigh" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (!strcmp(hints[i].reason, reason))
			return hints[i].hint;
	return NULL;
}
