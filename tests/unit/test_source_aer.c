// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Names of AER's status bits and what packet headers say, from records as the kernel side sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "include/ft_shared.h"
#include "source/aer.h"

enum { NONFATAL, FATAL, CORRECTABLE };

static struct ft_ev_pcie_aer *new_aer(struct ft_rec *rec, uint8_t aer_class, uint32_t status)
{
	struct ft_ev_pcie_aer *e = ft_rec_new(rec, FT_KIND_pcie_aer, 1);

	e->aer_class = aer_class;
	e->status = status;
	e->before = e->advisory = 0;
	strcpy(e->device, "0001:41:00.0");
	return e;
}

/* The data object of its line, as users see it. */
static void is_data(struct ft_rec *rec, const char *expected)
{
	_cleanup_buf_ struct ft_buf b = {};

	assert_int_equal(ft_rec_check(rec->buf, rec->h.size), 0);
	ft_json_data(&b, &rec->h);
	if (!strstr(b.s, expected))
		fail_msg("%s is not in %s", expected, b.s);
}

static void test_names(void **state)
{
	static const struct {
		uint8_t aer_class;
		uint32_t status;
		const char *errors;
	} cases[] = {
		{ CORRECTABLE, 0x1, "[\"RxErr\"]" },
		{ CORRECTABLE, 0x31c1,
		  "[\"RxErr\",\"BadTLP\",\"BadDLLP\",\"Rollover\",\"Timeout\",\"NonFatalErr\"]" },
		{ CORRECTABLE, 0xc000, "[\"CorrIntErr\",\"HeaderOF\"]" },
		{ NONFATAL, 0x1000, "[\"TLP\"]" },
		{ NONFATAL, 0x5000, "[\"TLP\",\"CmpltTO\"]" },
		{ FATAL, 0x40030, "[\"DLP\",\"SDES\",\"MalfTLP\"]" },
		{ FATAL, 0xfc000000,
		  "[\"PoisonTLPBlocked\",\"DMWrReqBlocked\",\"IDECheck\",\"MisIDETLP\","
		  "\"PCRC_CHECK\",\"TLPXlatBlocked\"]" },
		/* the same bit has another name, or none */
		{ NONFATAL, 0x40, "[\"bit 6\"]" },
		{ CORRECTABLE, 0x80000000, "[\"bit 31\"]" },
		{ FATAL, 0, "\"errors\":[]" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ft_rec rec;

		new_aer(&rec, cases[i].aer_class, cases[i].status);
		ft_aer_texts(&rec);
		is_data(&rec, cases[i].errors);
		is_data(&rec, "\"type\":null");
	}
}

/* Records that stand for many have no status: that is unknown, not all of them. */
static void test_no_status(void **state)
{
	struct ft_rec rec;

	(void)state;
	new_aer(&rec, NONFATAL, FT_NONE_U32);
	ft_aer_texts(&rec);
	is_data(&rec, "\"status\":null");
	is_data(&rec, "\"errors\":[]");
}

/* All bits but one at once: the longest record. */
static void test_all_bits(void **state)
{
	struct ft_rec rec;

	(void)state;
	new_aer(&rec, NONFATAL, 0xfffffffe)->bus = FT_AER_BUS_CXL;
	ft_aer_texts(&rec);
	is_data(&rec, "\"bus_type\":\"CXL\"");
	is_data(&rec, "\"TLPXlatBlocked\"]");
}

#define TLP(type, requester, address)                                                              \
	"\"address\":" address ",\"type\":" type ",\"requester\":" requester

static void test_tlp(void **state)
{
	static const struct {
		uint32_t dw[4];
		const char *tlp;
	} cases[] = {
		/* memory: 3 and 4 words; the low bits of the address are none of it */
		{ { 0x00000001, 0x4200000f, 0xfebf1004, 0 },
		  TLP("\"MRd\"", "\"0001:42:00.0\"", "\"0xfebf1004\"") },
		{ { 0x20000040, 0x01f900ff, 0x00000038, 0xabcdef03 },
		  TLP("\"MRd\"", "\"0001:01:1f.1\"", "\"0x38abcdef00\"") },
		{ { 0x60000060, 0x01000001, 0x38000038, 0xabcdcdab },
		  TLP("\"MWr\"", "\"0001:01:00.0\"", "\"0x38000038abcdcda8\"") },
		{ { 0x40000001, 0x0100000f, 0x00001000, 0 },
		  TLP("\"MWr\"", "\"0001:01:00.0\"", "\"0x1000\"") },
		{ { 0x6c000001, 0x01000000, 0x1, 0x1000 },
		  TLP("\"FetchAdd\"", "\"0001:01:00.0\"", "\"0x100001000\"") },
		{ { 0x4d000001, 0x01000000, 0x1000, 0 },
		  TLP("\"Swap\"", "\"0001:01:00.0\"", "\"0x1000\"") },
		{ { 0x02000001, 0x0100000f, 0x0000cf8, 0 },
		  TLP("\"IORd\"", "\"0001:01:00.0\"", "\"0xcf8\"") },
		/* what they have instead of an address is none */
		{ { 0x04000001, 0x0000000f, 0x41000010, 0 },
		  TLP("\"CfgRd0\"", "\"0001:00:00.0\"", "null") },
		{ { 0x44000001, 0x0000000f, 0x41000010, 0 },
		  TLP("\"CfgWr0\"", "\"0001:00:00.0\"", "null") },
		{ { 0x05000001, 0x0000000f, 0x41000010, 0 },
		  TLP("\"CfgRd1\"", "\"0001:00:00.0\"", "null") },
		/* the first is who completes, the second who asked */
		{ { 0x0a000000, 0x41002004, 0x42000000, 0 },
		  TLP("\"Cpl\"", "\"0001:42:00.0\"", "null") },
		{ { 0x4a000001, 0x41000004, 0x42010000, 0 },
		  TLP("\"CplD\"", "\"0001:42:00.1\"", "null") },
		{ { 0x34000000, 0x41000014, 0, 0 }, TLP("\"Msg\"", "\"0001:41:00.0\"", "null") },
		{ { 0x73000001, 0x4100007e, 0, 0 }, TLP("\"MsgD\"", "\"0001:41:00.0\"", "null") },
		/* a prefix, and what no packet has: numbers only */
		{ { 0x91000000, 0x41000014, 0, 0 }, TLP("null", "null", "null") },
		{ { 0x1f000000, 0x41000014, 0, 0 }, TLP("null", "null", "null") },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ft_rec rec;
		struct ft_ev_pcie_aer *e = new_aer(&rec, NONFATAL, 0x1000);

		memcpy(&e->tlp__dw0, cases[i].dw, sizeof(cases[i].dw));
		ft_aer_texts(&rec);
		is_data(&rec, cases[i].tlp);
		is_data(&rec, "\"bus_type\":null");
	}
}

/* Links in flit mode have other first words. */
static void test_flit(void **state)
{
	struct ft_rec rec;
	struct ft_ev_pcie_aer *e = new_aer(&rec, NONFATAL, 0x1000);

	(void)state;
	e->tlp__dw0 = 0x60000060;
	e->tlp__dw1 = e->tlp__dw2 = e->tlp__dw3 = 0;
	e->bus = FT_AER_BUS_PCIE | FT_AER_FLIT;
	ft_aer_texts(&rec);
	is_data(&rec, "\"dw0\":\"0x60000060\"");
	is_data(&rec, TLP("null", "null", "null"));
	is_data(&rec, "\"bus_type\":\"PCIe\"");
}

static void test_gone(void **state)
{
	struct ft_rec rec, gone;

	(void)state;
	new_aer(&rec, FATAL, 0x40000);
	assert_false(ft_aer_gone(&rec, &gone));
	new_aer(&rec, NONFATAL, 0);
	assert_false(ft_aer_gone(&rec, &gone));
	new_aer(&rec, FATAL, 0);
	assert_true(ft_aer_gone(&rec, &gone));
	is_data(&gone, "\"how_seen\":\"error state: inaccessible\",\"before\":false,\"port\":null,"
		       "\"device\":\"0001:41:00.0\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	 cmocka_unit_test(test_no_status),
		cmocka_unit_test(test_all_bits), cmocka_unit_test(test_tlp),
		cmocka_unit_test(test_flit),	 cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
