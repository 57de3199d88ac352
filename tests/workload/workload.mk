# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# The job that tests and demonstrations trace: a libnccl on the CPU and programs that use it.
# Included by the top Makefile; alone from there: make -f tests/workload/workload.mk [ASAN=1] [V=1]
#   workload       build into $(BUILD)/workload, with ASAN=1 into $(BUILD)/workload-asan
#   workload-test  build and run its tests

.PHONY: workload workload-test
workload:

BUILD ?= build
WORKLOAD_SRC := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
WORKLOAD := $(BUILD)/workload$(if $(ASAN),-asan)
WORKLOAD_CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra -Werror -MMD -MP -pthread \
	$(if $(ASAN),-fsanitize=address -fsanitize=undefined -fno-sanitize-recover=undefined)
WORKLOAD_LINK = $(CC) $(WORKLOAD_CFLAGS) -o $@
# $ORIGIN: the programs find the library beside themselves, LD_LIBRARY_PATH may name another.
WORKLOAD_RPATH := -Wl,-rpath,'$$ORIGIN',--enable-new-dtags

ifeq ($(V),)
QUIET_CC ?= @echo "  CC      $@";
QUIET_LD ?= @echo "  LD      $@";
endif

WORKLOAD_LIB_OBJS := $(patsubst %,$(WORKLOAD)/lib/%.o, \
	api boot coll comm debug group net reduce stream xfer)
WORKLOAD_OBJS := $(patsubst %,$(WORKLOAD)/%.o, \
	trainer options rendezvous nccl_linked nccl_dlopen colltest)
WORKLOAD_TRAINER_OBJS := $(patsubst %,$(WORKLOAD)/%.o, trainer options rendezvous)
WORKLOAD_LIB := $(WORKLOAD)/libnccl.so.2
WORKLOAD_ALL := $(WORKLOAD_LIB) $(patsubst %,$(WORKLOAD)/%, trainer trainer-dl colltest)

workload: $(WORKLOAD_ALL)

# Only what api.c exports is visible, as in the real library. Reductions are worth vectors.
$(WORKLOAD)/lib/%.o: $(WORKLOAD_SRC)/%.c
	@mkdir -p $(@D)
	$(QUIET_CC)$(CC) $(WORKLOAD_CFLAGS) $(if $(filter reduce,$*),-O3) -fPIC \
		-fvisibility=hidden -c -o $@ $<

$(WORKLOAD)/%.o: $(WORKLOAD_SRC)/%.c
	@mkdir -p $(@D)
	$(QUIET_CC)$(CC) $(WORKLOAD_CFLAGS) -c -o $@ $<

$(WORKLOAD_LIB): $(WORKLOAD_LIB_OBJS)
	$(QUIET_LD)$(WORKLOAD_LINK) -shared -Wl,-soname,$(@F) $(if $(ASAN),,-z defs) $^

$(WORKLOAD)/trainer: $(WORKLOAD_TRAINER_OBJS) $(WORKLOAD)/nccl_linked.o $(WORKLOAD_LIB)
	$(QUIET_LD)$(WORKLOAD_LINK) $^ $(WORKLOAD_RPATH) -lm

# Its library comes by dlopen, late: nothing of it may be linked.
$(WORKLOAD)/trainer-dl: $(WORKLOAD_TRAINER_OBJS) $(WORKLOAD)/nccl_dlopen.o
	$(QUIET_LD)$(WORKLOAD_LINK) $^ $(WORKLOAD_RPATH) -lm -ldl

$(WORKLOAD)/colltest: $(WORKLOAD)/colltest.o $(WORKLOAD_LIB)
	$(QUIET_LD)$(WORKLOAD_LINK) $^ $(WORKLOAD_RPATH) -lm

workload-test: workload
	$(WORKLOAD_SRC)/test.sh $(WORKLOAD)

-include $(WORKLOAD_LIB_OBJS:.o=.d) $(WORKLOAD_OBJS:.o=.d)
