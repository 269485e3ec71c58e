#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh VCUDA PROGRAM ARGUMENT...: the program on the software GPU.
vcuda=$1
shift
# A device that runs the PTX of all cases.
VCUDA_CPU_COMPUTE=12.0 exec "$vcuda" run --backend cpu -- "$@"
