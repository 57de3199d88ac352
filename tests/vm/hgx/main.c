// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The host bridges and their interrupts. */
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/nodemask.h>

#include "hgx.h"

static const u8 root_buses[HGX_BRIDGES] = { 0x10, 0x80 };

static struct bridge {
	struct pci_sysdata sysdata; /* what x86 takes domain and NUMA node from */
	struct resource buses;
	struct pci_bus *bus;
} bridges[HGX_BRIDGES];
static int irq_base;

static int config_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *val)
{
	struct hgx_fn *f = hgx_find(bus->number, devfn);
	unsigned long flags;

	*val = ~0;
	if (f) {
		raw_spin_lock_irqsave(&hgx_lock, flags);
		*val = hgx_read(f, where, size);
		raw_spin_unlock_irqrestore(&hgx_lock, flags);
	}
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 val)
{
	struct hgx_fn *f = hgx_find(bus->number, devfn);
	unsigned long flags;

	if (f) {
		raw_spin_lock_irqsave(&hgx_lock, flags);
		hgx_write(f, where, size, val);
		raw_spin_unlock_irqrestore(&hgx_lock, flags);
	}
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = config_read, .write = config_write };

static int map_irq(const struct pci_dev *dev, u8 slot, u8 pin)
{
	struct hgx_fn *f = hgx_find(dev->bus->number, dev->devfn);

	return f ? f->irq : 0;
}

/* ACPI knows no route for these interrupts; this keeps it from looking for one. */
static int irq_is_routed(struct pci_dev *dev, void *unused)
{
	dev->irq_managed = 1;
	return 0;
}

/*
 * Without a domain: the numbers are all that map_irq() needs. Edge, not simple: what comes while a
 * handler runs on another CPU must not be lost.
 */
static int irqs_init(void)
{
	/* Without an owner: the ports' services, requesting them, would keep this module loaded. */
	irq_base = __irq_alloc_descs(-1, 0, hgx_count, NUMA_NO_NODE, NULL, NULL);
	if (irq_base < 0)
		return irq_base;
	for (int i = 0; i < hgx_count; i++) {
		hgx_fns[i].irq = irq_base + i;
		irq_set_chip_and_handler(irq_base + i, &dummy_irq_chip, handle_edge_irq);
		irq_modify_status(irq_base + i, IRQ_NOREQUEST, IRQ_NOPROBE);
	}
	return 0;
}

static int bridge_add(int i)
{
	struct pci_host_bridge *host = pci_alloc_host_bridge(0);
	struct bridge *b = &bridges[i];
	int err;

	if (!host)
		return -ENOMEM;
	b->sysdata.domain = HGX_DOMAIN;
	b->sysdata.node = node_online(i) ? i : NUMA_NO_NODE;
	b->buses = (struct resource){
		.name = "hgx buses",
		.start = root_buses[i],
		.end = root_buses[i] + HGX_SWITCHES * (2 + HGX_BELOW),
		.flags = IORESOURCE_BUS,
	};
	pci_add_resource(&host->windows, &b->buses);
	host->sysdata = &b->sysdata;
	host->busnr = root_buses[i];
	host->ops = &ops;
	host->map_irq = map_irq;
	host->swizzle_irq = pci_common_swizzle;
	err = pci_scan_root_bus_bridge(host);
	if (err) {
		pci_free_host_bridge(host);
		return err;
	}
	b->bus = host->bus;
	pci_walk_bus(b->bus, irq_is_routed, NULL);
	pci_bus_add_devices(b->bus);
	return 0;
}

static void bridges_remove(void)
{
	pci_lock_rescan_remove();
	for (int i = 0; i < HGX_BRIDGES; i++) {
		if (!bridges[i].bus)
			continue;
		pci_stop_root_bus(bridges[i].bus);
		pci_remove_root_bus(bridges[i].bus);
	}
	pci_unlock_rescan_remove();
	irq_free_descs(irq_base, hgx_count);
}

static int bridges_add(void)
{
	int err = irqs_init();

	if (err)
		return err;
	pci_lock_rescan_remove();
	for (int i = 0; !err && i < HGX_BRIDGES; i++)
		err = bridge_add(i);
	pci_unlock_rescan_remove();
	if (err)
		bridges_remove();
	return err;
}

static const struct {
	int (*init)(void);
	void (*exit)(void);
} parts[] = {
	{ hgx_config_init, hgx_config_free },
	{ bridges_add, bridges_remove },
	{ hgx_drivers_init, hgx_drivers_free },
	{ hgx_control_init, hgx_control_free },
};

static void parts_exit(int n)
{
	while (n--)
		parts[n].exit();
}

static int __init hgx_init(void)
{
	for (int i = 0; i < ARRAY_SIZE(parts); i++) {
		int err = parts[i].init();

		if (err) {
			parts_exit(i);
			return err;
		}
	}
	return 0;
}

static void __exit hgx_exit(void)
{
	parts_exit(ARRAY_SIZE(parts));
}

module_init(hgx_init);
module_exit(hgx_exit);
MODULE_DESCRIPTION("Simulated GPU node, for tests");
MODULE_LICENSE("Dual BSD/GPL");
