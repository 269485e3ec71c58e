#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test-seed.sh PRINT-INPUTS: runs of a fuzzer differ, and the seed that a run prints repeats its inputs.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset VCUDA_TEST_SEED

"$1" --runs 50 >"$folder/one" 2>"$folder/said"
"$1" --runs 50 >"$folder/two" 2>/dev/null
if cmp -s "$folder/one" "$folder/two"; then
	echo "two runs have the same inputs"
	exit 1
fi
seed=$(sed -n 's/^seed: VCUDA_TEST_SEED=\([0-9]*\) repeats this run$/\1/p' "$folder/said")
"$1" --runs 50 --seed "$seed" 2>/dev/null | cmp - "$folder/one"
VCUDA_TEST_SEED=$seed "$1" --runs 50 2>/dev/null | cmp - "$folder/one"
