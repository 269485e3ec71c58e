#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh DIR EXAMPLE...: builds examples and what they run on in DIR, fetches QEMU and a kernel, and runs each example, as it is, in a
# VM. VCUDA_VERBOSE has the guest's library print which GPU computes. A line that begins with "== " starts each step.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

dir=$1
shift
echo "== building"
scripts/build.sh "$dir" 80 vcuda-runtime "${@/#/examples/}" -- --prefix="${PREFIX:-/usr/local}"
echo "== QEMU and virtiofsd"
scripts/get-qemu.sh
echo "== a kernel for the VM"
scripts/get-kernel.sh
echo "== the guest's driver"
scripts/build-module.sh
for example in "$@"; do
	echo "== vcuda vm run -- $example"
	"$dir/cli/vcuda" vm run -- env VCUDA_VERBOSE=1 "$dir/examples/$example"
done
