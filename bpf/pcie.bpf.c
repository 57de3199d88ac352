// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * PCIe as the kernel's own drivers see it: errors (AER), link changes, hot plug, containment and
 * recovery. All of it is rare; what can come in storms (AER) is counted.
 */
#include "include/agg.bpf.h"
#include "include/compat.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define LNKSTA		  0x12 /* Link Status in the PCI Express capability */
#define LNKSTA_SPEED	  0x000f
#define LNKSTA_WIDTH	  0x03f0
#define LNKSTA_LT	  0x0800
#define LNKSTA_LBMS	  0x4000
#define LNKSTA_LABS	  0x8000
#define LNKSTA_GONE	  0xffff /* nobody answered */
#define SLTSTA_PDC	  0x0008 /* presence changed */
#define SLTSTA_DLLSC	  0x0100 /* the link came or went */
#define SPEED_2_5GT	  0x14	 /* enum pci_bus_speed: one number per generation from here on */
#define SPEED_LAST	  0x1c
#define ADVISORY_NONFATAL 0x2000 /* correctable error status */
/* From one event to the other: lines of the log, on a slow console. */
#define ADVISORY_NS   100000000ull
#define ERS_RECOVERED 5 /* enum pci_ers_result */

/* States of pciehp's slots. */
enum { SLOT_OFF, SLOT_BLINKINGON, SLOT_BLINKINGOFF, SLOT_POWERON, SLOT_POWEROFF, SLOT_ON };

/* Values of events.def's names. */
enum { REASON_RETRAIN = 0, REASON_BWCTRL = 3, REASON_HOTPLUG = 4, REASON_COUNTED = 8 };
enum { CLASS_NONFATAL, CLASS_FATAL, CLASS_CORRECTABLE };
enum { HOTPLUG_UP, HOTPLUG_DOWN, HOTPLUG_PRESENT, HOTPLUG_ABSENT, HOTPLUG_ADDED, HOTPLUG_REMOVED };
enum { RECOVERY_CONTAINED, RECOVERY_BEGINS, RECOVERY_DONE, RECOVERY_FAILED };

static __always_inline void pci_name(char name[16], struct pci_dev *dev)
{
	bpf_probe_read_kernel_str(name, 16, BPF_CORE_READ(dev, dev.kobj.name));
}

/* --- AER --- */

/* The texts are made by the reader: BPF programs of 5.10 cannot compare any. */
static __always_inline __u8 bus_nr(const char *bus)
{
	char c = 0;

	if (bus)
		bpf_probe_read_kernel(&c, 1, bus);
	return c == 'P' ? FT_AER_BUS_PCIE : c == 'C' ? FT_AER_BUS_CXL : 0;
}

static __always_inline void aer_submit(struct ft_ev_pcie_aer *e)
{
	struct ft_agg_key key = { .kind = FT_KIND_pcie_aer };

	__builtin_memcpy(&key.a, e->device, 8);
	__builtin_memcpy(&key.b, e->device + 8, 8);
	key.c = (__u64)e->status << 32 | e->aer_class << 16 | e->advisory << 8 | e->bus;
	agg_submit(&key, &e->h, sizeof(*e), 0, 0);
}

struct device_name {
	char s[16];
};

/* When a device had its last advisory event. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct device_name);
	__type(value, __u64);
} advisory SEC(".maps");

/*
 * An error of no consequence that a device tells as correctable (NonFatalErr). 7.3 looks for what it
 * was and tells that as a non-fatal error right after it; its counters count both.
 */
static __always_inline bool is_told_again(const struct ft_ev_pcie_aer *e)
{
	struct device_name device;
	__u64 now = e->h.ts_ns, *last;

	if (!compat_aer_tells_advisory())
		return false;
	__builtin_memcpy(device.s, e->device, sizeof(device.s));
	if (e->aer_class == CLASS_CORRECTABLE && e->status & ADVISORY_NONFATAL) {
		bpf_map_update_elem(&advisory, &device, &now, BPF_ANY);
		return false;
	}
	last = bpf_map_lookup_elem(&advisory, &device);
	now -= last ? *last : 0;
	return !bpf_map_delete_elem(&advisory, &device) && now < ADVISORY_NS &&
	       e->aer_class == CLASS_NONFATAL;
}

