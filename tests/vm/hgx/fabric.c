// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What hardware does by itself: links, slots, error messages. */
#include "hgx.h"

static u16 link_status(const struct hgx_fn *f)
{
	return hgx_get16(f, HGX_EXP + PCI_EXP_LNKSTA);
}

struct hgx_fn *hgx_port_of(struct hgx_fn *f)
{
	if (hgx_has_link_below(f))
		return f;
	/* A lower port and its upper one are inside one switch: no link between them. */
	return f->up && f->up->down == f ? f->up : NULL;
}

/* Sets speed and width of one end. */
static void set_end(struct hgx_fn *f, unsigned int gen, unsigned int width)
{
	hgx_change16(f, HGX_EXP + PCI_EXP_LNKSTA, gen | width << 4,
		     PCI_EXP_LNKSTA_CLS | PCI_EXP_LNKSTA_NLW);
}

/* The data link layer comes up or goes down; a slot tells it. */
static void set_active(struct hgx_fn *port, bool active)
{
	if (!(link_status(port) & PCI_EXP_LNKSTA_DLLLA) == !active)
		return;
	hgx_change16(port, HGX_EXP + PCI_EXP_LNKSTA, active ? PCI_EXP_LNKSTA_DLLLA : 0,
		     PCI_EXP_LNKSTA_DLLLA);
	if (port->slot)
		hgx_change16(port, HGX_EXP + PCI_EXP_SLTSTA, PCI_EXP_SLTSTA_DLLSC, 0);
}

int hgx_link_set(struct hgx_fn *port, unsigned int gen, unsigned int width, enum hgx_ends ends)
{
	if (!port || gen > 6 || width > 32 || !gen != !width)
		return -EINVAL;
	port->down->changes++;
	set_active(port, gen);
	/* Without a link the speed stays the last one, and there are no lanes. */
	if (!gen)
		gen = link_status(port) & PCI_EXP_LNKSTA_CLS;
	if (ends & HGX_PORT)
		set_end(port, gen, width);
	if (ends & HGX_DEVICE)
		set_end(port->down, gen, width);
	hgx_interrupt(port);
	return 0;
}

void hgx_link_bits(struct hgx_fn *f, u16 set, u16 clear)
{
	hgx_change16(f, HGX_EXP + PCI_EXP_LNKSTA, set, clear);
	hgx_interrupt(f);
}

static unsigned int max_gen(const struct hgx_fn *f)
{
	return hgx_get32(f, HGX_EXP + PCI_EXP_LNKCAP) & PCI_EXP_LNKCAP_SLS;
}

static unsigned int max_width(const struct hgx_fn *f)
{
	return (hgx_get32(f, HGX_EXP + PCI_EXP_LNKCAP) & PCI_EXP_LNKCAP_MLW) >> 4;
}

int hgx_link_train(struct hgx_fn *port)
{
	struct hgx_fn *f = port ? port->down : NULL;

	return f ? hgx_link_set(port, min(max_gen(port), max_gen(f)),
				min(max_width(port), max_width(f)), HGX_BOTH)
		 : -EINVAL;
}

/* On command: to the target speed, as far as both ends can; the width stays. */
void hgx_retrain(struct hgx_fn *port)
{
	unsigned int gen = hgx_get16(port, HGX_EXP + PCI_EXP_LNKCTL2) & PCI_EXP_LNKCTL2_TLS;

	if (!(link_status(port) & PCI_EXP_LNKSTA_DLLLA))
		return;
	gen = min3(gen, max_gen(port), max_gen(port->down));
	hgx_link_set(port, gen, (link_status(port) & PCI_EXP_LNKSTA_NLW) >> 4, HGX_BOTH);
	hgx_link_bits(port, PCI_EXP_LNKSTA_LBMS, 0);
}

/* A device that comes is as after its power-on; its capabilities are kept. */
static void power_on(struct hgx_fn *f)
{
	unsigned int gen = max_gen(f), width = max_width(f);

	hgx_fn_reset(f);
	hgx_set_cap(f, gen, width);
	f->gone = false;
}

