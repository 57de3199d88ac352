// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <limits.h>

#include "host/fs.h"
#include "host/pci_parts.h"

/* --- small tables --- */
static const struct {
	const char *text;
	uint32_t gen;
	double gbytes; /* per lane and direction, after 8b/10b, 128b/130b or FLIT coding */
} gens[] = {
	{ "2.5 GT/s", 1, 0.25 },   { "5.0 GT/s", 2, 0.5 },    { "5 GT/s", 2, 0.5 },
	{ "8.0 GT/s", 3, 0.9846 }, { "8 GT/s", 3, 0.9846 },   { "16.0 GT/s", 4, 1.969 },
	{ "16 GT/s", 4, 1.969 },   { "32.0 GT/s", 5, 3.938 }, { "32 GT/s", 5, 3.938 },
	{ "64.0 GT/s", 6, 7.563 }, { "64 GT/s", 6, 7.563 },
};

static const struct {
	uint16_t vendor, class; /* class without programming interface */
} gpu_classes[] = {
	{ 0x10de, 0x0300 }, { 0x10de, 0x0302 }, { 0x1002, 0x0300 },
	{ 0x1002, 0x0302 }, { 0x1002, 0x0380 }, { 0x1002, 0x1200 },
};

#define DEPTH_MAX     32 /* ports above a device */
#define CLASS_NETWORK 0x02
#define CLASS_BRIDGE  0x0604
#define WIDTH_ONES    63 /* six bits, all set: a read of a device that is gone */

uint32_t ft_pci_gen(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(gens); i++) {
		size_t n = strlen(gens[i].text);

		/* " PCIe" follows since 5.10 */
		if (!strncmp(text, gens[i].text, n) &&
		    (!text[n] || text[n] == ' ' || text[n] == '\n'))
			return gens[i].gen;
	}
	return FT_NONE_U32;
}

double ft_pci_gbytes(struct ft_pci_link l)
{
	for (size_t i = 0; l.width != FT_NONE_U32 && i < ARRAY_SIZE(gens); i++)
		if (gens[i].gen == l.gen)
			return gens[i].gbytes * l.width;
	return 0;
}

const char *ft_pci_link_text(struct ft_pci_link l, char out[32])
{
	if (l.gen == FT_NONE_U32 && l.width == FT_NONE_U32)
		snprintf(out, 32, "unknown");
	else if (l.gen == FT_NONE_U32)
		snprintf(out, 32, "Gen? x%u", l.width);
	else if (l.width == FT_NONE_U32)
		snprintf(out, 32, "Gen%u x?", l.gen);
	else
		snprintf(out, 32, "Gen%u x%u", l.gen, l.width);
	return out;
}

/* --- reading --- */
static enum ft_pci_role role_of(const struct ft_pci_dev *d)
{
	for (size_t i = 0; i < ARRAY_SIZE(gpu_classes); i++)
		if (d->vendor == gpu_classes[i].vendor && d->class >> 8 == gpu_classes[i].class)
			return FT_PCI_GPU;
	return d->class >> 16 == CLASS_NETWORK ? FT_PCI_NIC : FT_PCI_OTHER;
}

static uint32_t read_hex(const char *root, const char *bdf, const char *name)
{
	char path[96];
	uint64_t v;

	ft_fmt(path, FT_PCI_DIR "/%s/%s", bdf, name);
	return ft_read_u64(root, path, &v) ? 0 : v;
}

/* Facts that the kernel keeps itself: no read of the device. */
static void dev_read(const char *root, const char *bdf, struct ft_pci_dev *d)
{
	const struct ft_pci_link unknown = { FT_NONE_U32, FT_NONE_U32 };
	char path[96], line[32];

	*d = (struct ft_pci_dev){ .parent = -1,
				  .physfn = -1,
				  .numa = FT_NONE_S32,
				  .gpu_index = FT_NONE_S32,
				  .now = unknown,
				  .max = unknown,
				  .target_gen = FT_NONE_U32,
				  .active = FT_NONE_U8,
				  .aer = FT_NONE_U8,
				  .dpc = FT_NONE_U8 };
	ft_strcpy(d->bdf, bdf, sizeof(d->bdf));
	d->class = read_hex(root, bdf, "class");
	d->vendor = read_hex(root, bdf, "vendor");
	d->device = read_hex(root, bdf, "device");
	d->role = role_of(d);
	/* -1 where the firmware does not say */
	ft_fmt(path, FT_PCI_DIR "/%s/numa_node", bdf);
	if (!ft_read_line(root, path, line, sizeof(line)) && line[0] != '-')
		d->numa = atoi(line);
}

