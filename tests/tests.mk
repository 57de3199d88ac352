# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# Included by the top Makefile.
#   check        every test on this kernel, as root; sets up what is missing
#   check-fast   unit and replay tests and the static checks only: no root, seconds
#   check-vm     the tests of tests/vm on other kernels: make check-vm [KERNELS="5.10 6.1 6.12 7"]
#   bench        the overhead table of the README

include tests/workload/workload.mk

unit_src := $(wildcard tests/unit/test_*.c) $(wildcard tests/bpf/test_*.c)
unit := $(unit_src:%.c=$(BUILD)/%)
helper_src := $(wildcard tests/e2e/*.c) $(wildcard tests/bench/*.c)
helpers := $(helper_src:%.c=$(BUILD)/%)
replay := $(BUILD)/tests/replay/replay
fuzz := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
e2e := $(sort $(wildcard tests/e2e/[0-9]*.sh))

$(BUILD)/tests/%: tests/%.c $(lib) $(bpf_embed) Makefile tests/tests.mk
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(FT_CFLAGS) -DFT_BUILD='"$(BUILD)"' -MMD -MP -MF $@.d -o $@ $< $(lib) \
		$(bpf_embed) $(LDFLAGS) $(LDLIBS) -lcmocka

# Fuzzers are made by clang, library and all: coverage of our own code is the point.
$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(wildcard user/base/*.c user/event/*.c user/nccl/*.c) \
		user/host/klog.c user/source/klog_rec.c user/source/aer.c tests/tests.mk
	$(call say,FUZZ,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CPPFLAGS) -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -o $@ $< \
		$(filter user/%,$^) -ljansson -lpthread

tests-build: all workload $(unit) $(helpers) $(replay)

fuzz-build: $(fuzz)

# On each kernel: a test that boots it and runs all others in it. A guest emulates its two CPUs: two
# at once are enough.
KERNELS ?= 5.10 6.1 6.12 7
vm_inside := $(KERNELS:%=$(BUILD)/tests/vm/%)
vm_lab := $(BUILD)/tests/vm/lab-$(lastword $(KERNELS))
vm := $(vm_inside) $(vm_lab)
$(vm_inside): vm_test := tests/vm/kernel
$(vm_lab): vm_test := tests/vm/lab.sh
$(vm): vm_kernel = $(lastword $(subst -, ,$(@F)))

$(vm): tests/tests.mk
	$(Q)mkdir -p $(@D)
	$(Q)printf '#!/bin/sh\n# deadline: 1200\n# parallel\nexec tests/vm/having %s %s %s\n' \
		$(vm_kernel) $(vm_test) $(vm_kernel) >$@
	$(Q)chmod +x $@

.PHONY: vm-fetch
vm-fetch:
	-scripts/vm fetch qemu $(KERNELS)
	-tests/vm/unpack rasdaemon $(BUILD)/tests/vm/rasdaemon

# The simulated GPU node, for each kernel; the guests have no headers.
hgx := $(KERNELS:%=hgx-%)

$(hgx): hgx-%: vm-fetch
	$(call say,HGX,$*)
	$(Q)BUILD=$(BUILD) tests/vm/hgx/build $*

vm-build: all workload $(vm) $(hgx)

# One runner for everything: its last line counts it all.
check:
	scripts/setup test
	$(MAKE) -j$(shell nproc) tests-build fuzz-build
	$(MAKE) -j$(shell nproc) DEBUG=1 tests-build
	tests/run tests/lint.sh $(unit) tests/replay/run.sh tests/fuzz/run.sh tests/valgrind.sh \
		tests/workload/test.sh $(e2e) tests/asan.sh

check-fast: tests-build
	tests/run tests/lint.sh $(unit) tests/replay/run.sh

check-vm:
	scripts/setup vm
	$(MAKE) -j$(shell nproc) vm-build
	tests/run -j 2 $(vm)

.PHONY: tests-build fuzz-build check check-fast bench vm-build check-vm $(hgx)
bench: all workload $(BUILD)/tests/bench/kstats $(BUILD)/tests/bench/poll $(BUILD)/tests/e2e/udp_burst
	tests/bench/run

-include $(unit:=.d)
