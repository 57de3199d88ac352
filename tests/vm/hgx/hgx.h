/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A simulated GPU node for tests: PCIe functions whose configuration space is memory.
 *   config.c    the functions and their registers: what a read and a write do, interrupts pending
 *   fabric.c    what hardware does with them: links, hot plug, error messages
 *   control.c   the commands of a test, in debugfs
 *   drivers.c   stand-ins for the drivers of the GPUs and NICs
 *   main.c      host bridges and interrupts; the module
 */
#ifndef HGX_H
#define HGX_H

#include <linux/irq_work.h>
#include <linux/pci.h>
#include <linux/spinlock.h>

#define HGX_DOMAIN   1
#define HGX_BRIDGES  2 /* one for each NUMA node */
#define HGX_SWITCHES 2 /* below each bridge */
#define HGX_BELOW    4 /* below each switch: two GPUs, two NICs */
#define HGX_MAX	     (HGX_BRIDGES * HGX_SWITCHES * (2 + 2 * HGX_BELOW))

/* Where the capabilities are. */
#define HGX_EXP 0x40
#define HGX_PM	0x80
#define HGX_AER 0x100

enum hgx_kind { HGX_ROOT, HGX_UP, HGX_DOWN, HGX_GPU, HGX_NIC };

struct hgx_fn {
	enum hgx_kind kind;
	u8 bus, dev;
	u8 index;	     /* of its kind; GPUs: the minor number */
	u8 slot;	     /* ports with a slot, else 0 */
	struct hgx_fn *up;   /* the port above, or NULL */
	struct hgx_fn *down; /* ports: the function at the other end of the link, or NULL */
	bool gone;	     /* answers with all-ones */
	int irq;
	struct irq_work raise;
	u64 reads, link_reads; /* of anything; of Link Status */
	u64 messages;	       /* error messages sent */
	u64 changes;	       /* of its link */
	u8 cfg[4096];
	u8 wmask[4096]; /* bits that a write sets */
	u8 w1c[4096];	/* bits that writing one clears */
};

extern struct hgx_fn *hgx_fns;
extern int hgx_count;
/* Taken inside the PCI core's own lock for configuration accesses. */
extern raw_spinlock_t hgx_lock;

/* --- config.c; all but hgx_config_init() with hgx_lock held --- */
int hgx_config_init(void);
void hgx_config_free(void);
void hgx_fn_reset(struct hgx_fn *f);
struct hgx_fn *hgx_find(unsigned int bus, unsigned int devfn);
bool hgx_has_link_below(const struct hgx_fn *f);
bool hgx_reachable(const struct hgx_fn *f);
u32 hgx_read(struct hgx_fn *f, int where, int size);
void hgx_write(struct hgx_fn *f, int where, int size, u32 val);
u16 hgx_get16(const struct hgx_fn *f, int where);
u32 hgx_get32(const struct hgx_fn *f, int where);
void hgx_put16(struct hgx_fn *f, int where, u16 val);
void hgx_put32(struct hgx_fn *f, int where, u32 val);
/* Changes bits as hardware does, write-protected or not. */
void hgx_change16(struct hgx_fn *f, int where, u16 set, u16 clear);
void hgx_set_cap(struct hgx_fn *f, unsigned int gen, unsigned int width);
/* Raises the port's interrupt if something that is enabled waits. */
void hgx_interrupt(struct hgx_fn *f);

/* --- fabric.c, with hgx_lock held --- */
enum hgx_ends { HGX_PORT = 1, HGX_DEVICE = 2, HGX_BOTH = 3 };
/* The port at the upper end of a function's link. */
struct hgx_fn *hgx_port_of(struct hgx_fn *f);
/* gen 0: the link goes down. */
int hgx_link_set(struct hgx_fn *port, unsigned int gen, unsigned int width, enum hgx_ends ends);
/* As fast and wide as both ends can. */
int hgx_link_train(struct hgx_fn *port);
void hgx_link_bits(struct hgx_fn *f, u16 set, u16 clear);
void hgx_retrain(struct hgx_fn *port);
int hgx_plug(struct hgx_fn *f, bool in);
/*
 * Whether an error would be told from those before: the root port has none, nor, unless it stays
 * there, the function.
 */
bool hgx_aer_ready(struct hgx_fn *f, bool cor, bool stays);
int hgx_aer(struct hgx_fn *f, bool cor, u32 status, const u32 header[4]);

/* --- control.c --- */
int hgx_control_init(void);
void hgx_control_free(void);

/* --- drivers.c --- */
int hgx_drivers_init(void);
void hgx_drivers_free(void);

#endif
