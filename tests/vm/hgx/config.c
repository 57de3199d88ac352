// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The functions, their registers, and what reads and writes of the kernel do to them. */
#include <linux/irq.h>
#include <linux/vmalloc.h>

#include "hgx.h"

#define FIRST_SLOT  11		  /* those before are QEMU's */
#define LINK_SPEEDS GENMASK(5, 1) /* Gen1 to Gen5, in Link Capabilities 2 */

struct hgx_fn *hgx_fns;
int hgx_count;
DEFINE_RAW_SPINLOCK(hgx_lock);

static const struct {
	u16 vendor, device, subvendor, subdevice;
	u32 class;
	u8 type;
} ids[] = {
	[HGX_ROOT] = { 0x8086, 0x352a, 0, 0, 0x060400, PCI_EXP_TYPE_ROOT_PORT },
	[HGX_UP] = { 0x1000, 0xc030, 0, 0, 0x060400, PCI_EXP_TYPE_UPSTREAM },
	[HGX_DOWN] = { 0x1000, 0xc030, 0, 0, 0x060400, PCI_EXP_TYPE_DOWNSTREAM },
	[HGX_GPU] = { 0x10de, 0x2330, 0x10de, 0x16c1, 0x030200, PCI_EXP_TYPE_ENDPOINT },
	[HGX_NIC] = { 0x15b3, 0x1021, 0x15b3, 0x0041, 0x020000, PCI_EXP_TYPE_ENDPOINT },
};

/* --- registers; x86 has their byte order --- */
u16 hgx_get16(const struct hgx_fn *f, int where)
{
	u16 val;

	memcpy(&val, f->cfg + where, sizeof(val));
	return val;
}

u32 hgx_get32(const struct hgx_fn *f, int where)
{
	u32 val;

	memcpy(&val, f->cfg + where, sizeof(val));
	return val;
}

void hgx_put16(struct hgx_fn *f, int where, u16 val)
{
	memcpy(f->cfg + where, &val, sizeof(val));
}

void hgx_put32(struct hgx_fn *f, int where, u32 val)
{
	memcpy(f->cfg + where, &val, sizeof(val));
}

void hgx_change16(struct hgx_fn *f, int where, u16 set, u16 clear)
{
	hgx_put16(f, where, (hgx_get16(f, where) & ~clear) | set);
}

bool hgx_has_link_below(const struct hgx_fn *f)
{
	return f->kind == HGX_ROOT || f->kind == HGX_DOWN;
}

static bool is_port(const struct hgx_fn *f)
{
	return f->kind <= HGX_DOWN;
}

/* A register that can be written: its initial value, its writable and its write-one-clear bits. */
static void reg32(struct hgx_fn *f, int where, u32 val, u32 wmask, u32 w1c)
{
	memcpy(f->cfg + where, &val, sizeof(val));
	memcpy(f->wmask + where, &wmask, sizeof(wmask));
	memcpy(f->w1c + where, &w1c, sizeof(w1c));
}

static void header_init(struct hgx_fn *f)
{
	hgx_put16(f, PCI_VENDOR_ID, ids[f->kind].vendor);
	hgx_put16(f, PCI_DEVICE_ID, ids[f->kind].device);
	reg32(f, PCI_COMMAND, PCI_STATUS_CAP_LIST << 16, 0x0547, 0);
	hgx_put32(f, PCI_CLASS_REVISION, ids[f->kind].class << 8 | 0xa1);
	reg32(f, PCI_CACHE_LINE_SIZE, 0, 0xff, 0);
	f->cfg[PCI_HEADER_TYPE] = is_port(f) ? PCI_HEADER_TYPE_BRIDGE : PCI_HEADER_TYPE_NORMAL;
	f->cfg[PCI_CAPABILITY_LIST] = HGX_EXP;
	/* The port's interrupt is that of its services; nothing else has one. */
	reg32(f, PCI_INTERRUPT_LINE, hgx_has_link_below(f) ? 0x01ff : 0x00ff, 0xff, 0);
	if (!is_port(f)) {
		hgx_put16(f, PCI_SUBSYSTEM_VENDOR_ID, ids[f->kind].subvendor);
		hgx_put16(f, PCI_SUBSYSTEM_ID, ids[f->kind].subdevice);
		return;
	}
	/* Closed windows, or the kernel wants to find room for them and pcieport fails. */
	hgx_put16(f, PCI_IO_BASE, 0x00f0);
	hgx_put32(f, PCI_MEMORY_BASE, 0x0000fff0);
	hgx_put32(f, PCI_PREF_MEMORY_BASE, 0x0000fff0);
	/* Interrupt Line shares the word. */
	reg32(f, PCI_INTERRUPT_LINE, hgx_get16(f, PCI_INTERRUPT_LINE) | PCI_BRIDGE_CTL_SERR << 16,
	      0xff | (PCI_BRIDGE_CTL_SERR | PCI_BRIDGE_CTL_BUS_RESET | PCI_BRIDGE_CTL_PARITY) << 16,
	      0);
}

