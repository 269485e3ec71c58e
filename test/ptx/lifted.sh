#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lifted.sh PTXAS ARCHITECTURE VCUDA PROGRAM ARGUMENT...: as machine-code.sh, with the PTX that `vcuda ptx` prints in the
# place of the machine code.
ptxas=$1 architecture=$2 vcuda=$3
shift 3
if [ ! -x "$ptxas" ]; then
	echo "SKIPPED: NVIDIA's assembler (ptxas of a CUDA toolkit) is missing"
	exit 77
fi
folder=$(dirname "$0")
VCUDA_CPU_COMPUTE=12.0 VCUDA_CPU_CODE=ptx PTX_ASSEMBLER="$folder/again.sh $ptxas $architecture $vcuda" exec "$vcuda" run --backend cpu -- "$@"
