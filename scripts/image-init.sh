#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# image-init.sh IMAGE [--module FILE.ko]: `vcuda vm init`. Puts the guest's libraries, `vcuda` and the driver's sources into the disk of a
# VM, and a unit that finishes the work when the VM boots: it runs ldconfig, builds the module where DKMS or the kernel's headers are, and
# loads it. No program of the image runs on this machine.
#
# guestfish reads and writes the disk where it is installed: the image's file systems stay in a VM of its own. Otherwise root mounts the
# disk's root file system, which the kernel of this machine then reads.
#
# VCUDA_INIT_COMMAND, VCUDA_INIT_LIBRARIES and VCUDA_INIT_DRIVER name the program, the libraries' folder and the driver's sources;
# VCUDA_INIT_LIBDIR the libraries' folder in the image, from /usr/local. VCUDA_INIT_HOW: guestfish or mount;
# own-mounts is mount in its mount namespace.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/private-apt.sh"

usage() {
	cat <<-'TEXT'
		usage: vcuda vm init [--module FILE.ko]... IMAGE

		Puts libraries, `vcuda` and the guest's driver into the disk of a VM that is off. When the VM boots, the unit
		virtio-cuda-setup.service builds the module with the kernel's headers of the image (with DKMS where the image has it), and
		loads it. Programs in the VM then have a GPU.

		  --module FILE.ko  a module that was built for a kernel of the image, so that the image needs no headers

		IMAGE is raw or qcow2, with systemd. guestfish (Debian's package libguestfs-tools) is used where it is installed. Otherwise
		root is needed, and this machine's kernel mounts the image: do that only with images that you trust.
	TEXT
}

# Makes the files for the image, as a tree.
make_tree() {
	local tree=$1 library module release
	local local=$tree/usr/local lib
	lib=$local/$LIBDIR/vcuda
	mkdir -p "$lib/math" "$local/bin" "$local/src/virtio-cuda" "$local/lib/virtio-cuda" "$tree/etc/ld.so.conf.d" "$tree/etc/systemd/system/multi-user.target.wants"
	for library in "$LIBRARIES"/lib*.so*; do
		cp -L "$library" "$lib/"
	done
	for library in "$LIBRARIES"/math/lib*.so*; do
		[ ! -e "$library" ] || cp -L "$library" "$lib/math/"
	done
	cp "$COMMAND" "$local/bin/vcuda"
	cp -L "$DRIVER"/* "$local/src/virtio-cuda/"
	printf '# Driver and runtime libraries of virtio-cuda\n/usr/local/%s/vcuda\n' "$LIBDIR" >"$tree/etc/ld.so.conf.d/zz-virtio-cuda.conf"
	printf '# Math libraries of virtio-cuda\n/usr/local/%s/vcuda/math\n' "$LIBDIR" >"$tree/etc/ld.so.conf.d/zz-virtio-cuda-math.conf"
	for module in "${MODULES[@]}"; do
		release=$(release_of "$module")
		mkdir -p "$tree/lib/modules/$release/updates"
		cp "$module" "$tree/lib/modules/$release/updates/virtio-cuda.ko"
	done
	cat >"$local/lib/virtio-cuda/setup" <<-'SETUP'
		#!/bin/sh
		# Runs at each boot: the kernel may be another one.
		set -u
		source=/usr/local/src/virtio-cuda
		version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$source/dkms.conf")
		known() {
			modinfo virtio-cuda >/dev/null 2>&1
		}
		ldconfig
		known || depmod -a
		if ! known && command -v dkms >/dev/null; then
			dkms add "$source" 2>/dev/null
			dkms install "virtio-cuda/$version" -k "$(uname -r)"
		elif ! known && [ -e "/lib/modules/$(uname -r)/build" ]; then
			make -C "$source" && install -D -m 644 "$source/virtio-cuda.ko" "/lib/modules/$(uname -r)/updates/virtio-cuda.ko" && depmod -a
		fi
		if ! known; then
			echo "no module for Linux $(uname -r): install its headers, make and gcc (Debian: linux-headers-amd64, dkms), and boot again"
			exit 1
		fi
		modprobe virtio-cuda
	SETUP
	chmod 755 "$local/lib/virtio-cuda/setup" "$local/bin/vcuda"
	cat >"$tree/etc/systemd/system/virtio-cuda-setup.service" <<-'UNIT'
		[Unit]
		Description=Driver and libraries of virtio-cuda
		After=local-fs.target

		[Service]
		Type=oneshot
		RemainAfterExit=yes
		ExecStart=/usr/local/lib/virtio-cuda/setup

		[Install]
		WantedBy=multi-user.target
	UNIT
	ln -s ../virtio-cuda-setup.service "$tree/etc/systemd/system/multi-user.target.wants/virtio-cuda-setup.service"
}

# An image names these files itself: one that is not trusted could name any file of this machine.
refuse_other_files() {
	local header
	header=$(od -An -v -tx1 -N 80 "$IMAGE" | tr -d ' \n')
	[ "${header:16:16}" = 0000000000000000 ] || die "$IMAGE has a backing file: make one disk of both with \`qemu-img convert\` first."
	[ "${header:8:8}" = 00000002 ] || [ $((0x${header:158:2} & 4)) = 0 ] || die "$IMAGE keeps its data in another file: convert it with \`qemu-img convert\` first."
}

release_of() {
	local text
	text=$(modinfo -F vermagic "$1" 2>/dev/null) && [ "$(modinfo -F name "$1")" = virtio_cuda ] || die "$1 is no module virtio-cuda.ko."
	printf '%s\n' "${text%% *}"
}

# check_root ANSWER...: lines of "os", "systemd", "kernel RELEASE" and "headers RELEASE" about the image.
check_root() {
	local answers=$1 release missing=()
	grep -qx os <<<"$answers" || die "$IMAGE: no file system has /etc/os-release. Is the disk encrypted, or no disk of a Linux system?"
	grep -qx systemd <<<"$answers" || die "$IMAGE has no systemd, which is to build and load the driver at boot."
	while read -r release; do
		if ! grep -qxF "headers $release" <<<"$answers" && ! grep -qxF "$release" <(for module in "${MODULES[@]}"; do release_of "$module"; done); then
			missing+=("$release")
		fi
	done < <(sed -n 's/^kernel //p' <<<"$answers")
	[ ${#missing[@]} = 0 ] || say "the image has no headers of Linux ${missing[*]}: install them in the VM, or give --module"
}

# ---- with guestfish ----

guestfish_image() {
	local tree=$1 answers
	answers=$(guestfish --ro --format="$FORMAT" -a "$IMAGE" -i <<-'COMMANDS'
		-is-file /etc/os-release followsymlinks:true
		-is-dir /etc/systemd/system
		-glob echo /lib/modules/*
		-glob echo /lib/modules/*/build
	COMMANDS
	) || die "guestfish cannot read $IMAGE."
	check_root "$(awk 'NR == 1 && /true/ { print "os" } NR == 2 && /true/ { print "systemd" }
		NR > 2 && !/[*]/ { split($0, part, "/"); print (part[5] == "build" ? "headers " : "kernel ") part[4] }' <<<"$answers")"
	# Without folders: tar would put a folder in the place of a link such as /lib.
	(cd "$tree" && find . ! -type d -print0) | tar -C "$tree" --null --no-recursion --files-from=- --owner=0 --group=0 -cf "$WORK/tree.tar"
	guestfish --rw --format="$FORMAT" -a "$IMAGE" -i tar-in "$WORK/tree.tar" / || die "guestfish cannot write to $IMAGE."
}

