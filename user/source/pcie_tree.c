// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The tree as the pcie source knows it: read anew when something came or went, what of it is told. */
#include <dirent.h>
#include <limits.h>

#include "source/pcie.h"

#define SCAN_EVERY	NSEC_PER_SEC
#define SCAN_DRIVERS_NS (3 * NSEC_PER_SEC) /* a driver may tell more of a new device by then */

/* --- the bus --- */
/* Names and inodes of all devices: one that went and came back between two looks has another. */
uint64_t pcie_bus_hash(const char *root)
{
	uint64_t sum = 0;
	struct dirent *d;
	char path[PATH_MAX];
	DIR *dir;

	ft_fmt(path, "%s" FT_PCI_DIR, root);
	dir = opendir(path);
	while (dir && (d = readdir(dir)))
		sum += pcie_hash(pcie_hash(PCIE_HASH_BASIS, &d->d_ino, sizeof(d->d_ino)), d->d_name,
				 strlen(d->d_name));
	if (dir)
		closedir(dir);
	return sum;
}

void pcie_scan_want(struct ft_pcie_src *s, uint64_t ns)
{
	s->scan_due_ns = MIN(s->scan_due_ns, ns);
}

void pcie_scan_due(struct ft_pcie_src *s, uint64_t now)
{
	int err;

	if (s->scan || now < s->scan_due_ns || now < s->scanned_ns + SCAN_EVERY)
		return;
	s->scan_due_ns = UINT64_MAX;
	s->scanned_ns = now;
	err = pcie_scan_start(&s->scan, s->root, s->pipe[1]);
	if (err)
		pcie_unseen_emit("PCI devices that came or went", err, strerror(-err), &s->emit);
}

static void to_emit(void *ctx, struct ft_hdr *ev)
{
	struct ft_pcie_src *s = ctx;

	s->emit.fn(s->emit.ctx, ev, ev->size);
}

static void emit_hotplug(struct ft_pcie_src *s, const struct ft_pci *p, const struct ft_pci_dev *d)
{
	struct ft_ev_pcie_hotplug *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_pcie_hotplug, ft_mono_ns());
	e->event = PCIE_DEVICE_ADDED;
	e->before = 0;
	if (d->parent >= 0)
		ft_strcpy(e->port, p->v[d->parent].bdf, sizeof(e->port));
	ft_strcpy(e->device, d->bdf, sizeof(e->device));
	ft_rec_str(&rec, &e->slot, d->slot);
	ft_emit(&s->emit, &rec);
}

/* Whether what the inventory says of a device does not hold any more. */
static bool differs(const struct ft_pci *a, const struct ft_pci_dev *x, const struct ft_pci *b,
		    const struct ft_pci_dev *y)
{
	struct ft_pci_path was, is;

	ft_pci_path_sum(a, x, &was);
	ft_pci_path_sum(b, y, &is);
	return x->vendor != y->vendor || x->device != y->device || x->gpu_index != y->gpu_index ||
	       strcmp(x->gpu_uuid, y->gpu_uuid) != 0 || strcmp(x->slot, y->slot) != 0 ||
	       x->error != y->error || x->gone != y->gone ||
	       memcmp(&x->max, &y->max, sizeof(x->max)) != 0 ||
	       memcmp(&was.possible, &is.possible, sizeof(is.possible)) != 0;
}

/* Whether a function of the device is in the tree: domain, bus and number say which device it is. */
static bool has_device(const struct ft_pci *p, const struct ft_pci_dev *d)
{
	size_t len = strcspn(d->bdf, ".");

	for (size_t i = 0; i < p->n; i++)
		if (!strncmp(p->v[i].bdf, d->bdf, len) && p->v[i].bdf[len] == '.')
			return true;
	return false;
}

/* A function that comes or goes while its device stays, as virtual ones do, is no hot plug. */
static void tell_added(struct ft_pcie_src *s, const struct ft_pci *now)
{
	uint64_t ts = ft_mono_ns();

	for (size_t i = 0; i < now->n; i++) {
		const struct ft_pci_dev *d = &now->v[i], *old = ft_pci_find(s->tree, d->bdf);

		if (d->role == FT_PCI_OTHER || (old && !differs(s->tree, old, now, d)))
			continue;
		ft_pci_emit_dev(now, d, ts, to_emit, s);
		if (old || d->physfn >= 0)
			continue;
		if (!has_device(s->tree, d))
			emit_hotplug(s, now, d);
		pcie_scan_want(s, ts + SCAN_DRIVERS_NS);
	}
}

