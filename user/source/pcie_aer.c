// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "host/fs.h"
#include "source/pcie_aer.h"

#define TEXT_MAX 2048

static const char *const classes[PCIE_AER_CLASSES] = { "nonfatal", "fatal", "correctable" };

void pcie_aer_path(const struct pcie_aer *a, char out[128])
{
	snprintf(out, 128, FT_PCI_DIR "/%s/aer_dev_%s", a->device, classes[a->aer_class]);
}

static void emit_growth(const struct pcie_aer *a, const char *name, uint64_t total, uint64_t delta,
			uint64_t ts_ns, const struct ft_emit *emit)
{
	struct ft_ev_pcie_counter *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_pcie_counter, ts_ns);
	e->total = total;
	e->delta = delta;
	e->aer_class = a->aer_class;
	e->before = a->before && !a->known;
	ft_strcpy(e->device, a->device, sizeof(e->device));
	/* The longest name fills the field: PoisonTLPBlocked. */
	memcpy(e->error, name, strnlen(name, sizeof(e->error)));
	ft_emit(emit, &rec);
}

/* By name: bits without one have a line only when they were seen. NULL: no room. */
static uint64_t *value_of(struct pcie_aer *a, const char *name)
{
	for (size_t i = 0; i < a->n; i++)
		if (!strcmp(a->v[i].name, name))
			return &a->v[i].value;
	if (a->n == PCIE_AER_NAMES)
		return NULL;
	ft_strcpy(a->v[a->n].name, name, sizeof(a->v[a->n].name));
	return &a->v[a->n++].value;
}

/* "RxErr 0", and last "TOTAL_ERR_COR 0", which is their sum. */
static void take_line(struct pcie_aer *a, const char *line, uint64_t ts_ns,
		      const struct ft_emit *emit)
{
	unsigned long long total;
	uint64_t *value, delta;
	char name[24];

	if (sscanf(line, "%23s %llu", name, &total) != 2 || !strncmp(name, "TOTAL_", 6))
		return;
	value = value_of(a, name);
	if (!value || *value == total)
		return;
	/* Less than before: another device at the same address, which counts from 0. */
	delta = total > *value ? total - *value : total;
	*value = total;
	if (delta)
		emit_growth(a, name, total, delta, ts_ns, emit);
}

void pcie_aer_read(struct pcie_aer *a, const char *root, uint64_t ts_ns, const struct ft_emit *emit)
{
	_cleanup_free_ char *text = NULL;
	char path[128], *save = NULL;

	pcie_aer_path(a, path);
	if (ft_head_read(root, path, TEXT_MAX, &text) < 0)
		return;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		take_line(a, line, ts_ns, emit);
	a->known = true;
}
