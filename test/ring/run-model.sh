#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run-model.sh MUTATION [SPIN-OPTION...]: checks ring.pml with spin; every MUTATION but 0 (one deliberate mistake each) must be found.
# The options set the model's sizes: -DASYNC=0.
# Exit status: 0 as it should be, 1 not, 77 no spin.
set -euo pipefail
model=$(dirname "$(readlink -f "$0")")/ring.pml
mutation=${1:?usage: run-model.sh MUTATION [SPIN-OPTION...]}
shift

if ! command -v spin >/dev/null; then
	echo "spin is not installed (package 'spin'): the ring's model is not checked"
	exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
spin -DMUTATION="$mutation" "$@" -a "$model"
# A mistake is found at once; the compiler then takes longer than the search.
[ "$mutation" = 0 ] && optimise=-O2 || optimise=-O1
"${CC:-gcc}" "$optimise" -w -DSAFETY -DMEMLIM=8000 -o pan pan.c
# 42 million states, in 3 GB; 9 million with -DASYNC=0. Compressed ones (-DCOLLAPSE) take 2 GB, and half as long again.
./pan -m1000000 >log
grep -E '^pan:|errors:|states, stored' log
grep -q 'errors: 0$' log && found=no || found=yes
if grep -qE "max search depth too small|reached -DMEMLIM" log; then
	echo "the search was cut short"
	exit 1
fi
if [ "$mutation" = 0 ] && [ "$found" = yes ]; then
	spin -DMUTATION=0 "$@" -k "$(basename "$model").trail" -p -g "$model" | tail -n 60
	exit 1
fi
if [ "$mutation" != 0 ] && [ "$found" = no ]; then
	echo "mutation $mutation was not found: the model cannot fail"
	exit 1
fi