void hgx_set_cap(struct hgx_fn *f, unsigned int gen, unsigned int width)
{
	u32 cap = hgx_get32(f, HGX_EXP + PCI_EXP_LNKCAP);

	cap &= ~(PCI_EXP_LNKCAP_SLS | PCI_EXP_LNKCAP_MLW);
	hgx_put32(f, HGX_EXP + PCI_EXP_LNKCAP, cap | gen | width << 4);
	hgx_put32(f, HGX_EXP + PCI_EXP_LNKCAP2, LINK_SPEEDS & GENMASK(gen, 1));
	hgx_change16(f, HGX_EXP + PCI_EXP_LNKCTL2, gen, PCI_EXP_LNKCTL2_TLS);
}

static void link_init(struct hgx_fn *f)
{
	bool below = hgx_has_link_below(f);

	hgx_put32(f, HGX_EXP + PCI_EXP_LNKCAP,
		  (below ? PCI_EXP_LNKCAP_DLLLARC | PCI_EXP_LNKCAP_LBNC : 0) | (f - hgx_fns + 1)
										       << 24);
	/* Not Retrain Link: it reads as zero. */
	reg32(f, HGX_EXP + PCI_EXP_LNKCTL,
	      (5 | 16 << 4 | PCI_EXP_LNKSTA_SLC | (below ? PCI_EXP_LNKSTA_DLLLA : 0)) << 16,
	      0x0fdb & ~PCI_EXP_LNKCTL_RL, (u32)(PCI_EXP_LNKSTA_LBMS | PCI_EXP_LNKSTA_LABS) << 16);
	reg32(f, HGX_EXP + PCI_EXP_LNKCTL2, 0, 0xffff, 0);
	hgx_set_cap(f, 5, 16);
}

static void slot_init(struct hgx_fn *f)
{
	reg32(f, HGX_EXP + PCI_EXP_SLTCTL, (u32)PCI_EXP_SLTSTA_PDS << 16, 0x1fff,
	      (u32)(PCI_EXP_SLTSTA_ABP | PCI_EXP_SLTSTA_PFD | PCI_EXP_SLTSTA_MRLSC |
		    PCI_EXP_SLTSTA_PDC | PCI_EXP_SLTSTA_CC | PCI_EXP_SLTSTA_DLLSC)
		      << 16);
	hgx_put32(f, HGX_EXP + PCI_EXP_SLTCAP,
		  PCI_EXP_SLTCAP_HPC | PCI_EXP_SLTCAP_HPS | PCI_EXP_SLTCAP_NCCS |
			  (u32)f->slot << 19);
}

static void express_init(struct hgx_fn *f)
{
	f->cfg[HGX_EXP] = PCI_CAP_ID_EXP;
	f->cfg[HGX_EXP + 1] = HGX_PM;
	hgx_put16(f, HGX_EXP + PCI_EXP_FLAGS,
		  2 | ids[f->kind].type << 4 | (f->slot ? PCI_EXP_FLAGS_SLOT : 0));
	hgx_put32(f, HGX_EXP + PCI_EXP_DEVCAP,
		  PCI_EXP_DEVCAP_RBER | (is_port(f) ? 0 : PCI_EXP_DEVCAP_FLR) | 1);
	/* Not the reset of a function: it reads as zero. */
	reg32(f, HGX_EXP + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_RELAX_EN, 0x7fff, 0x000f0000);
	link_init(f);
	if (f->slot)
		slot_init(f);
	if (f->kind == HGX_ROOT) {
		reg32(f, HGX_EXP + PCI_EXP_RTCTL, 0, 0x1f, 0);
		reg32(f, HGX_EXP + PCI_EXP_RTSTA, 0, 0, PCI_EXP_RTSTA_PME);
	}
	reg32(f, HGX_EXP + PCI_EXP_DEVCTL2, 0, 0xffff, 0);
	f->cfg[HGX_PM] = PCI_CAP_ID_PM;
	hgx_put16(f, HGX_PM + PCI_PM_PMC, 3);
	reg32(f, HGX_PM + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET, PCI_PM_CTRL_STATE_MASK, 0);
}

