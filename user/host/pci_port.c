// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Ports of the PCI tree: their registers, the kernel's services on them, the slots below. */
#include <fcntl.h>
#include <limits.h>

#include "host/fs.h"
#include "host/pci_parts.h"

#define SERVICE_DIR "/sys/bus/pci_express/devices"
#define SLOT_DIR    "/sys/bus/pci/slots"

/* --- services --- */
/* The low byte of the number in "0000:10:01.0:pcie002"; above it is the kind of port. */
#define SERVICE_AER 0x02
#define SERVICE_DPC 0x08

static struct ft_pci_dev *find(struct ft_pci *p, const char *bdf)
{
	return (struct ft_pci_dev *)ft_pci_find(p, bdf);
}

static void service_add(struct ft_pci *p, const char *root, const char *name)
{
	const char *colon = strrchr(name, ':');
	char path[128], bdf[16], driver[64];
	struct ft_pci_dev *d;
	unsigned int id;

	if (!colon || sscanf(colon, ":pcie%x", &id) != 1)
		return;
	ft_strcpy(bdf, name, MIN(sizeof(bdf), (size_t)(colon - name) + 1));
	d = find(p, bdf);
	/* Offered is not taken: a driver may have failed on it. */
	ft_fmt(path, SERVICE_DIR "/%s/driver", name);
	if (!d || ft_link_base(root, path, driver, sizeof(driver)))
		return;
	if (id & SERVICE_AER)
		d->aer = 1;
	if (id & SERVICE_DPC)
		d->dpc = 1;
}

void pci_services_read(struct ft_pci *p, const char *root)
{
	_cleanup_names_ struct ft_names names = {};

	if (ft_names_read(root, SERVICE_DIR, &names))
		return;
	for (size_t i = 0; i < p->n; i++)
		p->v[i].aer = p->v[i].dpc = 0;
	for (size_t i = 0; i < names.n; i++)
		service_add(p, root, names.v[i]);
}

/*
 * Messages of errors go up to the root port. Who does not grant AER in _OSC (firmware first) leaves
 * it without this service.
 */
uint8_t ft_pci_os_aer(const struct ft_pci *p, const struct ft_pci_dev *port)
{
	for (int n = 0; port && port->parent >= 0 && n < 32; n++)
		port = &p->v[port->parent];
	return port ? port->aer : FT_NONE_U8;
}

/* --- slots --- */
/* "0000:41:00", or "0000:41" for all of a bus */
static bool is_at(const struct ft_pci_dev *d, const char *address)
{
	size_t len = strlen(address);

	return len && !strncmp(d->bdf, address, len) && (d->bdf[len] == '.' || d->bdf[len] == ':');
}

void pci_slots_read(struct ft_pci *p, const char *root)
{
	_cleanup_names_ struct ft_names names = {};

	if (ft_names_read(root, SLOT_DIR, &names))
		return;
	for (size_t i = 0; i < names.n; i++) {
		char path[PATH_MAX], address[16];

		ft_fmt(path, SLOT_DIR "/%s/address", names.v[i]);
		if (ft_read_line(root, path, address, sizeof(address)))
			continue;
		for (size_t k = 0; k < p->n; k++)
			if (is_at(&p->v[k], address))
				ft_strcpy(p->v[k].slot, names.v[i], sizeof(p->v[k].slot));
	}
}

/* --- registers --- */
#define PCI_STATUS	   0x06
#define PCI_STATUS_CAPS	   0x0010
#define PCI_CAPS	   0x34
#define PCI_CAPS_MAX	   48
#define PCI_CAP_ID_EXPRESS 0x10
#define EXP_FLAGS	   0x02
#define EXP_FLAGS_VERSION  0x000f
#define EXP_LNKCAP	   0x0c
#define EXP_LNKCAP_ACTIVE  0x00100000
#define EXP_LNKCTL2_TARGET 0x000f

struct config_job {
	char path[PATH_MAX];
	uint16_t cap, status, control2;
	uint32_t abilities;
	bool has_control2;
};

static int get(int fd, void *out, size_t size, off_t pos)
{
	ssize_t n = pread(fd, out, size, pos);

	if (n < 0)
		return -errno;
	/* The kernel ends the file after 64 bytes for all without CAP_SYS_ADMIN. */
	return (size_t)n == size ? 0 : -EPERM;
}

/* Register by register: some chips hang on reads of what is not defined. */
static int express_find(int fd, uint16_t *cap)
{
	uint16_t status, head;
	uint8_t pos;
	int err = get(fd, &status, 2, PCI_STATUS);

	if (!err && status == 0xffff)
		return -ENODEV;
	if (!err && !(status & PCI_STATUS_CAPS))
		return -ENOENT;
	if (!err)
		err = get(fd, &pos, 1, PCI_CAPS);
	for (int i = 0; !err && pos >= 0x40 && i < PCI_CAPS_MAX; i++, pos = head >> 8) {
		pos &= 0xfc;
		err = get(fd, &head, 2, pos);
		if (err || head == 0xffff)
			return err ? err : -ENODEV;
		if ((head & 0xff) == PCI_CAP_ID_EXPRESS) {
			*cap = pos;
			return 0;
		}
	}
	return err ? err : -ENOENT;
}

static int config_run(void *arg)
{
	struct config_job *j = arg;
	_cleanup_close_ int fd = open(j->path, O_RDONLY | O_CLOEXEC);
	uint16_t flags;
	int err = fd < 0 ? -errno : express_find(fd, &j->cap);

	if (!err)
		err = get(fd, &flags, 2, j->cap + EXP_FLAGS);
	if (!err)
		err = get(fd, &j->abilities, 4, j->cap + EXP_LNKCAP);
	if (!err)
		err = get(fd, &j->status, 2, j->cap + FT_PCI_LNKSTA);
	if (!err && (flags & EXP_FLAGS_VERSION) >= 2) {
		err = get(fd, &j->control2, 2, j->cap + FT_PCI_LNKCTL2);
		j->has_control2 = !err;
	}
	return !err && j->status == 0xffff ? -ENODEV : err;
}

uint32_t ft_pci_target(uint16_t control2)
{
	uint32_t gen = control2 & EXP_LNKCTL2_TARGET;

	return gen >= 1 && gen <= 6 ? gen : FT_NONE_U32;
}

void pci_config_read(const char *root, int timeout_ms, struct ft_pci_dev *d)
{
	struct config_job *j = calloc(1, sizeof(*j));

	if (!j) {
		d->config_error = -ENOMEM;
		return;
	}
	ft_fmt(j->path, "%s" FT_PCI_DIR "/%s/config", root, d->bdf);
	d->config_error = ft_worker_call(config_run, free, j, timeout_ms);
	if (d->config_error == -ETIMEDOUT)
		return; /* the thread frees it */
	if (!d->config_error) {
		d->cap = j->cap;
		d->tells_active = j->abilities & EXP_LNKCAP_ACTIVE;
		if (d->tells_active)
			d->active = !!(j->status & FT_PCI_LNKSTA_DLLLA);
		if (j->has_control2)
			d->target_gen = ft_pci_target(j->control2);
	}
	free(j);
}

struct ft_pci_link ft_pci_lnksta(uint16_t status)
{
	uint32_t gen = status & FT_PCI_LNKSTA_SPEED, width = (status & FT_PCI_LNKSTA_WIDTH) >> 4;

	return (struct ft_pci_link){ gen >= 1 && gen <= 6 ? gen : FT_NONE_U32, width };
}
