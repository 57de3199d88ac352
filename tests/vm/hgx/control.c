// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What a test can do, in debugfs at hgx/. BDF is a function; a link is named by any of its two
 * ends. Numbers are decimal, or hexadecimal with 0x. One command with each write to `control`:
 *
 *   link BDF GEN WIDTH [both|port|device]   speed and width in Link Status; 0 0: the link goes down
 *   cap BDF GEN WIDTH        what that function says it can; the link is then as good as both ends
 *                            can. Newer kernels remember: remove the function and rescan
 *   status BDF SET CLEAR     bits of its Link Status (LT 0x800, LBMS 0x4000, LABS 0x8000); newly
 *                            set ones raise the interrupt where the kernel enabled it (6.13+)
 *   gone BDF 0|1             all-ones, also from what is below
 *   plug BDF 0|1             presence in the slot, with the interrupt of hot plug
 *   aer BDF cor|uncor STATUS [COUNT [HEADER HEADER HEADER HEADER]]   an error, COUNT times; returns
 *                            when the last one is sent. Each waits for the kernel to have read and
 *                            cleared the one before (10 s, then EBUSY), so that none merge; 1 s
 *                            for an uncorrectable one, which stays if its driver does not recover
 *   message BDF cor|uncor STATUS   one error, without waiting: may merge, as in hardware
 *   config BDF OFFSET VALUE  32 bits of configuration space, whatever they are
 *   toggle BDF COUNT US GEN WIDTH GEN WIDTH [BITS]   COUNT changes of the link, one each US, first
 *                            to the first pair; BITS are set in the port's Link Status with each.
 *                            Returns at once; one at a time
 *   reset-counts
 *
 * `functions` lists them: kind, index (GPUs: minor), slot, port above, Link Status, gone, accesses
 * (all, those that read Link Status), error messages sent, changes of the link. `toggle` gives
 * changes done and wanted.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "hgx.h"

#define ARGS_MAX     12
#define AER_WAIT_S   10
#define UNCOR_WAIT_S 1

static struct dentry *dir;
static DEFINE_MUTEX(control_lock);

static struct {
	struct hrtimer timer;
	ktime_t interval;
	struct hgx_fn *port;
	unsigned int gen[2], width[2];
	u32 done, wanted;
	u16 bits;
} toggle;

/* --- arguments --- */
struct args {
	int n; /* numbers after the function */
	struct hgx_fn *fn;
	const char *word; /* the one that is no number, or NULL */
	u32 v[ARGS_MAX];
};

static struct hgx_fn *function(const char *text)
{
	unsigned int domain, bus, dev, fn;

	if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &dev, &fn) != 4 || domain != HGX_DOMAIN)
		return NULL;
	return hgx_find(bus, PCI_DEVFN(dev, fn));
}

static int args_parse(char *text, struct args *a)
{
	char *word;

	while ((word = strsep(&text, " \n"))) {
		if (!*word)
			continue;
		if (!a->fn) {
			a->fn = function(word);
			if (!a->fn)
				return -ENODEV;
		} else if (a->n == ARGS_MAX) {
			return -E2BIG;
		} else if (!kstrtou32(word, 0, &a->v[a->n])) {
			a->n++;
		} else if (a->word) {
			return -EINVAL;
		} else {
			a->word = word;
		}
	}
	return 0;
}

/* --- commands, with hgx_lock held unless said otherwise --- */
static int do_link(struct args *a)
{
	static const char *const names[] = { "", "port", "device", "both" };
	int ends = a->word ? match_string(names, ARRAY_SIZE(names), a->word) : HGX_BOTH;

	return ends < 0 ? ends : hgx_link_set(hgx_port_of(a->fn), a->v[0], a->v[1], ends);
}

static int do_cap(struct args *a)
{
	if (!a->v[0] || a->v[0] > 6 || !a->v[1] || a->v[1] > 32)
		return -EINVAL;
	hgx_set_cap(a->fn, a->v[0], a->v[1]);
	return hgx_link_train(hgx_port_of(a->fn));
}

