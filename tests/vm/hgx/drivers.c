// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Stand-ins for the drivers: of NVIDIA's what tells a GPU's minor number (/proc/driver/nvidia, the
 * character devices), of the NICs' a network device. As those do, the NICs' takes part in error
 * recovery and the GPUs' does not.
 */
#include <linux/aer.h>
#include <linux/cdev.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/pm_runtime.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/version.h>

#include "hgx.h"

#define NVIDIA_MAJOR 195
#define GPUS	     (HGX_BRIDGES * HGX_SWITCHES * HGX_BELOW / 2)

static struct proc_dir_entry *nvidia_dir, *gpus_dir;
static struct cdev nvidia_cdev;

static struct hgx_fn *fn_of(const struct pci_dev *dev)
{
	if (pci_domain_nr(dev->bus) != HGX_DOMAIN)
		return NULL;
	return hgx_find(dev->bus->number, dev->devfn);
}

/* --- GPUs --- */
static int information_show(struct seq_file *s, void *unused)
{
	const struct hgx_fn *f = s->private;

	seq_puts(s, "Model: \t\t NVIDIA H100 80GB HBM3\n");
	seq_printf(s, "IRQ:   \t\t %d\n", f->irq);
	seq_printf(s, "GPU UUID: \t GPU-51700000-0000-0000-0000-%012x\n", f->index);
	seq_puts(s, "Bus Type: \t PCIe\n");
	seq_printf(s, "Bus Location: \t %04x:%02x:%02x.0\n", HGX_DOMAIN, f->bus, f->dev);
	seq_printf(s, "Device Minor: \t %u\n", f->index);
	return 0;
}

static int gpu_probe(struct pci_dev *dev, const struct pci_device_id *id)
{
	struct hgx_fn *f = fn_of(dev);
	struct proc_dir_entry *entry;

	if (!f)
		return -ENODEV;
	entry = proc_mkdir(pci_name(dev), gpus_dir);
	if (!entry)
		return -ENOMEM;
	proc_create_single_data("information", 0444, entry, information_show, f);
	pci_set_drvdata(dev, entry);
	/* May sleep if user space allows it, as the real one. */
	pm_runtime_put_noidle(&dev->dev);
	return 0;
}

static void gpu_remove(struct pci_dev *dev)
{
	pm_runtime_get_noresume(&dev->dev);
	proc_remove(pci_get_drvdata(dev));
}

static const struct pci_device_id gpu_ids[] = { { PCI_DEVICE(0x10de, 0x2330) }, {} };

/* Empty, but there: 5.10 and 6.1 let no device sleep whose driver has none. */
static const struct dev_pm_ops gpu_pm = {};

static struct pci_driver gpu_driver = {
	.name = "hgx_gpu",
	.id_table = gpu_ids,
	.probe = gpu_probe,
	.remove = gpu_remove,
	.driver.pm = &gpu_pm,
};

static int nvidia_open(struct inode *inode, struct file *file)
{
	return 0;
}

static const struct file_operations nvidia_fops = {
	.owner = THIS_MODULE,
	.open = nvidia_open,
};

static int nvidia_init(void)
{
	int err = register_chrdev_region(MKDEV(NVIDIA_MAJOR, 0), GPUS, "nvidia");

	if (err)
		return err;
	cdev_init(&nvidia_cdev, &nvidia_fops);
	nvidia_cdev.owner = THIS_MODULE;
	err = cdev_add(&nvidia_cdev, MKDEV(NVIDIA_MAJOR, 0), GPUS);
	nvidia_dir = err ? NULL : proc_mkdir("driver/nvidia", NULL);
	gpus_dir = nvidia_dir ? proc_mkdir("gpus", nvidia_dir) : NULL;
	if (gpus_dir)
		return 0;
	proc_remove(nvidia_dir);
	if (!err)
		cdev_del(&nvidia_cdev);
	unregister_chrdev_region(MKDEV(NVIDIA_MAJOR, 0), GPUS);
	return err ?: -ENOMEM;
}

static void nvidia_free(void)
{
	proc_remove(nvidia_dir);
	cdev_del(&nvidia_cdev);
	unregister_chrdev_region(MKDEV(NVIDIA_MAJOR, 0), GPUS);
}

/* --- NICs --- */
static netdev_tx_t nic_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops nic_ops = { .ndo_start_xmit = nic_xmit };

static int nic_probe(struct pci_dev *dev, const struct pci_device_id *id)
{
	struct hgx_fn *f = fn_of(dev);
	struct net_device *netdev;
	int err;

	if (!f)
		return -ENODEV;
	netdev = alloc_etherdev(0);
	if (!netdev)
		return -ENOMEM;
	snprintf(netdev->name, sizeof(netdev->name), "hgx%u", f->index);
	netdev->netdev_ops = &nic_ops;
	eth_hw_addr_random(netdev);
	SET_NETDEV_DEV(netdev, &dev->dev);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
	/* mlx5_core's own doing until the core did it for all. NVIDIA's driver is not known to. */
	pci_enable_pcie_error_reporting(dev);
#endif
	err = register_netdev(netdev);
	if (err)
		free_netdev(netdev);
	else
		pci_set_drvdata(dev, netdev);
	return err;
}

static void nic_remove(struct pci_dev *dev)
{
	struct net_device *netdev = pci_get_drvdata(dev);

	unregister_netdev(netdev);
	free_netdev(netdev);
}

static pci_ers_result_t nic_error(struct pci_dev *dev, pci_channel_state_t state)
{
	return state == pci_channel_io_normal	? PCI_ERS_RESULT_CAN_RECOVER
	       : state == pci_channel_io_frozen ? PCI_ERS_RESULT_NEED_RESET
						: PCI_ERS_RESULT_DISCONNECT;
}

static pci_ers_result_t nic_reset(struct pci_dev *dev)
{
	pci_restore_state(dev);
	return PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers nic_errors = {
	.error_detected = nic_error,
	.mmio_enabled = nic_reset,
	.slot_reset = nic_reset,
};

static const struct pci_device_id nic_ids[] = { { PCI_DEVICE(0x15b3, 0x1021) }, {} };

static struct pci_driver nic_driver = {
	.name = "hgx_nic",
	.id_table = nic_ids,
	.probe = nic_probe,
	.remove = nic_remove,
	.err_handler = &nic_errors,
};

int hgx_drivers_init(void)
{
	int err = nvidia_init();

	if (err)
		return err;
	err = pci_register_driver(&gpu_driver);
	if (err)
		goto out_nvidia;
	err = pci_register_driver(&nic_driver);
	if (!err)
		return 0;
	pci_unregister_driver(&gpu_driver);
out_nvidia:
	nvidia_free();
	return err;
}

void hgx_drivers_free(void)
{
	pci_unregister_driver(&nic_driver);
	pci_unregister_driver(&gpu_driver);
	nvidia_free();
}
