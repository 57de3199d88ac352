// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * NCCL's functions in an ELF file. Looked up through the dynamic section's hash table as the
 * dynamic linker does, a few small reads a name: the library of a CUDA toolkit has 218 MB, the
 * dynamic symbol table of libtorch_cuda.so tens of MB. Everything is read by pread and nothing is
 * mapped: a file that is truncated under a mapping kills the reader with SIGBUS.
 */
#include <elf.h>
#include <sys/stat.h>

#include "nccl/nccl.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#error "which registers hold the arguments?"
#endif

#define PHDRS_MAX     64
#define SHDRS_MAX     4096
#define DYNS_MAX      1024
#define CHAIN_MAX     4096	 /* symbols of one hash bucket: ordinary files have less than 10 */
#define VERSION_MAX   (8u << 20) /* bytes of .rodata that are searched; libnccl 2.28.9: 0.2 MB */
#define VERSION_CHUNK 65536u
#define NAME_MAX_LEN  40

struct elf {
	int fd;
	uint64_t size;
	Elf64_Ehdr ehdr;
	unsigned int nphdrs;
	Elf64_Phdr phdrs[PHDRS_MAX];
	/* of the dynamic section: addresses */
	uint64_t symtab, strtab, strsz, gnu_hash, hash;
};

/* All of len bytes at off, or an error. */
static int read_at(const struct elf *e, uint64_t off, void *buf, size_t len)
{
	ssize_t n;

	if (off > e->size || len > e->size - off)
		return -EBADMSG;
	n = pread(e->fd, buf, len, off);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EBADMSG;
}

/* File offset of an address; the segment's flags must include `flags`. */
static int addr_to_off(const struct elf *e, uint64_t addr, uint32_t flags, uint64_t *off)
{
	for (unsigned int i = 0; i < e->nphdrs; i++) {
		const Elf64_Phdr *p = &e->phdrs[i];

		if (p->p_type != PT_LOAD || (p->p_flags & flags) != flags)
			continue;
		if (addr < p->p_vaddr || addr - p->p_vaddr >= p->p_filesz)
			continue;
		if (__builtin_add_overflow(p->p_offset, addr - p->p_vaddr, off))
			return -EBADMSG;
		return 0;
	}
	return -EBADMSG;
}

static int read_addr(const struct elf *e, uint64_t addr, void *buf, size_t len)
{
	uint64_t off;
	int err = addr_to_off(e, addr, 0, &off);

	return err ? err : read_at(e, off, buf, len);
}

/* base + index * size */
static int read_item(const struct elf *e, uint64_t base, uint64_t index, void *buf, size_t size)
{
	uint64_t addr;

	if (__builtin_mul_overflow(index, size, &addr) || __builtin_add_overflow(base, addr, &addr))
		return -EBADMSG;
	return read_addr(e, addr, buf, size);
}

static int elf_open(struct elf *e, int fd)
{
	const unsigned char *id = e->ehdr.e_ident;
	struct stat st;
	int err;

	*e = (struct elf){ .fd = fd };
	if (fstat(fd, &st))
		return -errno;
	e->size = st.st_size;
	if (read_at(e, 0, &e->ehdr, sizeof(e->ehdr)))
		return -ENOEXEC;
	if (memcmp(id, ELFMAG, SELFMAG) != 0 || id[EI_CLASS] != ELFCLASS64 ||
	    id[EI_DATA] != ELFDATA2LSB || e->ehdr.e_machine != MACHINE)
		return -ENOEXEC;
	if (e->ehdr.e_type != ET_DYN && e->ehdr.e_type != ET_EXEC)
		return -ENOEXEC;
	if (e->ehdr.e_phentsize != sizeof(Elf64_Phdr) || e->ehdr.e_phnum > PHDRS_MAX)
		return -EBADMSG;
	err = read_at(e, e->ehdr.e_phoff, e->phdrs, e->ehdr.e_phnum * sizeof(Elf64_Phdr));
	if (err)
		return err;
	e->nphdrs = e->ehdr.e_phnum;
	return 0;
}

static const Elf64_Phdr *find_phdr(const struct elf *e, uint32_t type)
{
	for (unsigned int i = 0; i < e->nphdrs; i++)
		if (e->phdrs[i].p_type == type)
			return &e->phdrs[i];
	return NULL;
}

static int read_dynamic(struct elf *e)
{
	const struct {
		int64_t tag;
		uint64_t *to;
	} want[] = {
		{ DT_SYMTAB, &e->symtab }, { DT_STRTAB, &e->strtab },	  { DT_STRSZ, &e->strsz },
		{ DT_HASH, &e->hash },	   { DT_GNU_HASH, &e->gnu_hash },
	};
	const Elf64_Phdr *p = find_phdr(e, PT_DYNAMIC);
	uint64_t n;
	int err;

	/* a static executable */
	if (!p)
		return -ENOENT;
	n = MIN(p->p_filesz / sizeof(Elf64_Dyn), DYNS_MAX);
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Dyn d;

		err = read_at(e, p->p_offset + i * sizeof(d), &d, sizeof(d));
		if (err)
			return err;
		if (d.d_tag == DT_NULL)
			break;
		for (size_t w = 0; w < ARRAY_SIZE(want); w++)
			if (want[w].tag == d.d_tag)
				*want[w].to = d.d_un.d_val;
	}
	if (!e->symtab || !e->strtab || (!e->gnu_hash && !e->hash))
		return -ENOENT;
	return 0;
}

