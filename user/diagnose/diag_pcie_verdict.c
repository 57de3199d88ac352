// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What the verdict says of PCIe links that are not at fault, of those not judged, and of users. */
#include "diagnose/internal.h"

/* Without a link there is no speed to know. */
static bool is_known(const struct plink *pl)
{
	const struct ft_pci_link *n = &pl->now, *p = &pl->possible;

	return pl->info && n->width != FT_NONE_U32 && (!n->width || n->gen != FT_NONE_U32) &&
	       p->width != FT_NONE_U32 && p->gen != FT_NONE_U32;
}

unsigned int plinks_all(const struct ft_diag *d)
{
	unsigned int n = 0;

	for (const struct plink *pl = d->plinks; pl; pl = pl->hh.next)
		n += pl->info != NULL;
	return n;
}

unsigned int plinks_known(const struct ft_diag *d)
{
	unsigned int n = 0;

	for (const struct plink *pl = d->plinks; pl; pl = pl->hh.next)
		n += is_known(pl);
	return n;
}

unsigned int plinks_aer(const struct ft_diag *d)
{
	unsigned int n = 0;

	for (const struct plink *pl = d->plinks; pl; pl = pl->hh.next)
		n += pl->info && !pl->info->no_aer;
	return n;
}

/* Also where it is part of a link's incident of a stronger kind. */
bool pcie_found(const struct ft_diag *d, enum rule_id rule)
{
	for (const struct plink *pl = d->plinks; pl; pl = pl->hh.next) {
		/* Xid 79 is "gone". */
		if (rule == R_XID && pl->xids[0].n)
			return true;
		for (int i = 0; i < A_MAX; i++)
			if (aspect_rule[i] == rule && pl->aspects[i].confidence)
				return true;
	}
	return false;
}

/* "0 errors on 16", or how many below the threshold. */
static void errors_words(const struct ft_diag *d, char *out, size_t size)
{
	uint64_t n = 0;

	for (const struct plink *pl = d->plinks; pl; pl = pl->hh.next)
		for (int cls = 0; cls < 3; cls++)
			n += plink_errors(pl, 0, cls) + plink_errors(pl, 1, cls);
	if (n)
		snprintf(out, size, "%llu AER error%s (few, or while a link trained)",
			 (unsigned long long)n, ft_plural(n, "s"));
	else
		snprintf(out, size, "0 AER errors");
}

/* What is slower and no fault was idle, or is among the blind spots. */
void pcie_clean(const struct ft_diag *d, bool errors_watched, char *out, size_t size)
{
	unsigned int n = plinks_known(d), aer = plinks_aer(d), low = 0, resets = 0;
	uint64_t idle = 0;
	char errors[80] = "", more[80] = "";

	for (const struct plink *pl = d->plinks; pl; pl = pl->hh.next) {
		low += is_known(pl) && pcie_is_degraded(pl);
		idle += pl->idle_transitions;
		resets += pl->resets;
	}
	if (errors_watched)
		errors_words(d, errors, sizeof(errors));
	if (errors_watched && (aer != n || plinks_all(d) != n))
		snprintf(errors + strlen(errors), sizeof(errors) - strlen(errors), " on %u of %u",
			 aer, plinks_all(d));
	if (idle)
		ft_fmt(more, ", %llu speed change%s of idle GPUs", (unsigned long long)idle,
		       ft_plural(idle, "s"));
	if (resets)
		snprintf(more + strlen(more), sizeof(more) - strlen(more), ", %u reset%s", resets,
			 ft_plural(resets, "s"));
	if (low)
		snprintf(out, size, "PCIe: %u of %u links at full speed%s%s%s", n - low, n,
			 errors[0] ? ", " : "", errors, more);
	else
		snprintf(out, size, "PCIe: %u link%s at full speed%s%s%s", n, ft_plural(n, "s"),
			 errors[0] ? ", " : "", errors, more);
}

void pcie_clean_errors(const struct ft_diag *d, char *out, size_t size)
{
	unsigned int n = plinks_all(d), aer = plinks_aer(d);
	char errors[80], some[16] = "";

	errors_words(d, errors, sizeof(errors));
	if (aer < n)
		ft_fmt(some, "%u of ", aer);
	snprintf(out, size, "PCIe errors: %s on %s%u link%s", errors, some, n, ft_plural(n, "s"));
}

void pcie_blind(const struct ft_diag *d, struct lines *l)
{
	unsigned int n = plinks_all(d), no_aer = n - plinks_aer(d), asleep = 0, unjudged = 0;
	unsigned int unknown = n - plinks_known(d);
	const struct plink *one = NULL;
	char name[160], now[32], full[32];
	uint64_t since;

	for (const struct plink *pl = d->plinks; pl; pl = pl->hh.next) {
		asleep += pl->info && pl->info->asleep;
		unknown -= pl->info && pl->info->asleep && !is_known(pl);
		if (!pl->info || !pcie_is_degraded(pl) || pl->aspects[A_SLOW].confidence ||
		    plink_busy(d, pl, &since) != -1)
			continue;
		unjudged++;
		one = one ? one : pl;
	}
	if (no_aer && no_aer < n)
		lines_add(l,
			  "PCIe errors on %u of %u links: the kernel does not handle AER there "
			  "(the firmware does, or nobody)",
			  no_aer, n);
	if (unknown && plinks_known(d))
		lines_add(l,
			  "%u PCIe link%s whose speed or width is not known, now or at best: not "
			  "judged",
			  unknown, ft_plural(unknown, "s"));
	if (asleep)
		lines_add(l,
			  "%u PCIe link%s of a suspended device: not read, that would wake it up",
			  asleep, ft_plural(asleep, "s"));
	if (!one)
		return;
	plink_name(one, false, name, sizeof(name));
	lines_add(l,
		  "%u PCIe link%s below full speed and not judged: whether the GPU is idle is not "
		  "known (%.100s: %s of %s)",
		  unjudged, ft_plural(unjudged, "s"), name, ft_pci_link_text(one->now, now),
		  ft_pci_link_text(one->possible, full));
}

/* Where no rank is known. */
void pcie_users(const struct ft_diag *d, const struct finding *f, char *out, size_t size)
{
	const struct ft_attr *a = &f->link->attr;
	const struct dproc *p = a->user_pid ? dproc_find(d, a->user_pid) : NULL;

	out[0] = 0;
	if (f->nranks && a->truncated && a->ranks_all > f->nranks) {
		_cleanup_buf_ struct ft_buf b = {};

		ranks_name(&b, f->ranks, f->nranks, false);
		snprintf(out, size,
			 "%s and more (%d of %u) directly, by the devices below the link",
			 b.s ? b.s : "", f->nranks, a->ranks_all);
	} else if (!f->nranks && a->users) {
		snprintf(out, size,
			 "pid %u (%s)%s, whose rank is not known, by the device that it uses",
			 a->user_pid, p ? p->task : "?", a->users > 1 ? " and others" : "");
	} else if (!f->nranks) {
		snprintf(out, size, "not known: no process is traced");
	}
}