static int do_status(struct args *a)
{
	hgx_link_bits(a->fn, a->v[0], a->v[1]);
	return 0;
}

static int do_gone(struct args *a)
{
	a->fn->gone = a->v[0];
	return 0;
}

static int do_plug(struct args *a)
{
	return hgx_plug(a->fn, a->v[0]);
}

static int do_config(struct args *a)
{
	if (a->v[0] > 4092 || a->v[0] % 4)
		return -EINVAL;
	hgx_put32(a->fn, a->v[0], a->v[1]);
	return 0;
}

static int is_cor(const char *word)
{
	static const char *const names[] = { "uncor", "cor" };

	return word ? match_string(names, ARRAY_SIZE(names), word) : -EINVAL;
}

static int do_message(struct args *a)
{
	int cor = is_cor(a->word);

	return cor < 0 ? cor : hgx_aer(a->fn, cor, a->v[0], &a->v[2]);
}

static int do_reset_counts(struct args *a)
{
	for (int i = 0; i < hgx_count; i++) {
		struct hgx_fn *f = &hgx_fns[i];

		f->reads = f->link_reads = f->messages = f->changes = 0;
	}
	return 0;
}

/* Whether the kernel has done with the error before, which began at `since`. */
static bool done_with(struct hgx_fn *f, bool cor, unsigned long since)
{
	/* An uncorrectable one's status stays where the driver does not take part in recovery. */
	bool stays = !cor && time_after(jiffies, since + UNCOR_WAIT_S * HZ);

	return hgx_aer_ready(f, cor, stays);
}

static int aer_once(struct args *a, bool cor)
{
	unsigned long since = jiffies;
	int err = -EAGAIN;

	for (;;) {
		raw_spin_lock_irq(&hgx_lock);
		if (done_with(a->fn, cor, since))
			err = hgx_aer(a->fn, cor, a->v[0], &a->v[2]);
		raw_spin_unlock_irq(&hgx_lock);
		if (err != -EAGAIN)
			return err;
		if (time_after(jiffies, since + AER_WAIT_S * HZ))
			return -EBUSY;
		if (signal_pending(current))
			return -EINTR;
		usleep_range(50, 100);
	}
}

/* Takes the lock itself: it waits. */
static int do_aer(struct args *a)
{
	u32 count = a->n > 1 ? a->v[1] : 1;
	int cor = is_cor(a->word), err = min(cor, 0);

	while (!err && count--)
		err = aer_once(a, cor);
	return err;
}

static enum hrtimer_restart toggle_once(struct hrtimer *timer)
{
	int i = toggle.done & 1;
	unsigned long flags;
	bool more;

	raw_spin_lock_irqsave(&hgx_lock, flags);
	hgx_link_set(toggle.port, toggle.gen[i], toggle.width[i], HGX_BOTH);
	hgx_link_bits(toggle.port, toggle.bits, 0);
	more = ++toggle.done < toggle.wanted;
	raw_spin_unlock_irqrestore(&hgx_lock, flags);
	if (!more)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, toggle.interval);
	return HRTIMER_RESTART;
}

/* Takes no lock: the timer does. */
static int do_toggle(struct args *a)
{
	struct hgx_fn *port = hgx_port_of(a->fn);

	if (hrtimer_active(&toggle.timer))
		return -EBUSY;
	if (!port || !a->v[0] || !a->v[1] || !a->v[2] || !a->v[4])
		return -EINVAL;
	toggle.port = port;
	toggle.wanted = a->v[0];
	toggle.done = 0;
	toggle.interval = ns_to_ktime((u64)a->v[1] * NSEC_PER_USEC);
	for (int i = 0; i < 2; i++) {
		toggle.gen[i] = a->v[2 + 2 * i];
		toggle.width[i] = a->v[3 + 2 * i];
	}
	toggle.bits = a->n > 6 ? a->v[6] : 0;
	hrtimer_start(&toggle.timer, toggle.interval, HRTIMER_MODE_REL);
	return 0;
}

