// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* One event as one line of JSON; the JSON Schema of these lines. */
#include <arpa/inet.h>

#include "event/event.h"

static bool fmt_is(const struct ft_field *f, const char *name)
{
	return !strcmp(f->format->name, name);
}

static void json_cstr(struct ft_buf *b, const char *s)
{
	if (s && *s)
		ft_buf_json_str(b, s, strlen(s));
	else
		ft_buf_puts(b, "null");
}

static void json_addr(struct ft_buf *b, const uint8_t *ip)
{
	static const uint8_t none[16], mapped[12] = { [10] = 0xff, [11] = 0xff };
	char text[INET6_ADDRSTRLEN];
	bool v4 = !memcmp(ip, mapped, sizeof(mapped));

	if (!memcmp(ip, none, sizeof(none))) {
		ft_buf_puts(b, "null");
		return;
	}
	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? ip + 12 : ip, text, sizeof(text));
	ft_buf_printf(b, "\"%s\"", text);
}

static void json_strs(struct ft_buf *b, const char *s, size_t len)
{
	ft_buf_puts(b, "[");
	for (size_t i = 0; i < len;) {
		size_t n = strnlen(s + i, len - i);

		if (i)
			ft_buf_puts(b, ",");
		ft_buf_json_str(b, s + i, n);
		i += n + 1;
	}
	ft_buf_puts(b, "]");
}

static void json_text(struct ft_buf *b, const struct ft_field *f, const struct ft_hdr *ev)
{
	size_t len;
	const char *s = ft_field_text(f, ev, &len);

	if (f->type == FT_T_strs)
		json_strs(b, s, len);
	else if (len)
		ft_buf_json_str(b, s, len);
	else
		ft_buf_puts(b, "null");
}

static void json_number(struct ft_buf *b, const struct ft_field *f, uint64_t v)
{
	const char *name = ft_value_name(f->format, v);

	if (name)
		ft_buf_json_str(b, name, strlen(name));
	else if (f->format->names)
		ft_buf_printf(b, "\"%llu\"", (unsigned long long)v);
	else if (fmt_is(f, "flag"))
		ft_buf_puts(b, v ? "true" : "false");
	else if (fmt_is(f, "hex"))
		ft_buf_printf(b, "\"0x%llx\"", (unsigned long long)v);
	else if (fmt_is(f, "big"))
		ft_buf_printf(b, "\"%llu\"", (unsigned long long)v);
	else if (f->type == FT_T_s32 || f->type == FT_T_s64)
		ft_buf_printf(b, "%lld", (long long)v);
	else
		ft_buf_printf(b, "%llu", (unsigned long long)v);
}

static void json_field(struct ft_buf *b, const struct ft_field *f, const struct ft_hdr *ev)
{
	bool gone = f->role == FT_ROLE_VARIES && (ev->flags & FT_REC_AGG);
	uint64_t v;

	if (f->type >= FT_T_c16 && f->type != FT_T_ip)
		json_text(b, f, ev);
	else if (f->type == FT_T_ip && !gone)
		json_addr(b, (const uint8_t *)ev + f->off);
	else if (ft_field_get(f, ev, &v))
		json_number(b, f, v);
	else
		ft_buf_puts(b, "null");
}

/* Walks the fields, opening and closing the objects that `a__b` names stand for. */
static void each_field(struct ft_buf *b, const struct ft_kind_info *k, const struct ft_hdr *ev,
		       void (*value)(struct ft_buf *, const struct ft_field *,
				     const struct ft_hdr *),
		       const char *open, const char *close)
{
	const char *group = NULL;
	size_t n, group_len = 0;
	const struct ft_field *f = k->fields(&n);
	bool first = true;

	for (size_t i = 0; i < n; i++) {
		const char *name = f[i].name, *sep = strstr(name, "__");
		size_t len = sep ? (size_t)(sep - name) : 0;

		if (fmt_is(&f[i], "hidden"))
			continue;
		if (group && (!sep || len != group_len || strncmp(group, name, len) != 0)) {
			ft_buf_puts(b, close);
			group = NULL;
		}
		if (!first)
			ft_buf_puts(b, ",");
		if (sep && !group) {
			ft_buf_printf(b, "\"%.*s\":%s", (int)len, name, open);
			group = name;
			group_len = len;
		}
		ft_buf_add(b, "\"", 1);
		ft_buf_puts(b, sep ? sep + 2 : name);
		ft_buf_add(b, "\":", 2);
		value(b, &f[i], ev);
		first = false;
	}
	if (group)
		ft_buf_puts(b, close);
}

void ft_json_data(struct ft_buf *b, const struct ft_hdr *ev)
{
	ft_buf_puts(b, "{");
	each_field(b, ft_kind(ev->kind), ev, json_field, "{", "}");
	ft_buf_puts(b, "}");
}