static int by_bdf(const void *a, const void *b)
{
	const struct ft_pci_dev *x = a, *y = b;

	/* A longer domain (VMD: 10000) is a larger one. */
	if (strlen(x->bdf) != strlen(y->bdf))
		return strlen(x->bdf) < strlen(y->bdf) ? -1 : 1;
	return strcmp(x->bdf, y->bdf);
}

const struct ft_pci_dev *ft_pci_find(const struct ft_pci *p, const char *bdf)
{
	struct ft_pci_dev key = {};

	ft_strcpy(key.bdf, bdf, sizeof(key.bdf));
	return p->n ? bsearch(&key, p->v, p->n, sizeof(*p->v), by_bdf) : NULL;
}

static int find_index(const struct ft_pci *p, const char *bdf)
{
	const struct ft_pci_dev *d = ft_pci_find(p, bdf);

	return d ? d - p->v : -1;
}

/* The directory that holds a device's own is the port above it. */
static void link_parent(struct ft_pci *p, const char *root, struct ft_pci_dev *d)
{
	char path[96], full[PATH_MAX], real[PATH_MAX], base[32], *slash;

	ft_fmt(full, "%s" FT_PCI_DIR "/%s", root, d->bdf);
	if (realpath(full, real)) {
		slash = strrchr(real, '/');
		*slash = 0;
		slash = strrchr(real, '/');
		if (slash && ft_is_bdf(slash + 1))
			d->parent = find_index(p, slash + 1);
	}
	ft_fmt(path, FT_PCI_DIR "/%s/physfn", d->bdf);
	if (!ft_link_base(root, path, base, sizeof(base)))
		d->physfn = find_index(p, base);
}

static void mark_paths(struct ft_pci *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct ft_pci_dev *d = &p->v[i];
		int up = d->parent;

		for (d->depth = 0; up >= 0 && d->depth < DEPTH_MAX; up = p->v[up].parent)
			d->depth++;
		if (d->role == FT_PCI_OTHER)
			continue;
		d->on_path = true;
		if (d->physfn >= 0)
			p->v[d->physfn].on_path = true;
		up = d->parent;
		for (int n = 0; up >= 0 && n < 32; up = p->v[up].parent, n++)
			p->v[up].on_path = true;
	}
}

static uint32_t width_of(const char *text)
{
	char line[16];
	uint64_t v;

	ft_strcpy(line, text, sizeof(line));
	line[strcspn(line, "\n")] = 0;
	/* 0: no link, or a virtual function, whose registers are not its own */
	return ft_parse_u64(line, &v) || !v || v >= WIDTH_ONES ? FT_NONE_U32 : v;
}

static bool asleep(const char *root, const struct ft_pci_dev *d)
{
	char path[96], line[32];

	ft_fmt(path, FT_PCI_DIR "/%s/power/runtime_status", d->bdf);
	return !ft_read_line(root, path, line, sizeof(line)) && !strcmp(line, "suspended");
}

/* Live reads of the device's configuration space: they wait for it, and would wake it up. */
static void read_link(const char *root, int timeout_ms, struct ft_pci_dev *d)
{
	static const char *const names[] = { "current_link_speed", "current_link_width",
					     "max_link_speed", "max_link_width" };
	char dir[96], texts[ARRAY_SIZE(names)][FT_ATTR_TEXT];

	if (asleep(root, d)) {
		d->error = -EHOSTDOWN;
		return;
	}
	ft_fmt(dir, FT_PCI_DIR "/%s", d->bdf);
	d->error = ft_attrs_read(root, dir, names, ARRAY_SIZE(names), texts, timeout_ms);
	if (d->error)
		return;
	d->gone = atoi(texts[1]) >= WIDTH_ONES || atoi(texts[3]) >= WIDTH_ONES;
	if (d->gone)
		return;
	d->now = (struct ft_pci_link){ ft_pci_gen(texts[0]), width_of(texts[1]) };
	d->max = (struct ft_pci_link){ ft_pci_gen(texts[2]), width_of(texts[3]) };
	/* No lanes, no speed: the register keeps the last one. */
	if (d->now.width == FT_NONE_U32)
		d->now.gen = FT_NONE_U32;
}

