// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What a line of the kernel log says of GPUs, NICs and PCIe links. A line begins with its writer:
 * "mlx5_core 0000:42:00.0: ..." or "mlx5_core 0000:42:00.0 eth0: ..." by the kernel's dev_printk(),
 * "NVRM: ..." by NVIDIA's driver. Texts that others choose (names of processes and files) stand in
 * kernel lines too: what is looked for is bound to the writer at the line's beginning.
 */
#include <ctype.h>

#include "host/klog.h"

#define REST_MAX 768 /* of a line, after its writer */

/* A line, cut. */
struct line {
	char driver[16], bdf[16]; /* bdf "": the text has to tell */
	char rest[REST_MAX];
};

struct pattern {
	const char *driver; /* NULL: any */
	const char *needle;
	/* `at`: behind the needle; false: the line says something else */
	bool (*read)(const struct line *l, const char *at, struct ft_klog_fact *f);
	uint8_t what;
};

/* --- parts --- */
static bool number(const char **p, const char *end, uint64_t *out)
{
	uint64_t v = 0;
	const char *s = *p;

	for (; s < end && isdigit((unsigned char)*s); s++) {
		if (v > UINT64_MAX / 10 - 1)
			return false;
		v = 10 * v + (*s - '0');
	}
	if (s == *p)
		return false;
	*p = s;
	*out = v;
	return true;
}

/* `min` to `max` hexadecimal digits; returns what is behind them, NULL when there are fewer. */
static const char *hex(const char *s, int min, int max, uint32_t *out)
{
	int n = 0;

	for (*out = 0; n < max && isxdigit((unsigned char)s[n]); n++)
		*out = *out << 4 |
		       (isdigit((unsigned char)s[n]) ? s[n] - '0' : (s[n] | 32) - 'a' + 10);
	return n >= min ? s + n : NULL;
}

/* "0000:41:00" or "0000:41:00.0", as a whole address; returns what is behind it, NULL: none. */
static const char *address(const char *s, char out[16])
{
	uint32_t domain, bus, dev, fn = 0;

	s = hex(s, 4, 8, &domain);
	s = s && *s == ':' ? hex(s + 1, 2, 2, &bus) : NULL;
	s = s && *s == ':' ? hex(s + 1, 2, 2, &dev) : NULL;
	if (s && *s == '.')
		s = hex(s + 1, 1, 1, &fn);
	if (!s || isxdigit((unsigned char)*s) || domain > 0xffffff || dev > 0x1f || fn > 7)
		return NULL;
	snprintf(out, 16, "%04x:%02x:%02x.%x", domain, bus, dev, fn);
	return s;
}

static bool starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static const char *behind(const char *s, const char *prefix)
{
	return starts(s, prefix) ? s + strlen(prefix) : s;
}

/* --- what the lines say --- */
static bool read_log(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	(void)at;
	f->kind = FT_KIND_dev_log;
	ft_strcpy(f->text, l->rest, sizeof(f->text));
	return f->bdf[0];
}

/* "Fatal error 5 detected" [mlx5, check_fatal_sensors()] */
static bool read_numbered(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	return isdigit((unsigned char)*at) && read_log(l, at, f);
}

/*
 * "Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus."; also without
 * "PCI:", without a process, with pid='<unknown>', with the MIG instance "PCI:0000:01:00 GPU-I:05"
 * [NVIDIA's open modules 515 to 595, kernel_rc.c].
 */
static bool read_xid(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	const char *s = address(behind(at, "PCI:"), f->bdf), *end;
	uint64_t n;

	/* Not in the name of a file that "NVRM: x" crashed in. */
	if (!starts(l->rest, "Xid (") || !s || (*s != ')' && *s != ' '))
		return false;
	s = strstr(s, "): ");
	if (!s)
		return false;
	s += 3;
	end = s + strlen(s);
	if (!number(&s, end, &n) || n >= FT_NONE_U32)
		return false;
	f->kind = FT_KIND_gpu_xid;
	f->xid = n;
	s = behind(s, ", ");
	ft_strcpy(f->text, s, sizeof(f->text));
	if (starts(s, "pid=")) {
		s = behind(s + strlen("pid="), "'");
		if (number(&s, end, &n) && n && n < FT_NONE_U32)
			f->pid = n;
	}
	return true;
}

/* "nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate" */
static bool read_sxid(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	return address(at, f->bdf) && read_log(l, at, f);
}