SEC("tp_btf/aer_event")
int BPF_PROG(aer_event, const char *device, u32 status, u8 severity, u8 tlp_valid, void *tlp)
{
	struct ft_ev_pcie_aer e;
	__u32 dw[4] = { ~0u, ~0u, ~0u, ~0u };

	if (!ready)
		return 0;
	__builtin_memset(&e, 0, sizeof(e));
	hdr_init(&e.h, FT_KIND_pcie_aer, sizeof(e));
	bpf_probe_read_kernel_str(e.device, sizeof(e.device), device);
	e.status = status;
	e.aer_class = severity;
	e.bus = bus_nr(compat_aer_bus(ctx));
	if (tlp_valid) {
		compat_tlp_words(dw, tlp);
		if (compat_tlp_is_flit(tlp))
			e.bus |= FT_AER_FLIT;
	}
	e.tlp__dw0 = dw[0];
	e.tlp__dw1 = dw[1];
	e.tlp__dw2 = dw[2];
	e.tlp__dw3 = dw[3];
	e.tlp__address = ~0ull;
	e.advisory = is_told_again(&e);
	aer_submit(&e);
	return 0;
}

/* --- links --- */

/* What a link was when it was told last, by its port's name. */
struct link_state {
	__u64 since_ns;
	__u32 gen, width;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct device_name);
	__type(value, struct link_state);
} links SEC(".maps");

/* What the handler of a port's bandwidth interrupt did last, on this CPU. */
struct bandwidth {
	__u64 irq_ns;
	struct pci_dev *port; /* whose bits it cleared */
	__u32 bits;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bandwidth);
} bandwidth SEC(".maps");

#define IRQ_NS 1000000 /* the handler goes on at once, with interrupts off */

struct link {
	struct pci_dev *port;
	__u32 gen, width; /* ~0: not known */
	__u8 reason;
	int status; /* Link Status, -1: not known */
};

static __always_inline void link_unknown(struct ft_ev_pcie_link *e)
{
	__builtin_memset(e, 0, sizeof(*e));
	e->from__gen = e->from__width = e->from__gbps = ~0u;
	e->to__gen = e->to__width = e->to__gbps = ~0u;
	e->possible__gen = e->possible__width = e->possible__gbps = ~0u;
	e->target_gen = e->link_status = ~0u;
	e->training = e->lbms = e->labs = 0xff;
	e->transitions_total = e->in_state_ns = ~0ull;
	e->exact = 1;
}

/* From what it changed, if it did: the kernel tells also that nothing has changed. */
static __always_inline void link_from(struct ft_ev_pcie_link *e, const struct link *l)
{
	struct link_state new = { .since_ns = e->h.ts_ns, .gen = l->gen, .width = l->width }, *old;
	struct device_name port;

	__builtin_memcpy(port.s, e->port, sizeof(port.s));
	old = bpf_map_lookup_elem(&links, &port);
	if (old) {
		e->from__gen = old->gen;
		e->from__width = old->width;
		if (new.width == ~0u)
			new.width = old->width;
		if (old->gen == new.gen && old->width == new.width)
			return;
		e->in_state_ns = new.since_ns - old->since_ns;
	}
	e->transitions = 1;
	bpf_map_update_elem(&links, &port, &new, BPF_ANY);
}

static __always_inline void link_bits(struct ft_ev_pcie_link *e, const struct link *l)
{
	__u32 zero = 0;
	struct bandwidth *w = bpf_map_lookup_elem(&bandwidth, &zero);

	if (l->status >= 0) {
		e->link_status = l->status;
		e->training = !!(l->status & LNKSTA_LT);
		e->lbms = !!(l->status & LNKSTA_LBMS);
		e->labs = !!(l->status & LNKSTA_LABS);
	}
	if (!w || w->port != l->port || e->h.ts_ns - w->irq_ns > IRQ_NS)
		return;
	e->lbms = !!(w->bits & LNKSTA_LBMS);
	e->labs = !!(w->bits & LNKSTA_LABS);
	e->reason = REASON_BWCTRL;
	w->port = NULL;
}

static __always_inline void link_submit(const struct link *l)
{
	struct ft_ev_pcie_link *e;

	if (!ready || !l->port)
		return;
	e = rec_reserve(FT_KIND_pcie_link, sizeof(*e));
	if (!e)
		return;
	link_unknown(e);
	hdr_init(&e->h, FT_KIND_pcie_link, sizeof(*e));
	pci_name(e->port, l->port);
	e->reason = l->reason;
	e->to__gen = l->gen;
	e->to__width = l->width;
	link_bits(e, l);
	if (l->gen != ~0u)
		link_from(e, l);
	bpf_ringbuf_submit(e, 0);
}

