#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh VCUDA PROGRAM ARGUMENT...: the program on the software GPU.
vcuda=$1
shift
exec "$vcuda" run --backend cpu -- "$@"
