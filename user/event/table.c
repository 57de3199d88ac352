// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Tables made from events.def by the preprocessor. */
#include "event/event.h"

const char *const ft_severity_name[] = { "info", "warning", "error", "fatal" };

/* Formats: the plain ones, then one per list of names. */
static const struct ft_format ft_format_dec = { "dec", NULL };
static const struct ft_format ft_format_big = { "big", NULL };
static const struct ft_format ft_format_hex = { "hex", NULL };
static const struct ft_format ft_format_flag = { "flag", NULL };
static const struct ft_format ft_format_text = { "text", NULL };
static const struct ft_format ft_format_addr = { "addr", NULL };
static const struct ft_format ft_format_hidden = { "hidden", NULL };

#define N(value, name) { value, name },
#define NAMES(id, list)                                                                            \
	static const struct ft_name names_##id[] = { list{ 0, NULL } };                            \
	const struct ft_format ft_format_##id = { #id, names_##id };
#include "schema/events.def"
#undef N

#define FIELD(t, nm, fmt, dc, rl)                                                                  \
	{                                                                                          \
		.name = #nm,                                                                       \
		.doc = dc,                                                                         \
		.format = &ft_format_##fmt,                                                        \
		.off = offsetof(self, nm),                                                         \
		.size = sizeof(((self *)0)->nm),                                                   \
		.type = FT_T_##t,                                                                  \
		.role = rl,                                                                        \
	},
#define F(type, name, format, doc)  FIELD(type, name, format, doc, FT_ROLE_KEY)
#define FS(type, name, format, doc) FIELD(type, name, format, doc, FT_ROLE_SUM)
#define FV(type, name, format, doc) FIELD(type, name, format, doc, FT_ROLE_VARIES)
#define EVENT(number, id, name, severity, doc, list)                                               \
	static const struct ft_field *fields_##id(size_t *n)                                       \
	{                                                                                          \
		typedef struct ft_ev_##id self;                                                    \
		static const struct ft_field f[] = { list };                                       \
                                                                                                   \
		*n = ARRAY_SIZE(f);                                                                \
		return f;                                                                          \
	}
#include "schema/events.def"

#define EVENT(number, id, name_, severity_, doc_, list)                                            \
	[number] = {                                                                               \
		.name = name_,                                                                     \
		.doc = doc_,                                                                       \
		.severity = FT_##severity_,                                                        \
		.kind = number,                                                                    \
		.size = sizeof(struct ft_ev_##id),                                                 \
		.fields = fields_##id,                                                             \
	},
static const struct ft_kind_info kinds[FT_KIND_MAX] = {
#include "schema/events.def"
};

static const char *const how_names[] = {
#define HOW(bit, id, name, doc) [bit] = name,
#include "schema/how.def"
};

const struct ft_kind_info *ft_kind(unsigned int kind)
{
	return kind < FT_KIND_MAX && kinds[kind].name ? &kinds[kind] : NULL;
}

const struct ft_kind_info *ft_kind_by_name(const char *name)
{
	for (unsigned int k = 0; k < FT_KIND_MAX; k++)
		if (kinds[k].name && !strcmp(kinds[k].name, name))
			return &kinds[k];
	return NULL;
}

const struct ft_field *ft_field(const struct ft_kind_info *k, const char *name)
{
	size_t n;
	const struct ft_field *f = k->fields(&n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(f[i].name, name))
			return &f[i];
	return NULL;
}

const char *ft_how_name(unsigned int bit)
{
	return bit < ARRAY_SIZE(how_names) ? how_names[bit] : NULL;
}

const char *ft_value_name(const struct ft_format *f, uint64_t value)
{
	for (const struct ft_name *n = f->names; n && n->name; n++)
		if (n->value == value)
			return n->name;
	return NULL;
}

const char *ft_name_of(const struct ft_format *f, uint64_t value)
{
	const char *name = ft_value_name(f, value);

	return name ? name : "?";
}