int hgx_plug(struct hgx_fn *f, bool in)
{
	struct hgx_fn *port = hgx_port_of(f);

	if (!port || !port->slot)
		return -EINVAL;
	f = port->down;
	if (!(hgx_get16(port, HGX_EXP + PCI_EXP_SLTSTA) & PCI_EXP_SLTSTA_PDS) == !in)
		return -EALREADY;
	hgx_change16(port, HGX_EXP + PCI_EXP_SLTSTA,
		     PCI_EXP_SLTSTA_PDC | (in ? PCI_EXP_SLTSTA_PDS : 0), PCI_EXP_SLTSTA_PDS);
	if (!in)
		return hgx_link_set(port, 0, 0, HGX_PORT);
	power_on(f);
	return hgx_link_train(port);
}

/* --- errors --- */
static struct hgx_fn *root_of(struct hgx_fn *f)
{
	while (f->up)
		f = f->up;
	return f;
}

/* Of a status, what the function sends a message for: not masked, its class enabled. */
static u32 reported(const struct hgx_fn *f, bool cor, u32 status, u16 class)
{
	u32 mask = hgx_get32(f, HGX_AER + (cor ? PCI_ERR_COR_MASK : PCI_ERR_UNCOR_MASK));

	/* 5.10 enables ports only. */
	return hgx_get16(f, HGX_EXP + PCI_EXP_DEVCTL) & class ? status & ~mask : 0;
}

bool hgx_aer_ready(struct hgx_fn *f, bool cor, bool stays)
{
	u32 status = hgx_get32(f, HGX_AER + (cor ? PCI_ERR_COR_STATUS : PCI_ERR_UNCOR_STATUS));
	u16 classes = cor ? PCI_EXP_DEVCTL_CERE : PCI_EXP_DEVCTL_NFERE | PCI_EXP_DEVCTL_FERE;

	return !hgx_get32(root_of(f), HGX_AER + PCI_ERR_ROOT_STATUS) &&
	       (stays || !reported(f, cor, status, classes));
}

/* A message arrives at the root port: the first one's source is kept, others are counted as many. */
static void root_receive(struct hgx_fn *root, u16 source, bool cor, bool fatal)
{
	const int at = HGX_AER + PCI_ERR_ROOT_STATUS;
	u32 status = hgx_get32(root, at);
	u32 first = cor ? PCI_ERR_ROOT_COR_RCV : PCI_ERR_ROOT_UNCOR_RCV;

	if (status & first) {
		status |= cor ? PCI_ERR_ROOT_MULTI_COR_RCV : PCI_ERR_ROOT_MULTI_UNCOR_RCV;
	} else {
		hgx_put16(root, HGX_AER + PCI_ERR_ROOT_ERR_SRC + (cor ? 0 : 2), source);
		status |= first | (fatal ? PCI_ERR_ROOT_FIRST_FATAL : 0);
	}
	if (!cor)
		status |= fatal ? PCI_ERR_ROOT_FATAL_RCV : PCI_ERR_ROOT_NONFATAL_RCV;
	hgx_put32(root, at, status);
	hgx_interrupt(root);
}

static void log_header(struct hgx_fn *f, u32 status, const u32 header[4])
{
	const int at = HGX_AER + PCI_ERR_CAP;

	hgx_put32(f, at, (hgx_get32(f, at) & ~PCI_ERR_CAP_FEP(~0u)) | __ffs(status));
	for (int i = 0; i < 4; i++)
		hgx_put32(f, HGX_AER + PCI_ERR_HEADER_LOG + 4 * i, header[i]);
}

/* Status is kept in any case. */
int hgx_aer(struct hgx_fn *f, bool cor, u32 status, const u32 header[4])
{
	int at = HGX_AER + (cor ? PCI_ERR_COR_STATUS : PCI_ERR_UNCOR_STATUS);
	bool fatal = !cor && status & hgx_get32(f, HGX_AER + PCI_ERR_UNCOR_SEVER);
	/* Device Control and Device Status have the same bits: correctable, non-fatal, fatal. */
	u16 class = cor ? PCI_EXP_DEVCTL_CERE : fatal ? PCI_EXP_DEVCTL_FERE : PCI_EXP_DEVCTL_NFERE;
	u32 known;

	memcpy(&known, f->w1c + at, sizeof(known));
	if (!status || status & ~known)
		return -EINVAL;
	if (!cor && !hgx_get32(f, at))
		log_header(f, status, header);
	hgx_put32(f, at, hgx_get32(f, at) | status);
	hgx_change16(f, HGX_EXP + PCI_EXP_DEVSTA, class, 0);
	if (!reported(f, cor, status, class))
		return 0;
	f->messages++;
	root_receive(root_of(f), f->bus << 8 | PCI_DEVFN(f->dev, 0), cor, fatal);
	return 0;
}