static __always_inline __u32 gen_of(__u32 speed)
{
	return speed >= SPEED_2_5GT && speed <= SPEED_LAST ? speed - SPEED_2_5GT + 1 : ~0u;
}

/* status: Link Status, -1 where only the bus knows its speed. */
static __always_inline void link_updated(struct pci_bus *bus, int status)
{
	struct link l = {
		.port = BPF_CORE_READ(bus, self),
		.gen = ~0u,
		.width = ~0u,
		.reason = REASON_COUNTED,
		.status = status == LNKSTA_GONE ? -1 : status,
	};

	if (l.status >= 0) {
		l.gen = l.status & LNKSTA_SPEED ?: ~0u;
		l.width = (l.status & LNKSTA_WIDTH) >> 4;
	} else if (status < 0) {
		l.gen = gen_of(BPF_CORE_READ(bus, cur_bus_speed));
	}
	link_submit(&l);
}

/* 7.0+ */
SEC("tp_btf/pcie_link_event")
int BPF_PROG(link_event, struct pci_bus *bus, u32 reason, u32 width, u32 status)
{
	struct link l = {
		.port = BPF_CORE_READ(bus, self),
		.gen = gen_of(BPF_CORE_READ(bus, cur_bus_speed)),
		.width = width,
		.reason = reason,
		.status = status,
	};

	/* Read while the port was gone. */
	if (status == LNKSTA_GONE) {
		l.gen = l.width = ~0u;
		l.status = -1;
	}
	link_submit(&l);
	return 0;
}

SEC("fexit/pcie_update_link_speed")
int BPF_PROG(link_speed, struct pci_bus *bus)
{
	link_updated(bus, cfg.link_status_arg ? compat_link_status(ctx[1]) : -1);
	return 0;
}

/* At the entry: the bus has its new speed afterwards only. */
SEC("kprobe/pcie_update_link_speed")
int BPF_KPROBE(link_speed_kprobe, struct pci_bus *bus, unsigned long long arg1)
{
	int status = compat_link_status(arg1);

	link_updated(bus, status < 0 ? LNKSTA_GONE : status);
	return 0;
}

static __always_inline void link_retrained(struct pci_dev *port)
{
	struct link l = {
		.port = port,
		.gen = ~0u,
		.width = ~0u,
		.reason = REASON_RETRAIN,
		.status = -1,
	};

	link_submit(&l);
}

/* 6.8 to 6.19: a retrain that does not update the speed. It says: look again. */
SEC("fexit/pcie_retrain_link")
int BPF_PROG(link_retrain, struct pci_dev *port)
{
	link_retrained(port);
	return 0;
}

SEC("kprobe/pcie_retrain_link")
int BPF_KPROBE(link_retrain_kprobe, struct pci_dev *port)
{
	link_retrained(port);
	return 0;
}

/* 6.13+: it clears the bandwidth bits before anybody reads the speed. */
SEC("fentry/pcie_bwnotif_irq")
int BPF_PROG(link_irq)
{
	__u32 zero = 0;
	struct bandwidth *w = bpf_map_lookup_elem(&bandwidth, &zero);

	if (w)
		*w = (struct bandwidth){ .irq_ns = bpf_ktime_get_ns() };
	return 0;
}

SEC("fentry/pcie_capability_write_word")
int BPF_PROG(link_bits_cleared, struct pci_dev *port, int pos, u16 val)
{
	__u32 zero = 0;
	struct bandwidth *w = bpf_map_lookup_elem(&bandwidth, &zero);

	if (!w || pos != LNKSTA || bpf_ktime_get_ns() - w->irq_ns > IRQ_NS)
		return 0;
	w->port = port;
	w->bits = val;
	return 0;
}

/* --- hot plug --- */

#define SLOT_NAME_MAX 16

struct hotplug_rec {
	struct ft_ev_pcie_hotplug e;
	char slot[SLOT_NAME_MAX];
};

static __always_inline struct hotplug_rec *hotplug_new(__u8 event, const char *slot)
{
	struct hotplug_rec *r;
	long len;

	r = rec_reserve(FT_KIND_pcie_hotplug, sizeof(*r));
	if (!r)
		return NULL;
	__builtin_memset(r, 0, sizeof(*r));
	hdr_init(&r->e.h, FT_KIND_pcie_hotplug, sizeof(*r));
	r->e.event = event;
	len = bpf_probe_read_kernel_str(r->slot, sizeof(r->slot), slot);
	if (len > 1) {
		r->e.slot.off = sizeof(r->e);
		r->e.slot.len = len - 1;
	}
	return r;
}

