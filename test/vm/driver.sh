#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# driver.sh VCUDA DRIVER_TEST [KERNEL]: boots a VM with fake-host.py in the daemon's place and tests virtio-cuda.ko in
# it, and that the VM can write nothing to the host. 77: skipped.
here=$(dirname "$(readlink -f "$0")")
vcuda=$1
test=$(readlink -f "$2")
kernel=${3:-6.1}
canary=$(mktemp -d) || exit 1
trap 'rm -rf "$canary"' EXIT

command -v python3 >/dev/null || {
	echo "skipped: python3 is missing"
	exit 77
}
VCUDA_DAEMON=$here/fake-host.py "$vcuda" vm run --kernel "$kernel" --backend cpu --cpus 2 --memory 1G -- \
	sh -c '"$1/read-only.sh" "$3" && exec "$1/driver-guest.sh" "$2"' sh "$here" "$test" "$canary"
status=$?
if [ -n "$(ls -A "$canary")" ]; then
	echo "not ok the VM wrote to the host"
	status=1
fi
exit $status