/* Whether symbol number nr is the defined function `name`. 1, 0, or negative errno. */
static int symbol_is(const struct elf *e, uint32_t nr, const char *name, Elf64_Sym *sym)
{
	size_t len = strlen(name) + 1;
	char buf[NAME_MAX_LEN];
	uint64_t addr;
	int err = read_item(e, e->symtab, nr, sym, sizeof(*sym));

	if (err)
		return err;
	if (sym->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(sym->st_info) != STT_FUNC)
		return 0;
	if (len > e->strsz || sym->st_name > e->strsz - len)
		return 0;
	if (__builtin_add_overflow(e->strtab, sym->st_name, &addr))
		return -EBADMSG;
	err = read_addr(e, addr, buf, len);
	if (err)
		return err;
	return !memcmp(buf, name, len);
}

static uint32_t gnu_hash_of(const char *s)
{
	uint32_t h = 5381;

	for (; *s; s++)
		h = h * 33 + (unsigned char)*s;
	return h;
}

/* DT_GNU_HASH: header, 64-bit words of a Bloom filter, buckets, chains from symbol symoffset on. */
static int gnu_lookup(const struct elf *e, const char *name, Elf64_Sym *sym)
{
	struct {
		uint32_t nbuckets, symoffset, bloom_words, shift;
	} h;
	uint32_t hash = gnu_hash_of(name), nr, link;
	uint64_t word, buckets, chains;
	int err = read_addr(e, e->gnu_hash, &h, sizeof(h));

	if (err)
		return err;
	if (!h.nbuckets || !h.bloom_words)
		return -EBADMSG;
	err = read_item(e, e->gnu_hash + sizeof(h), (hash / 64) % h.bloom_words, &word, 8);
	if (err)
		return err;
	if (!(word >> (hash % 64) & 1) || !(word >> ((hash >> (h.shift & 31)) % 64) & 1))
		return -ENOENT;
	buckets = e->gnu_hash + sizeof(h) + h.bloom_words * 8ull;
	chains = buckets + h.nbuckets * 4ull;
	err = read_item(e, buckets, hash % h.nbuckets, &nr, 4);
	if (err)
		return err;
	if (nr < h.symoffset)
		return -ENOENT;
	for (int i = 0; i < CHAIN_MAX; i++, nr++) {
		err = read_item(e, chains, nr - h.symoffset, &link, 4);
		if (!err && (link | 1) == (hash | 1))
			err = symbol_is(e, nr, name, sym);
		if (err)
			return err < 0 ? err : 0;
		if (link & 1)
			return -ENOENT;
	}
	return -EBADMSG;
}

static uint32_t sysv_hash_of(const char *s)
{
	uint32_t h = 0, g;

	for (; *s; s++) {
		h = (h << 4) + (unsigned char)*s;
		g = h & 0xf0000000;
		h ^= g >> 24;
		h &= ~g;
	}
	return h;
}

/* DT_HASH, where a linker made no other: nbucket, nchain, buckets, chains. */
static int sysv_lookup(const struct elf *e, const char *name, Elf64_Sym *sym)
{
	uint32_t h[2], nr;
	int err = read_addr(e, e->hash, h, sizeof(h));

	if (err)
		return err;
	if (!h[0])
		return -EBADMSG;
	err = read_item(e, e->hash + 8, sysv_hash_of(name) % h[0], &nr, 4);
	for (int i = 0; !err && i < CHAIN_MAX; i++) {
		if (!nr)
			return -ENOENT;
		err = symbol_is(e, nr, name, sym);
		if (err)
			return err < 0 ? err : 0;
		err = read_item(e, e->hash + 8 + h[0] * 4ull, nr, &nr, 4);
	}
	return err ? err : -EBADMSG;
}

/*
 * File offset of the probe for a function. A library built with CET starts each function with
 * endbr64, which uprobes single-step (19.5 us a hit against 5.5 on 6.18): the instruction after it
 * does as well, since nothing jumps there.
 */
static int probe_offset(const struct elf *e, uint64_t addr, uint64_t *off)
{
	int err = addr_to_off(e, addr, PF_X, off);

	if (err)
		return err;
#if defined(__x86_64__)
	static const unsigned char endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	unsigned char insn[8];

	if (!read_at(e, *off, insn, sizeof(insn)) && !memcmp(insn, endbr64, sizeof(endbr64)))
		*off += sizeof(endbr64);
#endif
	return 0;
}

