// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* fabrictrace topo as text: "-" is unknown or none, never 0. */
#include "cli/topo.h"
#include "host/fs.h"

static void print_escaped(const char *s, size_t max)
{
	_cleanup_buf_ struct ft_buf b = {};

	ft_buf_escape(&b, s, strlen(s));
	printf("%.*s\n", (int)max, b.s ? b.s : "");
}

static const char *number(int32_t v, char out[16])
{
	snprintf(out, 16, v == FT_NONE_S32 ? "-" : "%d", v);
	return out;
}

static const char *path_text(const struct ft_pci *p, const struct ft_pci_dev *d, char out[48])
{
	struct ft_pci_path sum;
	char now[32], possible[32];

	ft_pci_path_sum(p, d, &sum);
	if (d->gone)
		snprintf(out, 48, "does not answer");
	else if (!sum.hops)
		snprintf(out, 48, "no link seen");
	else
		snprintf(out, 48, "%s / %s", ft_pci_link_text(sum.now, now),
			 ft_pci_link_text(sum.possible, possible));
	return out;
}

static const char *speed_text(uint32_t mbps, char out[16])
{
	if (mbps == FT_NONE_U32)
		snprintf(out, 16, "-");
	else if (mbps % 1000)
		snprintf(out, 16, "%uM", mbps);
	else
		snprintf(out, 16, "%uG", mbps / 1000);
	return out;
}

static void show_gpus(const struct topo *t)
{
	char index[16], numa[16], path[48], name[64];
	size_t n = 0;

	for (size_t i = 0; i < t->pci->n; i++) {
		const struct ft_pci_dev *d = &t->pci->v[i];

		if (d->role != FT_PCI_GPU)
			continue;
		if (!n++)
			printf("GPU   ADDRESS       NUMA  PCIe NOW / POSSIBLE      MODEL\n");
		ft_fmt(name, "%04x:%04x (no driver)", d->vendor, d->device);
		if (d->gpu_name[0])
			ft_strcpy(name, d->gpu_name, sizeof(name));
		printf("%3s   %-12s  %-4s  %-23s  ", number(d->gpu_index, index), d->bdf,
		       number(d->numa, numa), path_text(t->pci, d, path));
		print_escaped(name, 45);
	}
	if (!n)
		printf("GPUs: none of NVIDIA or AMD on the PCI bus of this machine\n");
}

/* A NIC's line: one per RDMA port or interface; virtual functions only where they have one. */
static void nic_line(const struct topo *t, const char *bdf, const char *ibdev, const char *ifname,
		     int32_t numa, uint32_t mbps, uint8_t carrier, const char *driver)
{
	const struct ft_pci_dev *d = bdf[0] ? ft_pci_find(t->pci, bdf) : NULL;
	char node[16], speed[16], path[48] = "-";

	if (d)
		path_text(t->pci, d, path);
	printf("%-10.10s  %-12.12s  %-12s  %-4s  %-5s %-4s  %-23s  ", ibdev[0] ? ibdev : "-",
	       ifname[0] ? ifname : "-", bdf[0] ? bdf : "-", number(numa, node),
	       speed_text(mbps, speed),
	       carrier == FT_NONE_U8 ? "-"
	       : carrier	     ? "up"
				     : "down",
	       path);
	print_escaped(driver[0] ? driver : "-", 12);
}

static bool has_port(const struct ft_net *net, const struct ft_ibport *p)
{
	for (size_t i = 0; i < net->n; i++)
		if (!strcmp(net->v[i].ibdev, p->ibdev) && net->v[i].port == p->port)
			return true;
	return false;
}

static bool has_bdf(const struct ft_net *net, const char *bdf)
{
	for (size_t i = 0; i < net->n; i++)
		if (!strcmp(net->v[i].bdf, bdf))
			return true;
	for (size_t i = 0; i < net->nports; i++)
		if (!strcmp(net->ports[i].bdf, bdf))
			return true;
	return false;
}

/* Sorted by address, as the GPUs are, so that neighbours stand at the same place in both tables. */
static int by_bdf(const void *a, const void *b)
{
	const struct ft_netdev *x = a, *y = b;
	int c = strcmp(x->bdf, y->bdf);

	return c ? c : strcmp(x->ifname, y->ifname);
}