static void tell_removed(struct ft_pcie_src *s, const struct ft_pci *now)
{
	for (size_t i = 0; i < s->tree->n; i++) {
		const struct ft_pci_dev *d = &s->tree->v[i];

		if (d->role != FT_PCI_OTHER && d->physfn < 0 && !has_device(now, d))
			pcie_gone_emit(d->parent >= 0 ? s->tree->v[d->parent].bdf : "", d->bdf,
				       PCIE_GONE_REMOVED, false, ft_mono_ns(), &s->emit);
	}
}

/* --- links and counters --- */
struct pcie_link *pcie_link_find(struct pcie_link *v, size_t n, const char *upper)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(pcie_link_upper(&v[i]), upper))
			return &v[i];
	return NULL;
}

/* What was seen of the link goes on. */
static void link_carry(struct pcie_link *l, const struct pcie_link *old)
{
	l->known = old->known;
	l->gone = old->gone;
	l->unread = old->unread;
	l->stuck = old->stuck;
	l->told_sleep = old->told_sleep;
	l->retrained = old->retrained;
	l->status = old->status;
	l->now = old->now;
	l->since_ns = old->since_ns;
	l->transitions = old->transitions;
}

/* The links of a tree, and ports of before whose device has gone: it may come back. */
static int links_make(struct ft_pcie_src *s, const struct ft_pci *p)
{
	struct pcie_link *v = calloc(p->n + s->nlinks + 1, sizeof(*v)), *old, l;
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < p->n && n < PCIE_LINKS_MAX; i++) {
		if (!p->v[i].on_path || !pcie_link_of(p, &p->v[i], &l) ||
		    pcie_link_find(v, n, pcie_link_upper(&l)))
			continue;
		old = pcie_link_find(s->links, s->nlinks, pcie_link_upper(&l));
		if (old)
			link_carry(&l, old);
		v[n++] = l;
	}
	for (size_t i = 0; i < s->nlinks && n < PCIE_LINKS_MAX; i++) {
		old = &s->links[i];
		if (!old->port[0] || !ft_pci_find(p, old->port) || pcie_link_find(v, n, old->port))
			continue;
		v[n] = *old;
		v[n++].absent = true;
	}
	free(s->links);
	s->links = v;
	s->nlinks = n;
	return 0;
}

static const struct pcie_aer *aer_find(const struct ft_pcie_src *s, const struct pcie_aer *key)
{
	for (size_t i = 0; i < s->naers; i++)
		if (s->aers[i].aer_class == key->aer_class &&
		    !strcmp(s->aers[i].device, key->device))
			return &s->aers[i];
	return NULL;
}

/* Of a link that is watched: a NIC on a root bus has none. */
static bool is_end(const struct ft_pcie_src *s, const struct ft_pci *p, const struct ft_pci_dev *d)
{
	struct pcie_link l;

	return d->on_path && d->physfn < 0 &&
	       (pcie_link_of(p, d, &l) || pcie_link_find(s->links, s->nlinks, d->bdf));
}

static int aers_make(struct ft_pcie_src *s, const struct ft_pci *p)
{
	struct pcie_aer *v = calloc(PCIE_AER_CLASSES * p->n + 1, sizeof(*v));
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < PCIE_AER_CLASSES * p->n && n < PCIE_FILES_MAX; i++) {
		const struct ft_pci_dev *d = &p->v[i / PCIE_AER_CLASSES];
		struct pcie_aer a = { .aer_class = i % PCIE_AER_CLASSES, .before = !s->attached };
		const struct pcie_aer *old;

		if (!is_end(s, p, d))
			continue;
		ft_strcpy(a.device, d->bdf, sizeof(a.device));
		old = aer_find(s, &a);
		v[n++] = old ? *old : a;
	}
	free(s->aers);
	s->aers = v;
	s->naers = n;
	return 0;
}

/* Takes the tree. */
int pcie_tree_take(struct ft_pcie_src *s, struct ft_pci *p)
{
	int err = links_make(s, p);

	if (!err)
		err = aers_make(s, p);
	if (err) {
		ft_pci_free(p);
		return err;
	}
	ft_pci_free(s->tree);
	s->tree = p;
	return 0;
}

int pcie_tree_scanned(struct ft_pcie_src *s)
{
	struct ft_pci *now = NULL;
	int err = pcie_scan_take(&s->scan, &now);

	if (err)
		return err;
	tell_removed(s, now);
	tell_added(s, now);
	return pcie_tree_take(s, now);
}