/*
 * "GPU 0000:41:00.0: ...", "GPU at PCI:0000:41:00 ..." and, in several lines of one record, "The
 * NVIDIA GPU 0000:41:00.0\x0aNVRM: (PCI ID: ...) installed in this system has\x0aNVRM: fallen ...".
 */
static bool read_gpu(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	const char *s = behind(l->rest, "The NVIDIA ");

	if (!starts(s, "GPU "))
		return false;
	s = behind(behind(s + strlen("GPU "), "at "), "PCI:");
	return address(s, f->bdf) && read_log(l, at, f);
}

static uint8_t aer_class(const char *s)
{
	char part[48];

	ft_strcpy(part, s, sizeof(part));
	part[strcspn(part, ",")] = 0;
	if (strstr(part, "Non-Fatal"))
		return 0;
	if (strstr(part, "(Fatal)"))
		return 1;
	return strstr(part, "Correct") ? 2 : FT_NONE_U8;
}

/*
 * "PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", in 7.3 without what
 * follows the severity. Severities: Corrected, Uncorrected (Non-Fatal), Uncorrected (Fatal) in 5.10
 * and 6.1, Correctable and Uncorrectable (..) in 6.12 and 7.3. Of an error that cannot be read, for
 * its link is down, there is no more: "type=Inaccessible", in 7.3 "(Fatal) (Inaccessible)".
 */
static bool read_severity(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	(void)l;
	f->kind = FT_KIND_pcie_aer;
	f->what = aer_class(at);
	f->part = FT_KLOG_AER_CLASS;
	if (strstr(at, "Inaccessible")) {
		f->part = FT_KLOG_WHOLE;
		ft_strcpy(f->text, "Inaccessible", sizeof(f->text));
	}
	return f->bdf[0];
}

/* "  device [8086:1234] error status/mask=00000001/00002000", the same in 5.10 to 7.3. */
static bool read_status(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	const char *s = hex(at, 1, 8, &f->status);
	uint32_t mask;

	(void)l;
	s = s && *s == '/' ? hex(s + 1, 1, 8, &mask) : NULL;
	if (!s)
		return false;
	f->kind = FT_KIND_pcie_aer;
	f->status &= ~mask;
	return f->bdf[0];
}

/* Firmware first: "AER: aer_status: 0x00000001, aer_mask: 0x00002000"; its class is not told. */
static bool read_cper(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	static const char then[] = ", aer_mask: 0x";
	const char *s = hex(at, 1, 8, &f->status);
	uint32_t mask;

	(void)l;
	if (!s || !starts(s, then) || !hex(s + strlen(then), 1, 8, &mask))
		return false;
	f->kind = FT_KIND_pcie_aer;
	f->status &= ~mask;
	return f->bdf[0];
}

/*
 * The port's own line names the device that sent the message: "AER: Multiple Corrected error message
 * received from 0000:01:00.0", "Error" in 7.3, "AER: Corrected error received: 0000:01:00.0" before.
 * From 6.16 on it ends with " (no details found)" where no status line comes.
 */
static bool read_source(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	const char *s = starts(l->rest, "AER: ") ? address(at, f->bdf) : NULL;

	if (!s)
		return false;
	f->kind = FT_KIND_pcie_aer;
	f->what = aer_class(l->rest);
	f->part = starts(s, " (no details found") ? FT_KLOG_WHOLE : FT_KLOG_AER_CLASS;
	return true;
}

/* No status line comes: "found no error details for 0000:01:00.0", 5.10 to 6.12. */
static bool read_no_details(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	(void)l;
	f->kind = FT_KIND_pcie_aer;
	return address(at, f->bdf);
}

/* The same in kernels without that fix of 6.8: "can't find device of ID0100", bus and function. */
static bool read_no_device(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	uint32_t id;

	if (!hex(at, 1, 4, &id) || !l->bdf[0])
		return false;
	ft_fmt(f->bdf, "%.*s:%02x:%02x.%x", (int)strcspn(l->bdf, ":"), l->bdf, id >> 8,
	       id >> 3 & 0x1f, id & 7);
	f->kind = FT_KIND_pcie_aer;
	return true;
}

static bool read_recovery(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	(void)l;
	(void)at;
	f->kind = FT_KIND_pcie_recovery;
	return f->bdf[0];
}

/* "DPC: containment event, status:0x1f01 source:0x0000", in 6.12 and later "status:0x1f01: ..." */
static bool read_dpc(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	return hex(at, 1, 8, &f->status) && read_recovery(l, at, f);
}

