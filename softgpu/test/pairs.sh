#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pairs.sh PTXAS ARCHITECTURE LIFT_SASS VCUDA RUN_RANDOM FILE [EVERY [FIRST]]: random kernels from machine code, with
# pairs of registers as 64-bit values and without. Both have the same results, bit for bit: those of FILE, which are a real
# GPU's, or those of pairs.expect, where ptxas makes a mistake.
# pairs.sh --lift joined|split PTXAS ARCHITECTURE LIFT_SASS IN OUT: PTX to machine code, and that to PTX.
if [ "$1" = --lift ]; then
	how=$2 ptxas=$3 architecture=$4 lift=$5 in=$6 out=$7
	"$(dirname "$0")/../../test/ptx/assemble.sh" "$ptxas" "$architecture" "$in" "$out.cubin" || exit 1
	"$lift" "$how" "$out.cubin" > "$out" || echo "not lifted" > "$out"
	rm -f "$out.cubin"
	exit 0
fi
ptxas=$1 architecture=$2 lift=$3 vcuda=$4 program=$5
shift 5
if [ ! -x "$ptxas" ]; then
	echo "SKIPPED: NVIDIA's assembler (ptxas of a CUDA toolkit) is missing"
	exit 77
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
VCUDA_CPU_COMPUTE=12.0 VCUDA_CPU_CODE=ptx PTX_ASSEMBLER="$0 --lift joined $ptxas $architecture $lift" \
	PTX_ASSEMBLER_AGAIN="$0 --lift split $ptxas $architecture $lift" "$vcuda" run --backend cpu -- "$program" --check "$@" >"$out"
status=$?
cat "$out"
# "kernel SEED: RESULT, not RECORDED"
sed -n 's/^kernel \([0-9]*\): \(.*\), not .*/\1 \2/p' "$out" | grep -vxFf "$(dirname "$0")/pairs.expect" &&
	echo "FAILED: these kernels have neither their recorded results nor those of a mistake of ptxas" && status=1
exit $status