static bool has_offset(const struct ft_nccl_image *img, uint64_t off)
{
	for (uint32_t i = 0; i < img->nsyms; i++)
		if (img->syms[i].offset == off)
			return true;
	return false;
}

/*
 * pncclX is the one that interposers call and that real libraries alone define; ncclX is a weak
 * name of the same address, or calls it.
 */
static int find_functions(const struct elf *e, struct ft_nccl_image *img)
{
	for (unsigned int fn = 1; fn < FT_NCCL_NFNS; fn++) {
		char name[NAME_MAX_LEN];
		Elf64_Sym sym;
		uint64_t off;
		int err;

		ft_fmt(name, "pnccl%s", ft_nccl_funcs[fn].name);
		err = e->gnu_hash ? gnu_lookup(e, name, &sym) : sysv_lookup(e, name, &sym);
		if (err == -ENOENT)
			continue;
		if (!err)
			err = probe_offset(e, sym.st_value, &off);
		if (err)
			return err;
		/* Functions of equal code can be folded into one. */
		if (!has_offset(img, off))
			img->syms[img->nsyms++] = (struct ft_nccl_sym){ .offset = off, .fn = fn };
	}
	return img->nsyms ? 0 : -ENOENT;
}

static void find_build_id(const struct elf *e, struct ft_nccl_image *img)
{
	const Elf64_Phdr *p = find_phdr(e, PT_NOTE);
	uint64_t off = p ? p->p_offset : 0, end;

	if (!p || __builtin_add_overflow(off, MIN(p->p_filesz, 65536), &end))
		return;
	for (int i = 0; i < 64 && off < end; i++) {
		Elf64_Nhdr n;
		uint64_t name = off + sizeof(n), desc;

		if (read_at(e, off, &n, sizeof(n)))
			return;
		desc = name + ((n.n_namesz + 3ull) & ~3ull);
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4) {
			size_t len = MIN(n.n_descsz, sizeof(img->build_id));

			if (!read_at(e, desc, img->build_id, len))
				img->build_id_len = len;
			return;
		}
		off = desc + ((n.n_descsz + 3ull) & ~3ull);
	}
}

/* Section by name: only to keep the search for the version short. */
static int find_section(const struct elf *e, const char *want, Elf64_Shdr *out)
{
	uint64_t off = e->ehdr.e_shoff;
	size_t len = strlen(want) + 1;
	Elf64_Shdr names;
	char name[16];

	if (e->ehdr.e_shentsize != sizeof(names) || e->ehdr.e_shnum > SHDRS_MAX || !off ||
	    off > e->size)
		return -ENOENT;
	if (read_at(e, off + e->ehdr.e_shstrndx * sizeof(names), &names, sizeof(names)))
		return -EBADMSG;
	for (unsigned int i = 0; i < e->ehdr.e_shnum; i++) {
		uint64_t at;

		if (read_at(e, off + i * sizeof(*out), out, sizeof(*out)))
			return -EBADMSG;
		if (!__builtin_add_overflow(names.sh_offset, out->sh_name, &at) &&
		    !read_at(e, at, name, len) && !memcmp(name, want, len))
			return 0;
	}
	return -ENOENT;
}

/* "2.28.9+cuda13.0" at s, which need not end within n. */
static bool version_copy(const char *s, size_t n, char out[32])
{
	size_t len = 0;

	if (!n || s[0] < '0' || s[0] > '9')
		return false;
	while (len < n && len < 31 && s[len] > ' ' && s[len] < 0x7f)
		len++;
	memcpy(out, s, len);
	out[len] = 0;
	return true;
}

/* The text "NCCL version 2.28.9+cuda13.0", which NCCL logs at its first init. */
static void find_version(const struct elf *e, char out[32])
{
	static const char key[] = "NCCL version ";
	const size_t overlap = sizeof(key) + 32;
	_cleanup_free_ char *buf = malloc(VERSION_CHUNK);
	Elf64_Shdr sec;
	uint64_t end;

	if (!buf || find_section(e, ".rodata", &sec))
		return;
	end = MIN(sec.sh_size, VERSION_MAX);
	for (uint64_t at = 0; at < end; at += VERSION_CHUNK - overlap) {
		size_t len = MIN(end - at, VERSION_CHUNK);

		if (read_at(e, sec.sh_offset + at, buf, len))
			return;
		for (char *p = buf; (p = memmem(p, buf + len - p, key, sizeof(key) - 1)); p++) {
			char *v = p + sizeof(key) - 1;

			if (version_copy(v, buf + len - v, out))
				return;
		}
	}
}

int ft_nccl_image_read(int fd, struct ft_nccl_image *out)
{
	struct ft_nccl_image img = {};
	struct elf e;
	int err = elf_open(&e, fd);

	if (!err)
		err = read_dynamic(&e);
	if (!err)
		err = find_functions(&e, &img);
	if (err)
		return err;
	find_build_id(&e, &img);
	find_version(&e, img.version);
	*out = img;
	return 0;
}