static size_t show_netdevs(const struct topo *t, bool physical)
{
	size_t n = 0;

	for (size_t i = 0; i < t->net->n; i++) {
		const struct ft_netdev *d = &t->net->v[i];

		if (physical != (d->bdf[0] || d->ibdev[0]) || !strcmp(d->ifname, "lo"))
			continue;
		nic_line(t, d->bdf, d->ibdev, d->ifname, d->numa, d->speed_mbps, d->carrier,
			 d->driver);
		n++;
	}
	return n;
}

static void show_nics(const struct topo *t)
{
	size_t n;

	printf("NIC         INTERFACE     ADDRESS       NUMA  LINK        PCIe NOW / POSSIBLE      DRIVER\n");
	if (t->net->n)
		qsort(t->net->v, t->net->n, sizeof(*t->net->v), by_bdf);
	n = show_netdevs(t, true);
	for (size_t i = 0; i < t->net->nports; i++) {
		const struct ft_ibport *p = &t->net->ports[i];

		if (has_port(t->net, p))
			continue;
		nic_line(t, p->bdf, p->ibdev, "", p->numa, p->speed_mbps, p->active, "");
		n++;
	}
	/* Without an interface here: in a container's namespace, or without a driver. */
	for (size_t i = 0; i < t->pci->n; i++) {
		const struct ft_pci_dev *d = &t->pci->v[i];

		if (d->role != FT_PCI_NIC || d->physfn >= 0 || has_bdf(t->net, d->bdf))
			continue;
		nic_line(t, d->bdf, "", "", d->numa, FT_NONE_U32, FT_NONE_U8, "no interface");
		n++;
	}
	if (!n)
		printf("none with a PCI address or an RDMA port\n");
	show_netdevs(t, false);
}

/* The same hop may limit several devices: it is named once, with all of them. */
static bool named_before(const struct topo *t, size_t until, const struct ft_pci_path *sum)
{
	for (size_t i = 0; i < until; i++) {
		struct ft_pci_path other;

		if (t->pci->v[i].role == FT_PCI_OTHER)
			continue;
		ft_pci_path_sum(t->pci, &t->pci->v[i], &other);
		if (other.below && other.slowest.device == sum->slowest.device)
			return true;
	}
	return false;
}

/* Where to go, and whether the port was told to be slow. */
static void show_place(const struct ft_pci_hop *hop)
{
	if (hop->device->slot[0])
		printf(", slot %s", hop->device->slot);
	if (hop->port->target_gen < hop->possible.gen)
		printf(", the port is limited to Gen%u", hop->port->target_gen);
	printf("\n");
}

static void show_slow_hops(const struct topo *t)
{
	bool speed_only = false;
	size_t n = 0;

	for (size_t i = 0; i < t->pci->n; i++) {
		const struct ft_pci_dev *d = &t->pci->v[i];
		struct ft_pci_path sum;
		char now[32], possible[32];

		if (d->role == FT_PCI_OTHER)
			continue;
		ft_pci_path_sum(t->pci, d, &sum);
		if (!sum.below || named_before(t, i, &sum))
			continue;
		if (!n++)
			printf("\nPCIe links below what both of their ends can do:\n");
		printf("  %s -> %-12s  %s instead of %s, %.1f instead of %.1f GB/s",
		       sum.slowest.port->bdf, sum.slowest.device->bdf,
		       ft_pci_link_text(sum.slowest.now, now),
		       ft_pci_link_text(sum.slowest.possible, possible),
		       ft_pci_gbytes(sum.slowest.now), ft_pci_gbytes(sum.slowest.possible));
		show_place(&sum.slowest);
		speed_only |= sum.slowest.now.width == sum.slowest.possible.width;
	}
	if (speed_only)
		printf("  An idle GPU lowers its link's speed, not its width: look again while the job runs.\n");
}

/* --- processes --- */
static const char *gpu_name(int32_t index, const char *bdf, char out[16])
{
	if (index == FT_NONE_S32)
		ft_strcpy(out, bdf, 16);
	else
		snprintf(out, 16, "%d", index);
	return out;
}

