#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# again.sh PTXAS ARCHITECTURE VCUDA IN OUT: PTX to machine code, as assemble.sh, and from that to the PTX that the
# software GPU makes of it. Where ptxas does not accept that PTX, OUT is no PTX. Exit status 1 also for kernels that use
# the address of the constant bank with several variables: in PTX these need not be one behind the other.
ptxas=$1 architecture=$2 vcuda=$3 in=$4 out=$5
"$(dirname "$0")/assemble.sh" "$ptxas" "$architecture" "$in" "$out.cubin" || exit 1
if ! "$vcuda" ptx "$out.cubin" > "$out" || ! "$ptxas" "-arch=sm_$architecture" -o "$out.again" "$out" > "$out.log" 2>&1; then
	cat "$out.log" >&2
	echo "refused by ptxas" > "$out"
fi
rm -f "$out.cubin" "$out.again" "$out.log"
[ "$(grep -c -E '^(\.visible )?\.const' "$out")" -lt 2 ] || ! grep -q cvta.const "$out"
