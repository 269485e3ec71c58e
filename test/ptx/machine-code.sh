#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# machine-code.sh PTXAS ARCHITECTURE VCUDA PROGRAM ARGUMENT...: as run.sh, with machine code in the place of PTX.
ptxas=$1 architecture=$2 vcuda=$3
shift 3
if [ ! -x "$ptxas" ]; then
	echo "SKIPPED: NVIDIA's assembler (ptxas of a CUDA toolkit) is missing"
	exit 77
fi
folder=$(dirname "$0")
VCUDA_CPU_COMPUTE=12.0 VCUDA_CPU_CODE=sass PTX_ASSEMBLER="$folder/assemble.sh $ptxas $architecture" exec "$vcuda" run --backend cpu -- "$@"