# ---- with mount ----

# Sets DISK to a file or node that has the bytes of the disk.
open_disk() {
	if [ "$FORMAT" = raw ]; then
		DISK=$IMAGE
		return
	fi
	need_tool qemu-nbd qemu-utils
	modprobe nbd max_part=0 2>/dev/null || true
	for DISK in /dev/nbd*; do
		if [ -b "$DISK" ] && [ "$(cat "/sys/block/${DISK##*/}/size")" = 0 ] && qemu-nbd --format=qcow2 --connect="$DISK" "$IMAGE" 2>/dev/null; then
			CONNECTED=$DISK
			return
		fi
	done
	# Without the kernel's module: a raw copy, which goes back when all is written.
	need_tool qemu-img qemu-utils
	[ "$(od -An -v -tx1 -j 60 -N 4 "$IMAGE" | tr -d ' ')" = 00000000 ] ||
		die "$IMAGE has snapshots, and the kernel has no nbd: \`modprobe nbd\`, or install guestfish (libguestfs-tools)."
	say "the kernel has no nbd: $IMAGE is converted twice"
	DISK=$WORK/disk.raw
	qemu-img convert -f qcow2 -O raw "$IMAGE" "$DISK" || die "$IMAGE cannot be read."
	CONVERTED=yes
}

close_disk() {
	if [ -n "${MOUNTED:-}" ]; then
		umount "$WORK/root" || return
		MOUNTED=
	fi
	if [ -n "${CONNECTED:-}" ]; then
		qemu-nbd --disconnect "$CONNECTED" >/dev/null || return
		CONNECTED=
	fi
}

# The places of file systems on the disk: "OFFSET SIZE" in bytes each, largest first, as a root file system seldom is the smallest.
partitions() {
	local sectors start
	{ partx --show --noheadings --output SECTORS,START "$DISK" 2>/dev/null || true; } | sort -rn | while read -r sectors start; do
		echo "$((start * 512)) $((sectors * 512))"
	done
	# No table: the file is a file system.
	echo "0 0"
}

# loop_device MODE OFFSET SIZE: prints a new loop device for a part of the disk. Another process may take the free one first.
loop_device() {
	local options=(--find --show --offset "$2")
	[ "$1" = rw ] || options+=(--read-only)
	[ "$3" = 0 ] || options+=(--sizelimit "$3")
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		! losetup "${options[@]}" "$DISK" 2>/dev/null || return 0
		sleep 0.5
	done
	die "$IMAGE: the kernel gives no loop device for it."
}

# mount_at MODE OFFSET SIZE: false where there is no file system that the kernel knows. The loop device ends with the mount.
mount_at() {
	local device status=0
	device=$(loop_device "$@") || exit 1
	mount -o "$1,nosuid,nodev,noexec" "$device" "$WORK/root" 2>/dev/null || status=$?
	losetup --detach "$device"
	return "$status"
}

find_root() {
	local offset size
	while read -r offset size; do
		mount_at ro "$offset" "$size" || continue
		if [ -e "$WORK/root/etc/os-release" ] || [ -L "$WORK/root/etc/os-release" ]; then
			umount "$WORK/root"
			mount_at rw "$offset" "$size" || die "$IMAGE: its root file system cannot be written."
			MOUNTED=yes
			return
		fi
		umount "$WORK/root"
	done < <(partitions)
}

# A link in the image must not lead out of it: each folder on the way is a folder, or a link such as /lib to usr/lib.
mounted_answers() {
	local root=$WORK/root place
	[ -z "${MOUNTED:-}" ] || echo os
	if [ -d "$root/etc/systemd/system" ]; then
		echo systemd
	fi
	for place in "$root"/usr/lib/modules/* "$root"/lib/modules/*; do
		[ ! -d "$place" ] || echo "kernel ${place##*/}"
		[ ! -L "$place/build" ] && [ ! -d "$place/build" ] || echo "headers ${place##*/}"
	done | sort -u
}

mounted_image() {
	local tree=$1 answers
	need_tool python3 python3
	mkdir "$WORK/root"
	trap 'close_disk; rm -rf --one-file-system "$WORK"' EXIT
	open_disk
	find_root
	answers=$(mounted_answers)
	check_root "$answers"
	# In a root of its own, where the image's links cannot lead to files of this machine.
	tar -C "$tree" --owner=0 --group=0 -cf - . | "$WORK/unpack" "$WORK/root" || die "$IMAGE cannot be written. Is its file system full?"
	sync -f "$WORK/root"
	close_disk || die "$IMAGE has all files and is still mounted: use it when `losetup -a` does not name it any longer."
	if [ -n "${CONVERTED:-}" ]; then
		qemu-img convert -f raw -O qcow2 "$DISK" "$WORK/new.qcow2" && cat "$WORK/new.qcow2" >"$IMAGE" || die "$IMAGE cannot be written. Is the disk full?"
	fi
}

# Unpacks below a folder that has become its root: absolute links of the image stay in it. Not all systems have a static tar, so
# Python's own module or a chroot with this machine's tar, read before the change, does it.
make_unpack() {
	cat >"$WORK/unpack" <<-'PROGRAM'
		#!/usr/bin/env python3
		import os, sys, tarfile
		sys.path.clear()  # nothing is imported from the image
		os.chroot(sys.argv[1])
		os.chdir("/")
		with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
		    for member in archive:
		        path = "/" + member.name
		        if member.isdir():
		            os.makedirs(path, 0o755, exist_ok=True)
		            continue
		        if os.path.lexists(path):
		            os.unlink(path)
		        if member.issym():
		            os.symlink(member.linkname, path)
		            continue
		        with open(path, "wb") as out:
		            out.write(archive.extractfile(member).read())
		        os.chmod(path, member.mode)
	PROGRAM
	chmod 755 "$WORK/unpack"
}

# own_mounts ARGUMENT...: begins anew in a mount namespace of its own, where no other program can keep the image's file system busy.
own_mounts() {
	[ "$(id -u)" = 0 ] || die "install guestfish (Debian: libguestfs-tools), or run this as root, whose kernel mounts the image."
	unshare --mount true 2>/dev/null || die "root may not mount here, as in a container: install guestfish (Debian: libguestfs-tools)."
	VCUDA_INIT_HOW=own-mounts exec unshare --mount "$0" "$@"
}

ARGUMENTS=("$@")
MODULES=()
IMAGE=
while [ $# -gt 0 ]; do
	case $1 in
	--help | -h)
		usage
		exit 0
		;;
	--module)
		[ $# -gt 1 ] || die "--module lacks its file."
		release_of "$2" >/dev/null
		MODULES+=("$2")
		shift
		;;
	-*) die "'$1' is no option of \`vcuda vm init\`." ;;
	*)
		[ -z "$IMAGE" ] || die "one image at a time."
		IMAGE=$1
		;;
	esac
	shift
