// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What a control group's path tells of container, pod and job. */
#include <ctype.h>

#include "host/proc.h"

static size_t hex_run(const char *s)
{
	size_t n = 0;

	while (isdigit((unsigned char)s[n]) || (s[n] >= 'a' && s[n] <= 'f'))
		n++;
	return n;
}

/*
 * Every runtime names a container by 64 hex digits: docker-ID.scope, /docker/ID, cri-containerd-
 * ID.scope, crio-ID.scope, libpod-ID.scope, kubepods/.../podUID/ID. The innermost one counts
 * (docker in docker).
 */
static void find_container(const char *path, char *out, size_t size)
{
	for (const char *p = path; *p;) {
		size_t n = hex_run(p);

		if (n == 64 && (p == path || !isalnum((unsigned char)p[-1])) &&
		    !isalnum((unsigned char)p[n]))
			ft_strcpy(out, p, MIN(size, n + 1));
		p += n ? n : 1;
	}
}

static bool uid_copy(const char *s, char out[40])
{
	static const char form[] = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
	size_t n = hex_run(s);

	/* Static pods have a hash without dashes. */
	if (n == 32) {
		ft_strcpy(out, s, n + 1);
		return true;
	}
	for (size_t i = 0; i < sizeof(form) - 1; i++) {
		/* systemd's unit names have _ for - */
		bool dash = s[i] == '-' || s[i] == '_';

		if (form[i] == '-' ? !dash : !isxdigit((unsigned char)s[i]))
			return false;
	}
	ft_strcpy(out, s, sizeof(form));
	for (char *c = out; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return true;
}

static void find_pod(const char *path, char out[40])
{
	const char *p = strstr(path, "kubepods");

	while (p && (p = strstr(p, "pod"))) {
		p += 3;
		if (uid_copy(p, out))
			return;
	}
}

/* The text between `name` at the start of a component and the component's end. */
static void find_component(const char *path, const char *name, char *out, size_t size)
{
	size_t len = strlen(name);

	for (const char *p = path; (p = strchr(p, '/'));) {
		p++;
		if (strncmp(p, name, len) != 0)
			continue;
		ft_strcpy(out, p + len, MIN(size, strcspn(p + len, "/") + 1));
		return;
	}
}

static void line_parse(const char *path, struct ft_cgroup *cg)
{
	/*
	 * With v1 or both, controllers that the runtime does not use stay at the root: the deepest
	 * path tells most.
	 */
	if (strlen(path) > strlen(cg->path))
		ft_strcpy(cg->path, path, sizeof(cg->path));
	if (!cg->container[0])
		find_container(path, cg->container, sizeof(cg->container));
	if (!cg->pod[0])
		find_pod(path, cg->pod);
	if (!cg->job[0])
		find_component(path, "job_", cg->job, sizeof(cg->job));
	if (!cg->step[0])
		find_component(path, "step_", cg->step, sizeof(cg->step));
	if (cg->job[strspn(cg->job, "0123456789")])
		cg->job[0] = cg->step[0] = 0; /* not Slurm's */
}

void ft_cgroup_parse(const char *text, struct ft_cgroup *out)
{
	struct ft_cgroup cg = {};
	char path[sizeof(cg.path)];

	while (*text) {
		size_t len = strcspn(text, "\n");
		const char *colon = memchr(text, ':', len);

		colon = colon ? memchr(colon + 1, ':', len - (colon + 1 - text)) : NULL;
		if (colon) {
			ft_strcpy(path, colon + 1, MIN(sizeof(path), len - (colon - text)));
			line_parse(path, &cg);
		}
		text += len + (text[len] == '\n');
	}
	*out = cg;
}
