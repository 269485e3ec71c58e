#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# inside.sh: what try-packages.sh runs as root in a minimal Debian. /test has the programs vectorAdd and steady, /packages the packages, and
# /upgrade the same with a higher version.
set -euo pipefail

# shellcheck source=common.sh
. "${0%/*}/common.sh"

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends "$@" >/tmp/apt.log 2>&1 || {
		tail -n 20 /tmp/apt.log >&2
		die "apt-get $*"
	}
}

# Files that packages are responsible for: neither logs nor the state of apt and dpkg.
list_files() {
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /home -o -path /test -o -path /packages -o -path /upgrade \
		-o -path /var/log -o -path /var/cache -o -path /var/lib/apt -o -path '/var/lib/dpkg/*-old' -o -path /var/lib/systemd \) -prune -o -print | sort
	cut -d : -f 1 /etc/passwd /etc/group | sort
}

# as USER COMMAND: no variable is set.
as() {
	setpriv --reuid "$1" --regid "$1" --init-groups env -i bash -c "cd /test && $2"
}

expect_passed() {
	as "$1" "$2" >/tmp/out 2>&1 && grep -qx 'Test PASSED' /tmp/out || {
		cat /tmp/out >&2
		die "$1: $2"
	}
}

dependencies() {
	apt-get -s --no-install-recommends install "$@" | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -v '^virtio-cuda'
}

# ---- host ----

host=(/packages/virtio-cuda-{host,softgpu,softgpu-sass,guest,math}_*.deb)
useradd -m member
useradd -m other
say "the packages that ours depend on"
# shellcheck disable=SC2046
apt install $(dependencies "${host[@]}")
list_files >/tmp/before
say "host, softgpu, guest and math"
apt install "${host[@]}"
ldconfig -p | grep -q 'libcuda.so.1 .*/vcuda/libcuda.so.1$' || die "the loader does not find libcuda.so.1"
# Older systems can install these two.
for package in virtio-cuda-guest virtio-cuda-math; do
	dpkg-query -W -f '${Depends}' "$package" | grep -q 'libc6 (>= 2\.17)' || die "$package: $(dpkg-query -W -f '${Depends}' "$package")"
done
usermod -a -G vcuda member
[ "$(stat -c '%U:%G %a' /run/vcuda)" = "root:vcuda 2755" ] || die "/run/vcuda: $(stat -c '%U:%G %a' /run/vcuda)"

say "vcuda run as a plain user"
expect_passed other "vcuda run -- ./vectorAdd"
say "a program alone, over the system's socket"
: >/tmp/ready
XDG_CACHE_HOME=/tmp/cache vcudad --socket /run/vcuda/socket --socket-mode 0660 --allow-any-user --ready-fd 3 3>/tmp/ready 2>/tmp/vcudad.log &
daemon=$!
wait_for 'grep -q ready /tmp/ready'
expect_passed member ./vectorAdd
# The worker's loader finds our libcuda.so.1 where there is no driver of NVIDIA's.
! grep 'is refused' /tmp/vcudad.log || die "a worker was a client of its own daemon"
if as other ./vectorAdd >/tmp/out 2>&1; then
	die "a user outside the group vcuda uses the socket"
fi
grep -q 'no permission' /tmp/out || die "the refusal says: $(cat /tmp/out)"
say "documentation and completion"
for name in vcuda-run vcuda-vm-kill vcuda-move; do
	[ -e "/usr/share/man/man1/$name.1.gz" ] || die "there is no manual page $name"
done

say "an upgrade with a program that runs"
: >/tmp/steady.out
chown member /tmp/steady.out
as member "./steady 100000 >/tmp/steady.out 2>&1; echo \$? >>/tmp/steady.out" &
wait_for 'grep -q ready /tmp/steady.out'
apt install /upgrade/virtio-cuda-{host,softgpu,softgpu-sass,guest,math}_*.deb
kill -0 "$daemon" || die "the upgrade ended vcudad: $(cat /tmp/vcudad.log)"
expect_passed member ./vectorAdd
pkill -TERM -x steady
wait_for '[[ "$(tail -n 1 /tmp/steady.out)" =~ ^[0-9]+$ ]]'
[ "$(tail -n 1 /tmp/steady.out)" = 0 ] || die "the program that ran during the upgrade: $(cat /tmp/steady.out)"
kill "$daemon"
wait "$daemon" || true

# ---- beside NVIDIA's driver ----

say "a libcuda.so.1 in the system's folder comes first, and is not touched"
triplet=$(dirname "$(ls -d /usr/lib/*/vcuda)")
loaded() {
	LD_DEBUG=libs /test/steady 0 2>&1 | sed -n 's/.*calling init: \(.*libcuda.so.1\)$/\1/p'
}
[ "$(loaded)" = "$triplet/vcuda/libcuda.so.1" ] || die "the loader takes $(loaded)"
cp "$triplet/vcuda/libcuda.so.1" "$triplet/libcuda.so.1"
printf x >>"$triplet/libcuda.so.1"
cp "$triplet/libcuda.so.1" /tmp/other-libcuda
apt install --reinstall /upgrade/virtio-cuda-guest_*.deb
[ "$(realpath "$(loaded)")" = "$(realpath "$triplet/libcuda.so.1")" ] || die "the loader takes $(loaded)"
cmp "$triplet/libcuda.so.1" /tmp/other-libcuda
say "our folder first for all programs"
ln -s zz-virtio-cuda.conf /etc/ld.so.conf.d/00-virtio-cuda.conf && ldconfig
[ "$(loaded)" = "$triplet/vcuda/libcuda.so.1" ] || die "the loader takes $(loaded)"
rm "$triplet/libcuda.so.1" /etc/ld.so.conf.d/00-virtio-cuda.conf
ldconfig

say "purge"
mkdir -p /etc/vcuda
vcuda config show >/etc/vcuda/local.conf
apt purge 'virtio-cuda-*'
userdel -r -f member >/dev/null 2>&1
userdel -r -f other >/dev/null 2>&1
useradd -m member
useradd -m other
list_files >/tmp/after
if ! diff /tmp/before /tmp/after; then
	die "purge leaves files, users or groups, or removes those of others"
fi

# ---- guest ----

say "guest, dkms and dev, with the kernel's headers"
apt install linux-headers-amd64 /packages/virtio-cuda-{guest,dkms,math,dev}_*.deb
module=$(find /lib/modules /usr/lib/modules -name 'virtio-cuda.ko*' | head -n 1)
[ -n "$module" ] || die "DKMS made no module: $(dkms status)"
modinfo -F version "$module" | grep -q . || die "the module has no version"
if command -v vcudad >/dev/null; then
	die "a guest has vcudad"
fi
apt purge 'virtio-cuda-*'
! find / -xdev -name '*virtio-cuda*' -not -path '/tmp/*' -not -path '/packages/*' -not -path '/upgrade/*' -not -path '/var/cache/*' \
	-not -path '/usr/src/linux-headers*' | grep . || die "purge of the guest's packages leaves files"
say "all passed"