/* Masks and severities as the PCIe specification has them after a reset. */
static void aer_init(struct hgx_fn *f)
{
	hgx_put32(f, HGX_AER, PCI_EXT_CAP_ID_ERR | 2 << 16);
	reg32(f, HGX_AER + PCI_ERR_UNCOR_STATUS, 0, 0, 0xfffff030);
	reg32(f, HGX_AER + PCI_ERR_UNCOR_MASK, PCI_ERR_UNC_INTN, 0xfffff030, 0);
	reg32(f, HGX_AER + PCI_ERR_UNCOR_SEVER, 0x00462030, 0xfffff030, 0);
	reg32(f, HGX_AER + PCI_ERR_COR_STATUS, 0, 0, 0xf1c1);
	reg32(f, HGX_AER + PCI_ERR_COR_MASK,
	      PCI_ERR_COR_ADV_NFAT | PCI_ERR_COR_INTERNAL | PCI_ERR_COR_LOG_OVER, 0xf1c1, 0);
	if (f->kind != HGX_ROOT)
		return;
	reg32(f, HGX_AER + PCI_ERR_ROOT_COMMAND, 0, 7, 0);
	reg32(f, HGX_AER + PCI_ERR_ROOT_STATUS, 0, 0, 0x7f);
}

void hgx_fn_reset(struct hgx_fn *f)
{
	memset(f->cfg, 0, sizeof(f->cfg));
	header_init(f);
	express_init(f);
	aer_init(f);
}

/* --- the tree --- */
static void raise(struct irq_work *work)
{
	generic_handle_irq(container_of(work, struct hgx_fn, raise)->irq);
}

static struct hgx_fn *add(enum hgx_kind kind, struct hgx_fn *up, u8 bus, u8 dev)
{
	static u8 counts[HGX_NIC + 1];
	struct hgx_fn *f = &hgx_fns[hgx_count++];

	f->kind = kind;
	f->up = up;
	f->bus = bus;
	f->dev = dev;
	f->index = counts[kind]++;
	/* Slots are what the endpoints sit in; the switches are soldered. */
	f->slot = kind == HGX_DOWN ? f->index + FIRST_SLOT : 0;
	init_irq_work(&f->raise, raise);
	hgx_fn_reset(f);
	if (up && hgx_has_link_below(up))
		up->down = f;
	return f;
}

static void add_window(struct hgx_fn *f, u8 first, u8 last)
{
	reg32(f, PCI_PRIMARY_BUS, f->bus | first << 8 | last << 16, 0x00ffffff, 0);
}

/* Buses of a switch: its upper port, its lower ports, then one for each endpoint. */
static void add_switch(u8 root_bus, u8 dev)
{
	static const enum hgx_kind kinds[HGX_BELOW] = { HGX_GPU, HGX_GPU, HGX_NIC, HGX_NIC };
	u8 bus = root_bus + 1 + dev * (2 + HGX_BELOW);
	struct hgx_fn *root = add(HGX_ROOT, NULL, root_bus, dev), *up, *down;

	add_window(root, bus, bus + 1 + HGX_BELOW);
	up = add(HGX_UP, root, bus, 0);
	add_window(up, bus + 1, bus + 1 + HGX_BELOW);
	for (int i = 0; i < HGX_BELOW; i++) {
		down = add(HGX_DOWN, up, bus + 1, i);
		add_window(down, bus + 2 + i, bus + 2 + i);
		add(kinds[i], down, bus + 2 + i, 0);
	}
}