static void json_int(struct ft_buf *b, const char *name, int64_t v)
{
	if (v < 0)
		ft_buf_printf(b, "\"%s\":null", name);
	else
		ft_buf_printf(b, "\"%s\":%lld", name, (long long)v);
}

static void json_ranks(struct ft_buf *b, const struct ft_attr *a)
{
	ft_buf_puts(b, ",\"ranks\":[");
	for (int i = 0; i < a->nranks; i++) {
		const struct ft_attr_rank *r = &a->ranks[i];

		ft_buf_puts(b, i ? ",{\"comm\":" : "{\"comm\":");
		if (r->comm)
			ft_buf_printf(b, "\"0x%llx\"", (unsigned long long)r->comm);
		else
			ft_buf_puts(b, "null");
		ft_buf_puts(b, ",");
		json_int(b, "rank", r->rank);
		ft_buf_puts(b, ",");
		json_int(b, "nranks", r->nranks);
		ft_buf_puts(b, ",");
		json_int(b, "global_rank", r->global_rank);
		ft_buf_puts(b, "}");
	}
}

static void json_devices(struct ft_buf *b, const struct ft_attr *a)
{
	ft_buf_puts(b, "],\"gpus\":[");
	for (int i = 0; i < a->ngpus; i++) {
		ft_buf_puts(b, i ? ",{" : "{");
		json_int(b, "index", a->gpus[i].index);
		ft_buf_puts(b, ",\"bdf\":");
		json_cstr(b, a->gpus[i].bdf);
		ft_buf_puts(b, "}");
	}
	ft_buf_puts(b, "],\"nics\":[");
	for (int i = 0; i < a->nnics; i++) {
		ft_buf_puts(b, i ? ",{\"netdev\":" : "{\"netdev\":");
		json_cstr(b, a->nics[i].netdev);
		ft_buf_puts(b, ",\"ibdev\":");
		json_cstr(b, a->nics[i].ibdev);
		ft_buf_puts(b, ",");
		json_int(b, "port", a->nics[i].port);
		ft_buf_puts(b, ",\"bdf\":");
		json_cstr(b, a->nics[i].bdf);
		ft_buf_puts(b, "}");
	}
	ft_buf_puts(b, "],\"links\":[");
	for (int i = 0; i < a->nlinks; i++) {
		if (i)
			ft_buf_puts(b, ",");
		json_cstr(b, a->links[i]);
	}
	ft_buf_puts(b, "]");
}

static void json_how(struct ft_buf *b, uint32_t how)
{
	bool first = true;

	ft_buf_puts(b, ",\"how\":[");
	for (unsigned int bit = 0; ft_how_name(bit); bit++) {
		if (!(how & (1u << bit)))
			continue;
		ft_buf_printf(b, "%s\"%s\"", first ? "" : ",", ft_how_name(bit));
		first = false;
	}
	ft_buf_puts(b, "]");
}

void ft_json_event(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr,
		   const char *host, const struct ft_clock *clock)
{
	static const struct ft_attr nothing;
	const struct ft_kind_info *k = ft_kind(ev->kind);
	uint64_t real = ev->ts_ns + clock->offset_ns;
	char iso[32];

	ft_time_iso(real, iso);
	ft_buf_printf(
		b,
		"{\"v\":1,\"ts_ns\":\"%llu\",\"time\":\"%s\",\"kind\":\"%s\",\"severity\":\"%s\",\"host\":",
		(unsigned long long)real, iso, k->name,
		ft_severity_name[attr ? attr->severity : k->severity]);
	json_cstr(b, host);
	if (ev->pid)
		ft_buf_printf(b, ",\"pid\":%u,\"task\":", ev->pid);
	else
		ft_buf_puts(b, ",\"pid\":null,\"task\":");
	if (ev->task[0])
		ft_buf_json_str(b, ev->task, strnlen(ev->task, sizeof(ev->task)));
	else
		ft_buf_puts(b, "null");
	ft_buf_puts(b, ",\"container\":");
	json_cstr(b, attr ? attr->container : NULL);
	ft_buf_printf(b, ",\"count\":%u", ev->count);
	if (ev->count > 1 || (ev->flags & FT_REC_AGG))
		ft_buf_printf(b, ",\"first_ts_ns\":\"%llu\",\"last_ts_ns\":\"%llu\"",
			      (unsigned long long)(ev->first_ns + clock->offset_ns),
			      (unsigned long long)(ev->last_ns + clock->offset_ns));
	attr = attr ? attr : &nothing;
	json_ranks(b, attr);
	json_devices(b, attr);
	ft_buf_printf(b, ",\"shared\":%s",
		      attr->shared || (ev->flags & FT_REC_SHARED) ? "true" : "false");
	json_how(b, attr->how | ev->how);
	if (ev->flags & FT_REC_LATE)
		ft_buf_puts(b, ",\"late\":true");
	if (ev->flags & FT_REC_BEFORE)
		ft_buf_puts(b, ",\"before_attach\":true");
	ft_buf_puts(b, ",\"data\":");
	ft_json_data(b, ev);
	ft_buf_puts(b, "}");
}

