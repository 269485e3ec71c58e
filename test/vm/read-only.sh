#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# In the VM: read-only.sh DIRECTORY [namespace|unprivileged], as `vcuda vm run --share` has it. Tries, as the guest's
# root, to write to the host through its share, not the scratch layer. The host looks into DIRECTORY afterwards.
dir=$1
share=${2:-namespace}
bad=0
mkdir -p /tmp/raw
mount -t virtiofs -o rw vcuda-root /tmp/raw || exit 1

must_fail() {
	if "$@" 2>/dev/null; then
		echo "not ok possible on the host: $*"
		bad=1
	fi
}

must_fail touch "/tmp/raw$dir/new"
must_fail mkdir "/tmp/raw$dir/new"
must_fail ln -s x "/tmp/raw$dir/link"
must_fail mknod "/tmp/raw$dir/null" c 1 3
must_fail chmod 777 "/tmp/raw$dir"
must_fail sh -c 'echo >>/tmp/raw/etc/hostname'
must_fail rmdir "/tmp/raw$dir"
must_fail sh -c 'echo h >/tmp/raw/proc/sysrq-trigger'
must_fail cat /tmp/raw/proc/version
must_fail cat /tmp/raw/proc/1/environ
must_fail cat /tmp/raw/sys/devices/system/cpu/online
# Without a view names can be listed, and a device node there is the guest's device.
if [ "$share" = namespace ]; then
	must_fail ls /tmp/raw/proc/1
	must_fail ls /tmp/raw/sys/kernel
	must_fail cat /tmp/raw/dev/urandom
fi
# The scratch layer is writable nevertheless.
echo scratch >"$dir/scratch" || bad=1
umount /tmp/raw
[ $bad -eq 0 ] && echo "ok the host's files are read-only"
exit $bad