/* NVIDIA's driver asks the GPU's firmware, and holds its lock while it recovers from an error. */
static void read_gpu(const char *root, int timeout_ms, struct ft_pci_dev *d)
{
	static const char *const names[] = { "information" };
	char dir[96], text[1][FT_ATTR_TEXT], value[16];
	uint64_t minor;

	ft_fmt(dir, "/proc/driver/nvidia/gpus/%s", d->bdf);
	if (d->vendor == 0x1002) {
		static const char *const product[] = { "product_name" };

		ft_fmt(dir, FT_PCI_DIR "/%s", d->bdf);
		d->gpu_error = ft_attrs_read(root, dir, product, 1, text, timeout_ms);
		if (!d->gpu_error)
			ft_strcpy(d->gpu_name, text[0],
				  MIN(sizeof(d->gpu_name), strcspn(text[0], "\n") + 1));
		return;
	}
	d->gpu_error = ft_attrs_read(root, dir, names, 1, text, timeout_ms);
	if (d->gpu_error)
		return;
	if (!text[0][0])
		d->gpu_error = -ENOENT;
	ft_line_value(text[0], "Model", d->gpu_name, sizeof(d->gpu_name));
	ft_line_value(text[0], "GPU UUID", d->gpu_uuid, sizeof(d->gpu_uuid));
	if (ft_line_value(text[0], "Device Minor", value, sizeof(value)) &&
	    !ft_parse_u64(value, &minor))
		d->gpu_index = minor;
}

/* A root port or a switch's lower port; or a device whose port is out of sight. */
static bool is_upper_end(const struct ft_pci_dev *d)
{
	if (d->class >> 8 == CLASS_BRIDGE)
		return d->on_path && d->depth % 2 == 0;
	return d->on_path && d->parent < 0 && d->max.width != FT_NONE_U32;
}

static void dev_ask(const struct ft_pci *p, const char *root, int timeout_ms, struct ft_pci_dev *d)
{
	/* A virtual function has the link of its physical one, which was asked before. */
	if (d->physfn >= 0) {
		d->error = p->v[d->physfn].error;
		d->gone = p->v[d->physfn].gone;
		return;
	}
	if (d->on_path)
		read_link(root, timeout_ms, d);
	if (is_upper_end(d) && !d->error && !d->gone)
		pci_config_read(root, timeout_ms, d);
	if (d->role == FT_PCI_GPU)
		read_gpu(root, timeout_ms, d);
}

static int tree_read(struct ft_pci *p, const char *root, int timeout_ms)
{
	_cleanup_names_ struct ft_names names = {};
	int err = ft_names_read(root, FT_PCI_DIR, &names);

	if (err == -ENOENT)
		return 0;
	if (err)
		return err;
	p->v = calloc(MAX(names.n, (size_t)1), sizeof(*p->v));
	if (!p->v)
		return -ENOMEM;
	for (size_t i = 0; i < names.n; i++)
		if (ft_is_bdf(names.v[i]))
			dev_read(root, names.v[i], &p->v[p->n++]);
	qsort(p->v, p->n, sizeof(*p->v), by_bdf);
	for (size_t i = 0; i < p->n; i++)
		link_parent(p, root, &p->v[i]);
	mark_paths(p);
	pci_services_read(p, root);
	pci_slots_read(p, root);
	for (size_t i = 0; i < p->n; i++)
		dev_ask(p, root, timeout_ms, &p->v[i]);
	return 0;
}

int ft_pci_read(const char *root, int timeout_ms, struct ft_pci **out)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = calloc(1, sizeof(*p));
	int err = p ? tree_read(p, root, timeout_ms) : -ENOMEM;

	if (!err)
		*out = ft_take_ptr(p);
	return err;
}

void ft_pci_free(struct ft_pci *p)
{
	if (!p)
		return;
	free(p->v);
	free(p);
}

