#!/bin/bash
# SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
# The tools that the tests rest on go red when they should, and the tree keeps to its layers.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

cd "$FT_ROOT"
ok "the runner goes red when it should" tests/run --self-test
ok "the layer check goes red when it should" scripts/check-layers --self-test
ok "no room includes one above it" scripts/check-layers
ok "set-up has nothing to do" scripts/setup test
began=$(now_ms)
scripts/setup test || :
ok "and is quick about it" test $(($(now_ms) - began)) -lt 500

done_testing
