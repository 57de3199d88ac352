# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# make            build/fabrictrace          make V=1        show the commands
# make check      every test                 make DEBUG=1    with ASan and UBSan, in build/debug
# make check-vm   the tracer on other kernels (KERNELS="5.10 6.1 6.12 7")
# make bench      the overhead table         make STATIC=1   every library but libc linked statically
# make install PREFIX=/usr/local DESTDIR=

VERSION := 0.1.0
PREFIX ?= /usr/local
DESTDIR ?=
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
ARCH := $(patsubst aarch64,arm64,$(shell uname -m))
BPF_ARCH := $(patsubst x86_64,x86,$(ARCH))
BUILD ?= build$(if $(DEBUG),/debug)$(if $(STATIC),/static)

ifeq ($(V),)
Q := @
say = @printf '  %-7s %s\n' $(1) $(2)
else
Q :=
say = @:
endif

rooms := base event host nccl source attrib diagnose output cli
LIBS := libbpf libelf zlib libmnl jansson libcap
CPPFLAGS := -D_GNU_SOURCE -DFT_VERSION='"$(VERSION)"' -Iuser -Ibpf -I$(BUILD)
CFLAGS ?= -O2 -g
# ft_fmt() cuts on purpose
FT_CFLAGS := -std=gnu11 -Wall -Wextra -Werror -Wno-format-truncation -fno-strict-aliasing $(CFLAGS)
BPF_CFLAGS := -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3 -target bpf -D__TARGET_ARCH_$(BPF_ARCH) \
	-Ivmlinux -Ivmlinux/$(ARCH) -Ibpf
ifneq ($(DEBUG),)
SAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FT_CFLAGS += -O1 $(SAN)
LDFLAGS += $(SAN)
endif
ifneq ($(STATIC),)
# Debian has no libmnl.a; the shared one is wherever iproute2 is
LDLIBS := -Wl,-Bstatic $(shell pkg-config --static --libs $(filter-out libmnl,$(LIBS))) \
	-Wl,-Bdynamic -lmnl -lpthread -ldl
else
LDLIBS := $(shell pkg-config --libs $(LIBS) 2>/dev/null) -lpthread -ldl
endif

bpf_src := $(wildcard bpf/*.bpf.c)
bpf_obj := $(bpf_src:bpf/%.bpf.c=$(BUILD)/bpf/%.bpf.o)
bpf_embed := $(bpf_obj:.bpf.o=.embed.o)
src := $(foreach r,$(rooms),$(wildcard user/$(r)/*.c))
obj := $(src:%.c=$(BUILD)/%.o)
lib_obj := $(filter-out $(BUILD)/user/cli/main.o,$(obj))
lib := $(BUILD)/libfabrictrace.a

all: $(BUILD)/fabrictrace

$(BUILD)/fabrictrace: $(BUILD)/user/cli/main.o $(lib) $(bpf_embed)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(lib): $(lib_obj)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c Makefile
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(FT_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c Makefile
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -c -o $@ $<
	$(Q)llvm-strip -g $@

# The program carries its BPF objects: symbols _binary_<source>_bpf_o_start and _end.
$(BUILD)/bpf/%.embed.o: $(BUILD)/bpf/%.bpf.o
	$(Q)cd $(@D) && $(LD) -r -b binary -z noexecstack -o $(@F) $(<F)

-include tests/tests.mk

install: $(BUILD)/fabrictrace
	install -D -m 755 $(BUILD)/fabrictrace $(DESTDIR)$(PREFIX)/bin/fabrictrace
	install -D -m 644 user/cli/fabrictrace.8 $(DESTDIR)$(PREFIX)/share/man/man8/fabrictrace.8
	install -D -m 644 user/cli/fabrictrace.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/fabrictrace

clean:
	rm -rf build

.PHONY: all install clean check bench
.SECONDARY:
-include $(obj:.o=.d) $(bpf_obj:.o=.d)