const struct ft_pci_dev *ft_pci_gpu(const struct ft_pci *p, int32_t index)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].role == FT_PCI_GPU && p->v[i].gpu_index == index && index >= 0)
			return &p->v[i];
	return NULL;
}

/* --- links --- */
static uint32_t min_known(uint32_t a, uint32_t b)
{
	/* Unknown is the largest number: with one end unknown, so is the minimum. */
	return a == FT_NONE_U32 || b == FT_NONE_U32 ? FT_NONE_U32 : MIN(a, b);
}

static struct ft_pci_link link_min(struct ft_pci_link a, struct ft_pci_link b)
{
	return (struct ft_pci_link){ min_known(a.gen, b.gen), min_known(a.width, b.width) };
}

bool ft_pci_hop(const struct ft_pci *p, const struct ft_pci_dev *d, struct ft_pci_hop *out)
{
	const struct ft_pci_link unknown = { FT_NONE_U32, FT_NONE_U32 };
	const struct ft_pci_dev *self = d->physfn >= 0 ? &p->v[d->physfn] : d;

	/*
	 * Root port, link, switch's upper port, (inside the switch), its lower port, link, device:
	 * links lead to devices with an odd number of ports above. A device on a root bus with link
	 * registers of its own was handed to a virtual machine without its port.
	 */
	if (d->depth % 2 == 0 &&
	    (d->depth || self->max.width == FT_NONE_U32 || d->class >> 16 == 0x06))
		return false;
	*out = (struct ft_pci_hop){ .device = d, .now = self->now, .possible = unknown };
	if (d->parent >= 0) {
		out->port = &p->v[d->parent];
		out->possible = link_min(out->port->max, self->max);
	}
	return true;
}

bool ft_pci_hop_tells_active(const struct ft_pci_hop *hop)
{
	bool answers = !hop->device->gone && !hop->device->error;

	return hop->port && hop->port->tells_active && (hop->port->active || !answers);
}

bool ft_pci_hop_hides(const struct ft_pci_hop *hop)
{
	const struct ft_pci_dev *d = hop->device;

	return d->physfn < 0 && !d->error && !d->gone && d->now.width == FT_NONE_U32 &&
	       d->max.width != FT_NONE_U32;
}

size_t ft_pci_path(const struct ft_pci *p, const struct ft_pci_dev *d, struct ft_pci_hop *hops,
		   size_t max)
{
	size_t n = 0;

	/* A captured tree may go in a circle. */
	for (int up = 0; n < max && up <= DEPTH_MAX; up++) {
		n += ft_pci_hop(p, d, &hops[n]);
		if (d->parent < 0)
			break;
		d = &p->v[d->parent];
	}
	return n;
}

static bool link_known(struct ft_pci_link l)
{
	return l.gen != FT_NONE_U32 && l.width != FT_NONE_U32;
}

void ft_pci_path_sum(const struct ft_pci *p, const struct ft_pci_dev *d, struct ft_pci_path *out)
{
	const struct ft_pci_link unknown = { FT_NONE_U32, FT_NONE_U32 };
	struct ft_pci_path sum = { .now = unknown, .possible = unknown };
	struct ft_pci_hop hops[FT_PCI_HOPS];
	bool now_known = true, possible_known = true;

	sum.hops = ft_pci_path(p, d, hops, FT_PCI_HOPS);
	for (size_t i = 0; i < sum.hops; i++) {
		now_known &= link_known(hops[i].now);
		possible_known &= link_known(hops[i].possible);
		/* Among equals the one next to the device: it carries this device alone. */
		if (link_known(hops[i].now) &&
		    (!sum.slowest.device ||
		     ft_pci_gbytes(hops[i].now) < ft_pci_gbytes(sum.slowest.now)))
			sum.slowest = hops[i];
		if (link_known(hops[i].possible) &&
		    (!link_known(sum.possible) ||
		     ft_pci_gbytes(hops[i].possible) < ft_pci_gbytes(sum.possible)))
			sum.possible = hops[i].possible;
	}
	if (now_known && sum.slowest.device)
		sum.now = sum.slowest.now;
	if (!possible_known)
		sum.possible = unknown;
	sum.below = sum.slowest.device && link_known(sum.slowest.possible) &&
		    ft_pci_gbytes(sum.slowest.now) < ft_pci_gbytes(sum.slowest.possible);
	*out = sum;
}
