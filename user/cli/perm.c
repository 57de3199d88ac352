// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What the tracer may do, and what it loses with each capability that it lacks. */
#include <sys/capability.h>

#include "cli/cli.h"
#include "source/source.h"

static const struct {
	cap_value_t cap;
	const char *name;
	bool admin_will_do; /* CAP_SYS_ADMIN includes it */
	const char *hides;
} needs[] = {
	{ CAP_BPF, "CAP_BPF", true, "everything that comes from the kernel" },
	{ CAP_PERFMON, "CAP_PERFMON", true, "everything that comes from the kernel" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false,
	  "libraries, environment and open files of other users' processes" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false,
	  "files of other users: libraries in containers" },
	{ CAP_NET_ADMIN, "CAP_NET_ADMIN", false, "details of interfaces" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN", true,
	  "interfaces in other network namespaces, raw PCI configuration" },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", true,
	  "map_files: deleted or replaced libraries" },
	{ CAP_SYSLOG, "CAP_SYSLOG", false,
	  "the kernel log, and names of the functions that drop packets" },
};

static bool have(cap_t caps, cap_value_t cap)
{
	cap_flag_value_t v;

	return !cap_get_flag(caps, cap, CAP_EFFECTIVE, &v) && v == CAP_SET;
}

int ft_perm_missing(struct ft_buf *out, bool essential,
		    void (*each)(struct ft_buf *, const char *, const char *))
{
	cap_t caps = cap_get_proc();
	int missing = 0;

	if (!caps)
		return 0;
	for (size_t i = 0; i < (essential ? 2 : ARRAY_SIZE(needs)); i++) {
		if (have(caps, needs[i].cap) ||
		    (needs[i].admin_will_do && have(caps, CAP_SYS_ADMIN)))
			continue;
		if (each)
			each(out, needs[i].name, needs[i].hides);
		missing++;
	}
	cap_free(caps);
	return missing;
}

static void name_only(struct ft_buf *b, const char *name, const char *hides)
{
	(void)hides;
	ft_buf_printf(b, "%s%s", b->len ? " and " : "", name);
}

/*
 * Since 5.4 this mode takes from the verifier the helpers that read kernel memory: a program that
 * calls one is refused with -EINVAL, as if it were wrong.
 */
static bool locked_down(void)
{
	char mode[128];

	return !ft_read_line("", "/sys/kernel/security/lockdown", mode, sizeof(mode)) &&
	       strstr(mode, "[confidentiality]");
}

void ft_perm_explain(struct ft_bpf *b)
{
	bool locked = locked_down();
	size_t n;
	struct ft_probe *p = ft_bpf_probes(b, &n);

	for (size_t i = 0; locked && i < n; i++)
		if (p[i].error == -EINVAL || p[i].error == -EPERM || p[i].error == -EACCES)
			ft_fmt(p[i].reason,
			       "the kernel is locked down (confidentiality); integrity or none would do");
}

static int no_permission(int err)
{
	_cleanup_buf_ struct ft_buf names = {};

	if (ft_perm_missing(&names, true, name_only)) {
		ft_err("not permitted: %s missing; run as root, or grant the capabilities (man fabrictrace, "
		       "CAPABILITIES)",
		       names.s);
		return FT_EXIT_NOPERM;
	}
	ft_err("the kernel refused every program: %s; `fabrictrace probes -v` shows its words",
	       strerror(-err));
	return FT_EXIT_NOPERM;
}

int ft_bpf_failed(int err)
{
	bool refused = err == -EPERM || err == -EACCES;

	if ((refused || err == -EINVAL) && !ft_perm_missing(NULL, true, NULL) && locked_down()) {
		ft_err("the kernel is locked down (confidentiality): it refuses every tracing program; boot with "
		       "lockdown=integrity or none");
		return FT_EXIT_UNAVAILABLE;
	}
	if (refused)
		return no_permission(err);
	if (err == -ENOTSUP) {
		ft_err("this kernel has no BTF (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF=y, as the kernels "
		       "of all current distributions have");
		return FT_EXIT_UNAVAILABLE;
	}
	ft_err("cannot load the tracing programs: %s; `fabrictrace probes -v` shows why",
	       strerror(-err));
	return err == -ENOMEM ? FT_EXIT_INTERNAL : FT_EXIT_UNAVAILABLE;
}
