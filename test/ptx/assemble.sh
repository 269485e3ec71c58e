#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# assemble.sh PTXAS ARCHITECTURE IN OUT: PTX to machine code for sm_ARCHITECTURE, whatever target the text names.
# Exit status 1: the architecture does not have an instruction of the text.
ptxas=$1 architecture=$2 in=$3 out=$4
sed "s/^\.target .*/.target sm_$architecture/; s/^\.version .*/.version 8.5/" "$in" > "$in.target"
"$ptxas" "-arch=sm_$architecture" -o "$out" "$in.target" 2>"$in.log"
status=$?
if [ $status -ne 0 ] && ! grep -q 'requires .target' "$in.log"; then
	cat "$in.log" >&2
fi
rm -f "$in.target" "$in.log"
exit $status
