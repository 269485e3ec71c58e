#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test-busy.sh FUZZ-PTX: the good kernel of fuzz-ptx may reach the time limit on a busy machine. A limit of 1 us makes any machine busy.
set -eu
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# This script is an input that is refused at once.
if ! yes "$0" | head -n 20000 | VCUDA_CPU_TIME_LIMIT=0.000001 xargs "$1" >"$said" 2>&1; then
	tail -n 3 "$said"
	exit 1
fi