/* --- JSON Schema --- */

static void schema_field(struct ft_buf *b, const struct ft_field *f, const struct ft_hdr *ev)
{
	const char *type = "\"integer\",\"null\"";

	(void)ev;
	if (f->type == FT_T_strs) {
		ft_buf_puts(b, "{\"type\":\"array\",\"items\":{\"type\":\"string\"}");
	} else {
		if (f->type >= FT_T_c16 || fmt_is(f, "hex") || fmt_is(f, "big") || f->format->names)
			type = "\"string\",\"null\"";
		else if (fmt_is(f, "flag"))
			type = "\"boolean\",\"null\"";
		ft_buf_printf(b, "{\"type\":[%s]", type);
	}
	ft_buf_puts(b, ",\"description\":");
	ft_buf_json_str(b, f->doc, strlen(f->doc));
	ft_buf_puts(b, "}");
}

/* clang-format off */
#define TYPE(t)	       "{\"type\":\"" t "\"}"
#define NUL(t)	       "{\"type\":[\"" t "\",\"null\"]}"
#define P(name, value) "\"" name "\":" value
#define OBJECT(props)  "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" props "}}"
#define LIST(item)     "{\"type\":\"array\",\"items\":" item "}"
static const char schema_head[] =
	"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
	"\"title\":\"fabrictrace event\",\"type\":\"object\","
	"\"required\":[\"v\",\"ts_ns\",\"time\",\"kind\",\"severity\",\"host\",\"pid\",\"task\","
	"\"container\",\"count\",\"ranks\",\"gpus\",\"nics\",\"links\",\"shared\",\"how\",\"data\"],"
	"\"additionalProperties\":false,\"properties\":{"
	P("v", "{\"const\":1}") ","
	P("ts_ns", "{\"type\":\"string\",\"pattern\":\"^[0-9]+$\"}") ","
	P("time", TYPE("string")) ","
	P("severity", "{\"enum\":[\"info\",\"warning\",\"error\",\"fatal\"]}") ","
	P("host", NUL("string")) ","
	P("pid", NUL("integer")) ","
	P("task", NUL("string")) ","
	P("container", NUL("string")) ","
	P("count", "{\"type\":\"integer\",\"minimum\":1}") ","
	P("first_ts_ns", TYPE("string")) ","
	P("last_ts_ns", TYPE("string")) ","
	P("late", "{\"const\":true}") ","
	P("before_attach", "{\"const\":true}") ","
	P("shared", "{\"type\":\"boolean\",\"description\":\"more than one of the ranks, GPUs or NICs "
		"listed is possible, or another process than pid: one that inherited the socket and is a "
		"rank itself, or belongs to no rank. What a rank forks works for the rank and puts "
		"nothing in doubt: then how alone says inherited\"}") ","
	P("ranks", LIST(OBJECT(P("comm", NUL("string")) "," P("rank", NUL("integer")) ","
		P("nranks", NUL("integer")) "," P("global_rank", NUL("integer"))))) ","
	P("gpus", LIST(OBJECT(P("index", NUL("integer")) "," P("bdf", NUL("string"))))) ","
	P("nics", LIST(OBJECT(P("netdev", NUL("string")) "," P("ibdev", NUL("string")) ","
		P("port", NUL("integer")) "," P("bdf", NUL("string"))))) ","
	P("links", LIST(TYPE("string"))) ",";
/* clang-format on */

void ft_json_schema(struct ft_buf *b)
{
	bool first = true;

	ft_buf_puts(b, schema_head);
	ft_buf_puts(b, "\"how\":{\"type\":\"array\",\"items\":{\"enum\":[");
	for (unsigned int i = 0; ft_how_name(i); i++)
		ft_buf_printf(b, "%s\"%s\"", i ? "," : "", ft_how_name(i));
	ft_buf_puts(
		b,
		"]}},\"kind\":{\"type\":\"string\"},\"data\":{\"type\":\"object\"}},\"oneOf\":[");
	for (unsigned int i = 0; i < FT_KIND_MAX; i++) {
		const struct ft_kind_info *k = ft_kind(i);

		if (!k)
			continue;
		ft_buf_printf(b, "%s{\"description\":", first ? "" : ",");
		ft_buf_json_str(b, k->doc, strlen(k->doc));
		ft_buf_printf(
			b,
			",\"properties\":{\"kind\":{\"const\":\"%s\"},\"data\":{\"additionalProperties\":false,"
			"\"properties\":{",
			k->name);
		each_field(b, k, NULL, schema_field, "{\"type\":\"object\",\"properties\":{", "}}");
		ft_buf_puts(b, "}}}}");
		first = false;
	}
	ft_buf_puts(b, "]}\n");
}