done
[ -n "$IMAGE" ] || die "which image? See \`vcuda vm init --help\`."
COMMAND=$VCUDA_INIT_COMMAND LIBRARIES=$VCUDA_INIT_LIBRARIES DRIVER=$VCUDA_INIT_DRIVER LIBDIR=$VCUDA_INIT_LIBDIR
[ -f "$IMAGE" ] && [ -r "$IMAGE" ] && [ -w "$IMAGE" ] || die "$IMAGE is no file that can be read and written."
[ -e "$LIBRARIES/libcuda.so.1" ] || die "$LIBRARIES has no libcuda.so.1. VCUDA_GUEST_LIB names the folder of our libraries."
[ -e "$DRIVER/dkms.conf" ] || die "$DRIVER has no sources of the driver: install virtio-cuda-host or virtio-cuda-dkms."
IMAGE=$(realpath "$IMAGE")
FORMAT=raw
[ "$(head -c 4 "$IMAGE" | od -An -tx1 | tr -d ' ')" != 514649fb ] || FORMAT=qcow2
[ "$FORMAT" = raw ] || refuse_other_files
how=${VCUDA_INIT_HOW:-$(if command -v guestfish >/dev/null; then echo guestfish; else echo mount; fi)}
[ "$how" != mount ] || own_mounts "${ARGUMENTS[@]}"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/vcuda-init.XXXXXX")
trap 'rm -rf --one-file-system "$WORK"' EXIT
make_tree "$WORK/tree"
if [ "$how" = guestfish ]; then
	guestfish_image "$WORK/tree"
else
	make_unpack
	mounted_image "$WORK/tree"
fi
say "$IMAGE has virtio-cuda: it is ready when the VM boots"
