// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* NDJSON: every event, one line each. */
#include "output/internal.h"

struct out_json {
	struct ft_out o;
	struct ft_out_opts opts;
	struct writer w;
};

static int json_event(struct ft_out *o, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	struct out_json *j = container_of(o, struct out_json, o);

	if (j->w.err)
		return j->w.err;
	ft_json_event(&j->w.buf, ev, attr, j->opts.host, j->opts.clock);
	ft_buf_puts(&j->w.buf, "\n");
	return writer_commit(&j->w);
}

static int json_flush(struct ft_out *o, uint64_t now_ns)
{
	(void)now_ns;
	return writer_flush(&container_of(o, struct out_json, o)->w);
}

static void json_free(struct ft_out *o)
{
	struct out_json *j = container_of(o, struct out_json, o);

	ft_buf_free(&j->w.buf);
	free(j);
}

int ft_out_json(struct ft_out **out, const struct ft_out_opts *opts)
{
	static const struct ft_out_ops ops = { json_event, json_flush, json_free };
	struct out_json *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	*j = (struct out_json){ .o.ops = &ops, .opts = *opts, .w.fd = opts->fd };
	*out = &j->o;
	return 0;
}