int hgx_config_init(void)
{
	hgx_fns = vzalloc(sizeof(*hgx_fns) * HGX_MAX);
	if (!hgx_fns)
		return -ENOMEM;
	for (int bridge = 0; bridge < HGX_BRIDGES; bridge++)
		for (int i = 0; i < HGX_SWITCHES; i++)
			add_switch(bridge ? 0x80 : 0x10, i);
	return 0;
}

void hgx_config_free(void)
{
	for (int i = 0; i < hgx_count; i++)
		irq_work_sync(&hgx_fns[i].raise);
	vfree(hgx_fns);
}

struct hgx_fn *hgx_find(unsigned int bus, unsigned int devfn)
{
	for (int i = 0; i < hgx_count; i++)
		if (hgx_fns[i].bus == bus && PCI_DEVFN(hgx_fns[i].dev, 0) == devfn)
			return &hgx_fns[i];
	return NULL;
}

/* --- accesses --- */
bool hgx_reachable(const struct hgx_fn *f)
{
	for (; f; f = f->up) {
		if (f->gone)
			return false;
		if (f->up && f->up->down == f &&
		    !(hgx_get16(f->up, HGX_EXP + PCI_EXP_LNKSTA) & PCI_EXP_LNKSTA_DLLLA))
			return false;
	}
	return true;
}

u32 hgx_read(struct hgx_fn *f, int where, int size)
{
	const int status = HGX_EXP + PCI_EXP_LNKSTA;
	u32 val = 0;

	f->reads++;
	f->link_reads += where < status + 2 && where + size > status;
	if (!hgx_reachable(f))
		return ~0;
	memcpy(&val, f->cfg + where, size);
	return val;
}

static bool aer_waits(const struct hgx_fn *f)
{
	u32 status = hgx_get32(f, HGX_AER + PCI_ERR_ROOT_STATUS);
	u32 command = hgx_get32(f, HGX_AER + PCI_ERR_ROOT_COMMAND);

	return (status & PCI_ERR_ROOT_COR_RCV && command & PCI_ERR_ROOT_CMD_COR_EN) ||
	       (status & PCI_ERR_ROOT_NONFATAL_RCV && command & PCI_ERR_ROOT_CMD_NONFATAL_EN) ||
	       (status & PCI_ERR_ROOT_FATAL_RCV && command & PCI_ERR_ROOT_CMD_FATAL_EN);
}

static bool slot_waits(const struct hgx_fn *f)
{
	u16 status = hgx_get16(f, HGX_EXP + PCI_EXP_SLTSTA);
	u16 control = hgx_get16(f, HGX_EXP + PCI_EXP_SLTCTL);

	/* The events have the bits of their enables, but for the link's. */
	return control & PCI_EXP_SLTCTL_HPIE &&
	       ((status & control & 0x1f) ||
		(status & PCI_EXP_SLTSTA_DLLSC && control & PCI_EXP_SLTCTL_DLLSCE));
}

static bool link_waits(const struct hgx_fn *f)
{
	u16 status = hgx_get16(f, HGX_EXP + PCI_EXP_LNKSTA);
	u16 control = hgx_get16(f, HGX_EXP + PCI_EXP_LNKCTL);

	return (status & PCI_EXP_LNKSTA_LBMS && control & PCI_EXP_LNKCTL_LBMIE) ||
	       (status & PCI_EXP_LNKSTA_LABS && control & PCI_EXP_LNKCTL_LABIE);
}

void hgx_interrupt(struct hgx_fn *f)
{
	if (hgx_has_link_below(f) &&
	    ((f->kind == HGX_ROOT && aer_waits(f)) || (f->slot && slot_waits(f)) || link_waits(f)))
		irq_work_queue(&f->raise);
}

void hgx_write(struct hgx_fn *f, int where, int size, u32 val)
{
	const int control = HGX_EXP + PCI_EXP_LNKCTL;

	if (!hgx_reachable(f))
		return;
	for (int i = where; i < where + size; i++, val >>= 8) {
		f->cfg[i] = (f->cfg[i] & ~f->wmask[i]) | (val & f->wmask[i]);
		f->cfg[i] &= ~(val & f->w1c[i]);
		if (i == control && val & PCI_EXP_LNKCTL_RL && hgx_has_link_below(f))
			hgx_retrain(f);
	}
	/* The line is a level: what is still waiting, or waits now that it is enabled, asks again. */
	hgx_interrupt(f);
}
