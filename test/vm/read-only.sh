#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# In the VM: read-only.sh DIRECTORY. Tries, as the guest's root, to write to the host through its share, not the
# scratch layer. The host looks into DIRECTORY afterwards.
dir=$1
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
must_fail ls /tmp/raw/proc/1
must_fail ls /tmp/raw/sys/kernel
must_fail cat /tmp/raw/dev/urandom
# The scratch layer is writable all the same.
echo scratch >"$dir/scratch" || bad=1
umount /tmp/raw
[ $bad -eq 0 ] && echo "ok the host's files are read-only"
exit $bad