/* "pciehp: Slot(5): Link Down" */
static bool read_slot(const struct line *l, const char *at, struct ft_klog_fact *f)
{
	static const char *const events[] = { [FT_KLOG_SLOT_UP] = "Link Up",
					      [FT_KLOG_SLOT_DOWN] = "Link Down",
					      [FT_KLOG_SLOT_PRESENT] = "Card present",
					      [FT_KLOG_SLOT_ABSENT] = "Card not present" };
	const char *end = strstr(at, "): ");

	(void)l;
	if (!end)
		return false;
	ft_strcpy(f->slot, at, MIN(sizeof(f->slot), (size_t)(end - at) + 1));
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		if (strcmp(end + 3, events[i]) != 0)
			continue;
		f->kind = FT_KIND_pcie_hotplug;
		f->what = i;
		return f->bdf[0];
	}
	return false;
}

/* values of log_what */
enum { FALLEN, HEALTH, POWER, BANDWIDTH, LINK_DOWN = FT_KLOG_LINK_DOWN, OTHER };

/* The first row that fits is taken. Spellings: of the binaries of 5.10, 6.1, 6.12 and 7.3. */
static const struct pattern patterns[] = {
	{ "NVRM", "Xid (", read_xid, 0 },
	{ "NVRM", "fallen off the bus", read_gpu, FALLEN },
	{ "NVRM", "RmInitAdapter failed", read_gpu, OTHER },
	{ "nvidia-nvswitch", "SXid (PCI:", read_sxid, OTHER },
	/* mlx5: 5.10 has no "Health issue", but the syndrome as all others */
	{ "mlx5_core", "device's health compromised", read_log, HEALTH },
	{ "mlx5_core", "Health issue observed", read_log, HEALTH },
	{ "mlx5_core", " synd 0x", read_log, HEALTH },
	{ "mlx5_core", "Fatal error ", read_numbered, HEALTH },
	{ "mlx5_core", "handling bad device here", read_log, HEALTH },
	{ "mlx5_core", "PCI slot is unavailable", read_log, FALLEN },
	{ "mlx5_core", "insufficient power on the PCIe slot", read_log, POWER },
	{ "mlx5_core", "Port module event[error]", read_log, OTHER },
	{ "mlx5_core", "Cable unplugged", read_log, LINK_DOWN },
	{ "mlx5_core", "Link down", read_log, LINK_DOWN },
	{ "bnxt_en", "Firmware not responding", read_log, HEALTH },
	{ "bnxt_en", "Detected firmware fatal condition", read_log, HEALTH },
	{ "bnxt_en", "reset event, data1: ", read_log, HEALTH },
	{ "bnxt_en", "Firmware reset aborted", read_log, HEALTH },
	{ "bnxt_en", "NIC Link is Down", read_log, LINK_DOWN },
	{ "ice", "Critical FW error", read_log, HEALTH },
	{ "ice", "device is unrecoverable", read_log, HEALTH },
	{ "ice", "NIC Link is Down", read_log, LINK_DOWN },
	{ "i40e", "NIC Link is Down", read_log, LINK_DOWN },
	{ "pcieport", "pciehp: Slot(", read_slot, 0 },
	/* the PCI core, in the name of any driver */
	{ NULL, " Bus Error: severity=", read_severity, FT_NONE_U8 },
	{ NULL, "error status/mask=", read_status, FT_NONE_U8 },
	{ NULL, "error received: ", read_source, FT_NONE_U8 },
	{ NULL, "rror message received from ", read_source, FT_NONE_U8 },
	{ NULL, "AER: aer_status: 0x", read_cper, FT_NONE_U8 },
	{ NULL, "found no error details for ", read_no_details, FT_NONE_U8 },
	{ NULL, "can't find device of ID", read_no_device, FT_NONE_U8 },
	{ NULL, "AER: device recovery successful", read_recovery, 2 },
	{ NULL, "AER: device recovery failed", read_recovery, 3 },
	{ NULL, "AER: can't recover (", read_recovery, 3 },
	{ NULL, "DPC: containment event, status:0x", read_dpc, 0 },
	{ NULL, "available PCIe bandwidth, limited by", read_log, BANDWIDTH },
	/* 6.5+, pcie_failed_link_retrain(): the link is held at 2.5 GT/s */
	{ NULL, "retraining non-functional downstream link", read_log, OTHER },
	/* 5.10, and later */
	{ NULL, "(config space inaccessible)", read_log, FALLEN },
	{ NULL, ", device inaccessible", read_log, FALLEN },
};

