/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What unit tests share: cmocka, and records made in a line. */
#ifndef FT_TESTS_RECORDS_H
#define FT_TESTS_RECORDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>

#include "attrib/attrib.h"
#include "diagnose/diagnose.h"
#include "event/event.h"

#define SEC NSEC_PER_SEC

static __attribute__((unused)) void set_ip(uint8_t ip[16], const char *text)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memcpy(ip, mapped, sizeof(mapped));
	assert_int_equal(inet_pton(AF_INET, text, ip + 12), 1);
}

static __attribute__((unused)) void head(struct ft_rec *r, uint32_t pid, const char *task)
{
	r->h.pid = pid;
	ft_strcpy(r->h.task, task, sizeof(r->h.task));
}

static __attribute__((unused)) struct ft_ev_inv_proc *
rec_proc(struct ft_rec *r, uint64_t ts, uint32_t pid, uint32_t ppid, uint32_t netns, int rank)
{
	struct ft_ev_inv_proc *e = ft_rec_new(r, FT_KIND_inv_proc, ts);

	head(r, pid, "trainer");
	e->ppid = ppid;
	e->netns = netns;
	e->nccl = 1;
	e->helper = 0;
	if (rank >= 0) {
		e->env_rank = rank;
		e->env_world = 4;
	}
	return e;
}

static __attribute__((unused)) struct ft_ev_nccl_comm *
rec_comm(struct ft_rec *r, uint64_t ts, uint32_t pid, int op, uint64_t ptr, int rank, int nranks)
{
	struct ft_ev_nccl_comm *e = ft_rec_new(r, FT_KIND_nccl_comm, ts);

	head(r, pid, "trainer");
	r->h.how = FT_HOW(task);
	e->op = op;
	e->comm_ptr = ptr;
	e->rank = rank;
	e->nranks = nranks;
	e->result = 0;
	return e;
}

/* The first members of all kinds with a socket differ: filled by name. */
static __attribute__((unused)) void set_socket(struct ft_rec *r, const char *saddr, uint16_t sport,
					       const char *daddr, uint16_t dport, uint32_t netns,
					       const char *ifname)
{
	const struct ft_kind_info *k = ft_kind(r->h.kind);
	uint32_t ifindex = ifname[0] ? 2 : FT_NONE_U32;

	set_ip((uint8_t *)r->buf + ft_field(k, "saddr")->off, saddr);
	set_ip((uint8_t *)r->buf + ft_field(k, "daddr")->off, daddr);
	memcpy(r->buf + ft_field(k, "sport")->off, &sport, 2);
	memcpy(r->buf + ft_field(k, "dport")->off, &dport, 2);
	memcpy(r->buf + ft_field(k, "netns")->off, &netns, 4);
	memcpy(r->buf + ft_field(k, "ifindex")->off, &ifindex, 4);
	ft_strcpy(r->buf + ft_field(k, "ifname")->off, ifname, 16);
}

#endif