static void used_column(const struct ft_nvml_gpu *const *on, size_t n, char *out, size_t size)
{
	char name[16];
	size_t len = 0;

	if (n > 4) {
		snprintf(out, size, "%zu GPUs", n);
		return;
	}
	for (size_t i = 0; i < n && len < size; i++)
		len += snprintf(out + len, size - len, "%s%s", i ? "," : "",
				gpu_name(on[i]->minor, on[i]->bdf, name));
}

static void gpu_column(const struct topo *t, const struct ft_proc_facts *f, char *out, size_t size)
{
	const struct ft_nvml_gpu *on[FT_PROC_GPUS];
	size_t used = t->nvml ? ft_nvml_gpus(t->nvml, f->st.pid, on, FT_PROC_GPUS) : 0;
	char bdfs[FT_PROC_GPUS][16], name[16];
	size_t n = ft_proc_gpus(f, t->pci, bdfs);
	const struct ft_pci_dev *d = n == 1 ? ft_pci_find(t->pci, bdfs[0]) : NULL;

	/* CUDA opens every visible GPU: several files do not tell which one is used. */
	if (used)
		used_column(on, used, out, size);
	else if (n > 1)
		snprintf(out, size, "one of %zu", n);
	else
		snprintf(out, size, "%s%s",
			 n ? gpu_name(d ? d->gpu_index : FT_NONE_S32, bdfs[0], name) : "-",
			 n && t->nvml ? " (file)" : "");
}

static void show_proc(const struct topo *t, const struct ft_proc_facts *f)
{
	char rank[32] = "-", gpu[32], inner[16] = "-", command[256] = "";

	if (f->env.rank.rank >= 0 && f->env.rank.world >= 0)
		ft_fmt(rank, "%d of %d", f->env.rank.rank, f->env.rank.world);
	else if (f->env.rank.rank >= 0)
		ft_fmt(rank, "%d", f->env.rank.rank);
	gpu_column(t, f, gpu, sizeof(gpu));
	if (f->ns_pid != FT_NONE_U32 && f->ns_pid != f->st.pid)
		ft_fmt(inner, "%u", f->ns_pid);
	for (size_t i = 0, len = 0; i < f->args.len && len < sizeof(command) - 1;
	     i += strlen(f->args.text + i) + 1)
		len += snprintf(command + len, sizeof(command) - len, "%s%s", i ? " " : "",
				f->args.text + i);
	printf("%-12s  %-12s  %7u  %7s  %-4s  ", rank, gpu, f->st.pid, inner,
	       f->nccl == FT_NONE_U8 ? "-"
	       : f->nccl	     ? "yes"
				     : "no");
	print_escaped(command[0] ? command : f->st.comm, 48);
}

/* Interfaces are read in our own network namespace. */
static void show_elsewhere(const struct topo *t)
{
	uint32_t own, pid = 0;
	size_t n = 0;

	if (t->root[0] || ft_link_inode("", "/proc/self/ns/net", &own))
		return;
	for (size_t i = 0; i < t->nprocs; i++) {
		const struct ft_proc_facts *f = t->procs[i];

		if (f->netns == FT_NONE_U32 || f->netns == own)
			continue;
		pid = n++ ? pid : f->st.pid;
	}
	if (n)
		printf("%zu of these %s in another network namespace, whose interfaces are not listed "
		       "above:\n  nsenter -t %u -n ip link\n",
		       n, n == 1 ? "is" : "are", pid);
}

static void show_procs(const struct topo *t)
{
	size_t helpers = 0;

	if (!t->nprocs && t->set.unread) {
		printf("\nprocesses: none visible has a library named libnccl.so* mapped; %zu could not "
		       "be read%s\n",
		       t->set.unread, geteuid() ? ": run as root" : "");
		return;
	}
	if (!t->nprocs) {
		printf("\nprocesses: none has a library named libnccl.so* mapped (-p PID shows others)\n");
		return;
	}
	printf("\nRANK (env)    %-12s      PID  IN CONT  NCCL  COMMAND\n",
	       t->nvml ? "GPU (NVML)" : "GPU (files)");
	for (size_t i = 0; i < t->nprocs; i++) {
		helpers += t->procs[i]->helper;
		if (!t->procs[i]->helper || ft_verbose > 0)
			show_proc(t, t->procs[i]);
	}
	if (helpers)
		printf("and %zu helper%s, forked from these ranks\n", helpers,
		       ft_plural(helpers, "s"));
	show_elsewhere(t);
}