/* --- the line --- */
/* Writer, device and the rest of a text; false: nobody that is known. */
static bool cut_writer(const char *text, struct line *l)
{
	static const char *const drivers[] = { "NVRM", "nvidia-nvswitch" };
	const char *s;
	size_t n;

	l->bdf[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		s = text + strlen(drivers[i]);
		if (!starts(text, drivers[i]) || strspn(s, "0123456789") > 3)
			continue;
		s += strspn(s, "0123456789");
		if (!starts(s, ": "))
			continue;
		ft_strcpy(l->driver, drivers[i], sizeof(l->driver));
		ft_strcpy(l->rest, s + 2, sizeof(l->rest));
		return true;
	}
	n = strcspn(text, " ");
	if (!n || n >= sizeof(l->driver) || text[n] != ' ')
		return false;
	s = address(text + n + 1, l->bdf);
	if (!s || (*s != ':' && *s != ' '))
		return false;
	s = strstr(s, ": ");
	if (!s)
		return false;
	ft_strcpy(l->driver, text, n + 1);
	ft_strcpy(l->rest, s + 2, sizeof(l->rest));
	return true;
}

/*
 * "DEVICE=+pci:0000:40:01.0", one of the lines that follow, each with a leading space. It has the
 * device that the driver had in hand: only dev_printk() makes it.
 */
static bool read_device(const char *s, const char *end, char out[16])
{
	static const char tag[] = "\n DEVICE=+pci:";
	const char *at = memmem(s, end - s, tag, strlen(tag));
	char value[24] = "", bdf[16];
	size_t n;

	if (!at)
		return false;
	at += strlen(tag);
	n = MIN((size_t)(end - at), sizeof(value) - 1);
	memcpy(value, at, n);
	value[strcspn(value, "\n")] = 0;
	at = address(value, bdf);
	if (!at || *at)
		return false;
	memcpy(out, bdf, sizeof(bdf));
	return true;
}

/* *at: behind the needle. */
static const struct pattern *find_pattern(const struct line *l, const char **at)
{
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		const struct pattern *p = &patterns[i];

		if (p->driver && strcmp(p->driver, l->driver) != 0)
			continue;
		*at = strstr(l->rest, p->needle);
		if (!*at)
			continue;
		*at += strlen(p->needle);
		return p;
	}
	return NULL;
}

static void read_text(const char *text, size_t len, const char *end, struct ft_klog_fact *f)
{
	struct ft_klog_fact fact = { .seq = f->seq, .usec = f->usec };
	const struct pattern *p;
	char copy[REST_MAX + 64];
	struct line l;
	const char *at;

	len = MIN(len, sizeof(copy) - 1);
	memcpy(copy, text, len);
	copy[len] = 0;
	p = cut_writer(copy, &l) ? find_pattern(&l, &at) : NULL;
	if (!p)
		return;
	/* Without it the line is of a process that bears such a name: "ice 0000:41:..[77]: segfault". */
	if (l.bdf[0] && !read_device(text, end, l.bdf))
		return;
	fact.of = p->driver && p->read != read_slot ? FT_KLOG_OF_KNOWN : FT_KLOG_OF_ANY;
	fact.what = p->what;
	fact.status = fact.pid = fact.xid = FT_NONE_U32;
	ft_strcpy(fact.driver, l.driver, sizeof(fact.driver));
	ft_strcpy(fact.bdf, l.bdf, sizeof(fact.bdf));
	if (p->read(&l, at, &fact))
		*f = fact;
}

int ft_klog_parse(const char *line, size_t len, struct ft_klog_fact *out)
{
	const char *s = line, *end = line + len, *text;
	struct ft_klog_fact f = {};
	uint64_t prio;

	if (!number(&s, end, &prio) || s == end || *s++ != ',' || !number(&s, end, &f.seq) ||
	    s == end || *s++ != ',' || !number(&s, end, &f.usec) || s == end || *s != ',')
		return -EBADMSG;
	/* Flags, and what later kernels may put behind them ("caller=T12"). */
	text = memchr(s, ';', end - s);
	if (!text)
		return -EBADMSG;
	text++;
	s = memchr(text, '\n', end - text);
	/* Facility 0 is the kernel: a line written to /dev/kmsg always gets another one (1, user). */
	if (prio >> 3 == 0)
		read_text(text, (s ? s : end) - text, end, &f);
	*out = f;
	return 0;
}