static const struct command {
	const char *name;
	int fewest, most; /* numbers after the function */
	bool any;	  /* needs no function */
	bool waits;	  /* takes the lock itself */
	int (*run)(struct args *a);
} commands[] = {
	{ "link", 2, 2, .run = do_link },
	{ "cap", 2, 2, .run = do_cap },
	{ "status", 2, 2, .run = do_status },
	{ "gone", 1, 1, .run = do_gone },
	{ "plug", 1, 1, .run = do_plug },
	{ "aer", 1, 6, .waits = true, .run = do_aer },
	{ "message", 1, 1, .run = do_message },
	{ "config", 2, 2, .run = do_config },
	{ "toggle", 6, 7, .waits = true, .run = do_toggle },
	{ "reset-counts", 0, 0, .any = true, .run = do_reset_counts },
};

static int run(const struct command *c, char *rest)
{
	struct args a = {};
	int err = args_parse(rest, &a);

	if (err)
		return err;
	if ((!a.fn && !c->any) || a.n < c->fewest || a.n > c->most)
		return -EINVAL;
	if (c->waits)
		return c->run(&a);
	raw_spin_lock_irq(&hgx_lock);
	err = c->run(&a);
	raw_spin_unlock_irq(&hgx_lock);
	return err;
}

static int run_text(char *text)
{
	char *name = strsep(&text, " \n");

	for (int i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			return run(&commands[i], text);
	return -EOPNOTSUPP;
}

static ssize_t control_write(struct file *file, const char __user *from, size_t n, loff_t *pos)
{
	char *text = n < PAGE_SIZE ? memdup_user_nul(from, n) : ERR_PTR(-E2BIG);
	int err;

	if (IS_ERR(text))
		return PTR_ERR(text);
	err = mutex_lock_interruptible(&control_lock);
	if (!err) {
		err = run_text(text);
		mutex_unlock(&control_lock);
	}
	kfree(text);
	return err ?: n;
}

static const struct file_operations control_fops = {
	.owner = THIS_MODULE,
	.write = control_write,
};

/* --- what it shows --- */
static void show_bdf(struct seq_file *s, const struct hgx_fn *f)
{
	if (f)
		seq_printf(s, " %04x:%02x:%02x.0", HGX_DOMAIN, f->bus, f->dev);
	else
		seq_puts(s, " -");
}

static int functions_show(struct seq_file *s, void *unused)
{
	static const char *const kinds[] = { "root", "up", "down", "gpu", "nic" };

	seq_puts(s, "# bdf kind index slot above link-status gone reads link-reads messages "
		    "changes\n");
	for (int i = 0; i < hgx_count; i++) {
		const struct hgx_fn *f = &hgx_fns[i];

		seq_printf(s, "%04x:%02x:%02x.0 %s %u %u", HGX_DOMAIN, f->bus, f->dev,
			   kinds[f->kind], f->index, f->slot);
		show_bdf(s, f->up);
		seq_printf(s, " %04x %d %llu %llu %llu %llu\n",
			   hgx_get16(f, HGX_EXP + PCI_EXP_LNKSTA), f->gone, f->reads, f->link_reads,
			   f->messages, f->changes);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(functions);

static int toggle_show(struct seq_file *s, void *unused)
{
	seq_printf(s, "%u %u\n", toggle.done, toggle.wanted);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(toggle);

int hgx_control_init(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&toggle.timer, toggle_once, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(&toggle.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	toggle.timer.function = toggle_once;
#endif
	dir = debugfs_create_dir("hgx", NULL);
	debugfs_create_file("control", 0200, dir, NULL, &control_fops);
	debugfs_create_file("functions", 0400, dir, NULL, &functions_fops);
	debugfs_create_file("toggle", 0400, dir, NULL, &toggle_fops);
	return PTR_ERR_OR_ZERO(dir);
}

void hgx_control_free(void)
{
	debugfs_remove_recursive(dir);
	hrtimer_cancel(&toggle.timer);
}