static void print_missing(void *ctx, struct ft_hdr *ev)
{
	const struct ft_ev_inv_host *e = (const void *)ev;
	char text[128];

	(void)ctx;
	if (ev->kind != FT_KIND_inv_host)
		return;
	printf("not read: %s", ft_str_copy(ev, e->what, text, sizeof(text)));
	printf(": %s\n", ft_str_copy(ev, e->reason, text, sizeof(text)));
}

/* Parts of processes that could not be read for one reason. */
struct gap {
	char files[64], reason[96];
	uint32_t pid; /* the first */
	size_t procs;
};

#define GAPS_MAX 16

/* "exe, environ, fd" of one process; all for the reason of the first. */
static bool gap_of(const struct ft_proc_facts *f, struct gap *g)
{
	struct ft_rec rec;
	size_t len = 0;

	*g = (struct gap){ .pid = f->st.pid, .procs = 1 };
	for (int part = 0; part < FT_PROC_PARTS; part++) {
		const struct ft_ev_inv_host *e = (const void *)&rec;
		char what[64], reason[96];

		if (!ft_proc_missing_rec(f, part, 0, &rec))
			continue;
		ft_str_copy(&rec.h, e->reason, reason, sizeof(reason));
		if (len && strcmp(reason, g->reason) != 0)
			continue;
		ft_strcpy(g->reason, reason, sizeof(g->reason));
		ft_str_copy(&rec.h, e->what, what, sizeof(what));
		len += snprintf(g->files + len, sizeof(g->files) - len, "%s%s", len ? ", " : "",
				strrchr(what, '/') + 1);
	}
	return len;
}

static void gap_print(const struct gap *g)
{
	printf("not read: %s of process %u", g->files, g->pid);
	if (g->procs > 1)
		printf(" and %zu more", g->procs - 1);
	printf(": %s\n", g->reason);
}

/* One line for all processes of which the same is missing. */
static void show_gaps(const struct topo *t)
{
	struct gap gaps[GAPS_MAX], g;
	size_t n = 0, k;

	for (size_t i = 0; i < t->nprocs; i++) {
		if (!gap_of(t->procs[i], &g))
			continue;
		for (k = 0; k < n; k++)
			if (!strcmp(gaps[k].files, g.files) && !strcmp(gaps[k].reason, g.reason))
				break;
		if (k < n)
			gaps[k].procs++;
		else if (n < GAPS_MAX)
			gaps[n++] = g;
		else
			gap_print(&g);
	}
	for (k = 0; k < n; k++)
		gap_print(&gaps[k]);
}

/* Every gap in the tables above, with its reason. */
static void show_missing(const struct topo *t)
{
	struct ft_rec rec;

	ft_pci_emit(t->pci, 0, print_missing, NULL);
	ft_nvml_emit(t->nvml, t->nvml_error, t->root, 0, print_missing, NULL);
	if (topo_unread_rec(t, &rec))
		print_missing(NULL, &rec.h);
	show_gaps(t);
}

static void show_numa(const struct topo *t)
{
	_cleanup_names_ struct ft_names names = {};
	char path[96], cpus[64];
	size_t n = 0;

	if (ft_names_read(t->root, "/sys/devices/system/node", &names))
		return;
	for (size_t i = 0; i < names.n; i++) {
		int node = -1;

		if (sscanf(names.v[i], "node%d", &node) != 1)
			continue;
		ft_fmt(path, "/sys/devices/system/node/%s/cpulist", names.v[i]);
		if (ft_read_line(t->root, path, cpus, sizeof(cpus)))
			continue;
		printf("%sNUMA %d: cpus %s\n", n++ ? "" : "\n", node, cpus[0] ? cpus : "none");
	}
}

void topo_text(const struct topo *t)
{
	printf("fabrictrace %s  %s  %s\n\n", FT_VERSION, t->host, t->kernel);
	show_gpus(t);
	printf("\n");
	show_nics(t);
	show_slow_hops(t);
	show_procs(t);
	show_numa(t);
	show_missing(t);
}
