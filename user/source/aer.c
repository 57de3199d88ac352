// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Names: drivers/pci/pcie/aer.c of 7.3; the bits from 26 on have none in older kernels, whose
 * hardware may set them all the same. Headers: PCI Express Base Specification, "Transaction Layer
 * Protocol - Packet Definition".
 */
#include "source/aer.h"
#include "include/ft_shared.h"

static const char *const correctable[32] = {
	[0] = "RxErr",	  [6] = "BadTLP",	[7] = "BadDLLP",     [8] = "Rollover",
	[12] = "Timeout", [13] = "NonFatalErr", [14] = "CorrIntErr", [15] = "HeaderOF",
};

static const char *const uncorrectable[32] = {
	[0] = "Undefined",
	[4] = "DLP",
	[5] = "SDES",
	[12] = "TLP",
	[13] = "FCP",
	[14] = "CmpltTO",
	[15] = "CmpltAbrt",
	[16] = "UnxCmplt",
	[17] = "RxOF",
	[18] = "MalfTLP",
	[19] = "ECRC",
	[20] = "UnsupReq",
	[21] = "ACSViol",
	[22] = "UncorrIntErr",
	[23] = "BlockedTLP",
	[24] = "AtomicOpBlocked",
	[25] = "TLPBlockedErr",
	[26] = "PoisonTLPBlocked",
	[27] = "DMWrReqBlocked",
	[28] = "IDECheck",
	[29] = "MisIDETLP",
	[30] = "PCRC_CHECK",
	[31] = "TLPXlatBlocked",
};

/* Values of events.def's names. */
#define CLASS_FATAL	  1
#define CLASS_CORRECTABLE 2
#define GONE_INACCESSIBLE 2

void ft_aer_names(struct ft_rec *rec, struct ft_str *field, uint8_t aer_class, uint32_t status)
{
	const char *const *names = aer_class == CLASS_CORRECTABLE ? correctable : uncorrectable;
	char text[16];

	if (status == FT_NONE_U32 || aer_class == FT_NONE_U8)
		return;
	for (unsigned int bit = 0; bit < 32; bit++) {
		if (!(status & 1u << bit))
			continue;
		ft_fmt(text, "bit %u", bit);
		ft_rec_strs_add(rec, field, names[bit] ?: text);
	}
}

/* Where a header has what. */
enum form { MEMORY, IO, CONFIG, COMPLETION, MESSAGE };

/* Fmt (3 bits) and Type (5 bits) of a header's first byte. */
static const struct {
	uint8_t value, mask;
	enum form form;
	const char *name;
} types[] = {
	{ 0x00, 0xdf, MEMORY, "MRd" },	      { 0x01, 0xdf, MEMORY, "MRdLk" },
	{ 0x40, 0xdf, MEMORY, "MWr" },	      { 0x5b, 0xdf, MEMORY, "DMWr" },
	{ 0x4c, 0xdf, MEMORY, "FetchAdd" },   { 0x4d, 0xdf, MEMORY, "Swap" },
	{ 0x4e, 0xdf, MEMORY, "CAS" },	      { 0x02, 0xff, IO, "IORd" },
	{ 0x42, 0xff, IO, "IOWr" },	      { 0x04, 0xff, CONFIG, "CfgRd0" },
	{ 0x44, 0xff, CONFIG, "CfgWr0" },     { 0x05, 0xff, CONFIG, "CfgRd1" },
	{ 0x45, 0xff, CONFIG, "CfgWr1" },     { 0x0a, 0xff, COMPLETION, "Cpl" },
	{ 0x4a, 0xff, COMPLETION, "CplD" },   { 0x0b, 0xff, COMPLETION, "CplLk" },
	{ 0x4b, 0xff, COMPLETION, "CplDLk" }, { 0x30, 0xf8, MESSAGE, "Msg" },
	{ 0x70, 0xf8, MESSAGE, "MsgD" },
};

#define FMT_4_WORDS 0x20

static uint64_t address(const struct ft_ev_pcie_aer *e, enum form form, uint8_t first)
{
	if (form == IO || (form == MEMORY && !(first & FMT_4_WORDS)))
		return e->tlp__dw2 & ~3u;
	if (form == MEMORY)
		return (uint64_t)e->tlp__dw2 << 32 | (e->tlp__dw3 & ~3u);
	return FT_NONE_U64;
}

/* A header names bus, device and function; the domain is that of who reported it. */
static void requester(const struct ft_ev_pcie_aer *e, enum form form, char *out, size_t size)
{
	uint32_t id = (form == COMPLETION ? e->tlp__dw2 : e->tlp__dw1) >> 16;
	int domain = strcspn(e->device, ":");

	snprintf(out, size, "%.*s:%02x:%02x.%x", domain, e->device, id >> 8, id >> 3 & 0x1f,
		 id & 7);
}

static void tlp_texts(struct ft_rec *rec, struct ft_ev_pcie_aer *e)
{
	uint8_t first = e->tlp__dw0 >> 24;
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if ((first & types[i].mask) != types[i].value)
			continue;
		e->tlp__address = address(e, types[i].form, first);
		ft_rec_str(rec, &e->tlp__type, types[i].name);
		requester(e, types[i].form, text, sizeof(text));
		ft_rec_str(rec, &e->tlp__requester, text);
		return;
	}
}

void ft_aer_texts(struct ft_rec *rec)
{
	struct ft_ev_pcie_aer *e = (void *)rec->buf;
	uint8_t bus = e->bus & ~FT_AER_FLIT;

	e->device[sizeof(e->device) - 1] = 0;
	/* In flit mode the first word is of another kind. */
	if (e->tlp__dw0 != FT_NONE_U32 && !(e->bus & FT_AER_FLIT))
		tlp_texts(rec, e);
	if (bus)
		ft_rec_str(rec, &e->bus_type, bus == FT_AER_BUS_CXL ? "CXL" : "PCIe");
	ft_aer_names(rec, &e->errors, e->aer_class, e->status);
}

/* The kernel reads no register of an endpoint that reports a fatal error: its link may be dead. */
bool ft_aer_gone(const struct ft_rec *rec, struct ft_rec *out)
{
	const struct ft_ev_pcie_aer *e = (const void *)rec->buf;
	struct ft_ev_pcie_gone *gone;

	if (e->aer_class != CLASS_FATAL || e->status)
		return false;
	gone = ft_rec_new(out, FT_KIND_pcie_gone, e->h.ts_ns);
	gone->how_seen = GONE_INACCESSIBLE;
	gone->before = 0;
	memcpy(gone->device, e->device, sizeof(gone->device));
	return true;
}
