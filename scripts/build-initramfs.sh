#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build-initramfs.sh KERNEL_DIR [virtio-cuda.ko]: makes the initramfs of `vcuda vm run` and prints its path.
# KERNEL_DIR is what get-kernel.sh printed. Built once for each kernel, module and vm-init.
set -euo pipefail
scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/private-apt.sh"

MODULES="virtio_pci virtio_console virtiofs overlay"
# For a root file system on a disk, which alone needs the time to load them. ext4 asks for crc32c by another name than its file's.
IMAGE_MODULES="virtio_blk crc32c_generic ext4 xfs"

module_name() {
	basename "$1" | sed -E 's/\.ko(\.xz)?$//; s/-/_/g'
}

plain() {
	case $1 in
	*.xz) "$BUSYBOX" xz -dc "$1" ;;
	*) cat "$1" ;;
	esac
}

# Appends the module after the modules that it depends on. A built-in module has no file.
add_module() {
	local name=$1 file dependency
	file=${FILE_OF[$name]:-}
	if [ -z "$file" ] || [ -n "${ADDED[$name]:-}" ]; then
		return
	fi
	ADDED[$name]=1
	for dependency in $(plain "$file" | tr '\0' '\n' | sed -n 's/^depends=//p' | tr ',-' ' _'); do
		add_module "$dependency"
	done
	plain "$file" >"$TREE/modules/$name.ko"
	printf '%s\n' "$name" >>"$TREE/modules/$ORDER"
}

main() {
	local kernel=$1 module=${2:-} release out hash tmp file
	declare -gA FILE_OF=() ADDED=()
	BUSYBOX=$kernel/busybox
	release=$(cat "$kernel/release")
	hash=$(cat "$scripts/vm-init" "$0" ${module:+"$module"} | sha256sum | cut -c 1-16)
	out=$(vcuda_cache_dir)/initramfs-$release-$hash
	if [ ! -f "$out" ]; then
		tmp=$(mktemp -d "$out.XXXXXX") || die "cannot write to $(dirname "$out"). Is the disk full?"
		# shellcheck disable=SC2064
		trap "rm -rf '$tmp'" EXIT
		TREE=$tmp/tree
		mkdir -p "$TREE"/{bin,modules,proc,sys,dev,lower,upper,root}
		cp "$kernel/busybox" "$TREE/bin/busybox"
		install -m 755 "$scripts/vm-init" "$TREE/init"
		while read -r file; do
			FILE_OF[$(module_name "$file")]=$file
		done < <(find -L "$kernel/lib/modules/$release/kernel"/{drivers,fs,net,lib,arch,crypto} -name '*.ko*' 2>/dev/null)
		ORDER=order
		for file in $MODULES; do
			add_module "$file"
		done
		ORDER=order-image
		: >"$TREE/modules/$ORDER"
		for file in $IMAGE_MODULES; do
			add_module "$file"
		done
		[ -z "$module" ] || cp "$module" "$TREE/modules/virtio-cuda.ko"
		(cd "$TREE" && find . | ./bin/busybox cpio -o -H newc 2>/dev/null) >"$tmp/image" ||
			die "the initramfs cannot be written. Is the disk full?"
		mv "$tmp/image" "$out"
	fi
	printf '%s\n' "$out"
}

[ $# -ge 1 ] || die "usage: build-initramfs.sh KERNEL_DIR [virtio-cuda.ko]"
main "$@"