/* 7.0+ */
SEC("tp_btf/pci_hp_event")
int BPF_PROG(hp_event, const char *port, const char *slot, int event)
{
	struct hotplug_rec *r;

	if (!ready)
		return 0;
	r = hotplug_new(event, slot);
	if (!r)
		return 0;
	bpf_probe_read_kernel_str(r->e.port, sizeof(r->e.port), port);
	bpf_ringbuf_submit(r, 0);
	return 0;
}

static __always_inline void slot_event(struct controller *ctrl, __u8 event)
{
	struct hotplug_rec *r =
		hotplug_new(event, BPF_CORE_READ(ctrl, hotplug_slot.pci_slot, kobj.name));

	if (!r)
		return;
	pci_name(r->e.port, BPF_CORE_READ(ctrl, pcie, port));
	bpf_ringbuf_submit(r, 0);
}

/* A slot that was in use: whatever changed took the link or the card away. */
static __always_inline void slot_changes(struct controller *ctrl, u32 events)
{
	u8 state = BPF_CORE_READ(ctrl, state);

	if (!ready || (state != SLOT_ON && state != SLOT_BLINKINGOFF))
		return;
	if (events & SLTSTA_DLLSC)
		slot_event(ctrl, HOTPLUG_DOWN);
	if (events & SLTSTA_PDC)
		slot_event(ctrl, HOTPLUG_ABSENT);
}

SEC("fentry/pciehp_handle_presence_or_link_change")
int BPF_PROG(hp_change, struct controller *ctrl, u32 events)
{
	slot_changes(ctrl, events);
	return 0;
}

SEC("kprobe/pciehp_handle_presence_or_link_change")
int BPF_KPROBE(hp_change_kprobe, struct controller *ctrl, u32 events)
{
	slot_changes(ctrl, events);
	return 0;
}

/* Whether the card was pulled, failed, or somebody asked for it. */
static __always_inline void slot_emptied(struct controller *ctrl)
{
	if (ready)
		slot_event(ctrl, HOTPLUG_REMOVED);
}

SEC("fentry/pciehp_unconfigure_device")
int BPF_PROG(hp_removed, struct controller *ctrl)
{
	slot_emptied(ctrl);
	return 0;
}

SEC("kprobe/pciehp_unconfigure_device")
int BPF_KPROBE(hp_removed_kprobe, struct controller *ctrl)
{
	slot_emptied(ctrl);
	return 0;
}

/* It is in use now: the link trained and the card was found. */
SEC("fexit/pciehp_handle_presence_or_link_change")
int BPF_PROG(hp_changed, struct controller *ctrl)
{
	if (ready && BPF_CORE_READ(ctrl, state) == SLOT_ON)
		slot_event(ctrl, HOTPLUG_UP);
	return 0;
}

/* --- containment and recovery --- */

static __always_inline void recovery_submit(struct pci_dev *dev, __u8 result)
{
	struct ft_ev_pcie_recovery *e;

	if (!ready)
		return;
	e = rec_reserve(FT_KIND_pcie_recovery, sizeof(*e));
	if (!e)
		return;
	__builtin_memset(e, 0, sizeof(*e));
	hdr_init(&e->h, FT_KIND_pcie_recovery, sizeof(*e));
	e->result = result;
	e->status = ~0u;
	pci_name(e->device, dev);
	bpf_ringbuf_submit(e, 0);
}

SEC("fentry/dpc_process_error")
int BPF_PROG(dpc_error, struct pci_dev *port)
{
	recovery_submit(port, RECOVERY_CONTAINED);
	return 0;
}

SEC("kprobe/dpc_process_error")
int BPF_KPROBE(dpc_error_kprobe, struct pci_dev *port)
{
	recovery_submit(port, RECOVERY_CONTAINED);
	return 0;
}

SEC("fentry/pcie_do_recovery")
int BPF_PROG(recovery, struct pci_dev *dev)
{
	recovery_submit(dev, RECOVERY_BEGINS);
	return 0;
}

SEC("kprobe/pcie_do_recovery")
int BPF_KPROBE(recovery_kprobe, struct pci_dev *dev)
{
	recovery_submit(dev, RECOVERY_BEGINS);
	return 0;
}

SEC("fexit/pcie_do_recovery")
int BPF_PROG(recovered, struct pci_dev *dev, u32 state, void *reset, u32 result)
{
	recovery_submit(dev, result == ERS_RECOVERED ? RECOVERY_DONE : RECOVERY_FAILED);
	return 0;
}
