// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <fcntl.h>

#include "source/pcie_poll.h"
#include "source/pcie_scan.h"

#define ANSWER_MS 200 /* of each device */

struct pcie_scan {
	char *root;
	int pipe, err;
	struct ft_pci *tree;
	bool done;
	int holders; /* the main loop and the thread */
};

static void scan_put(struct pcie_scan *s)
{
	if (__atomic_sub_fetch(&s->holders, 1, __ATOMIC_ACQ_REL))
		return;
	ft_pci_free(s->tree);
	ft_closep(&s->pipe);
	free(s->root);
	free(s);
}

static void *scan_run(void *arg)
{
	struct pcie_scan *s = arg;
	struct pcie_msg m = { .what = PCIE_SCANNED };
	ssize_t n;

	s->err = ft_pci_read(s->root, ANSWER_MS, &s->tree);
	__atomic_store_n(&s->done, true, __ATOMIC_RELEASE);
	/* It only hurries: with a full pipe the next tick finds it done. */
	n = write(s->pipe, &m, sizeof(m));
	(void)n;
	scan_put(s);
	return NULL;
}

int pcie_scan_start(struct pcie_scan **out, const char *root, int pipe)
{
	struct pcie_scan *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct pcie_scan){ .root = strdup(root), .holders = 2 };
	s->pipe = fcntl(pipe, F_DUPFD_CLOEXEC, 3);
	err = !s->root ? -ENOMEM : s->pipe < 0 ? -errno : ft_thread_start(scan_run, s);
	if (err) {
		scan_put(s);
		scan_put(s);
		return err;
	}
	*out = s;
	return 0;
}

bool pcie_scan_done(const struct pcie_scan *s)
{
	return s && __atomic_load_n(&s->done, __ATOMIC_ACQUIRE);
}

int pcie_scan_take(struct pcie_scan **s, struct ft_pci **out)
{
	int err = (*s)->err;

	if (!err)
		*out = ft_take_ptr((*s)->tree);
	pcie_scan_drop(s);
	return err;
}

void pcie_scan_drop(struct pcie_scan **s)
{
	if (*s)
		scan_put(*s);
	*s = NULL;
}
