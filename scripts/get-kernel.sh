#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# get-kernel.sh [6.1|6.12]: fetches Debian's kernel of that series and its headers into the cache; installs nothing.
#
# Prints the directory, which holds
#   kernel (to boot), release (the kernel's version string), lib/modules/RELEASE, build (for `make -C`), and a static
#   busybox for the initramfs.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/private-apt.sh"

# The newest linux-image package of the series that has headers too: a security update may show up in two steps.
newest_image() {
	local series=$1 pattern version
	case $series in
	6.1) pattern='^linux-image-6\.1\.0-[0-9]+-amd64$' ;;
	6.12) pattern='^linux-image-6\.12\.[0-9]+\+deb1[23]-amd64$' ;;
	esac
	papt apt-cache pkgnames linux-image- | grep -E "$pattern" | sed 's/^linux-image-//' | sort -rV |
		while read -r version; do
			if papt apt-cache show "linux-headers-$version" >/dev/null 2>&1; then
				printf '%s\n' "$version"
				break
			fi
		done
}

# Packages the headers of $1 build with: -common and linux-kbuild, by name from their dependencies.
header_packages() {
	papt apt-cache depends --important "linux-headers-$1" |
		sed -n -E 's/^ +Depends: (linux-(headers|kbuild)-[^ ]+)$/\1/p'
}

# The headers' Makefile and links name /usr/src and /usr/lib by absolute path: point them into the private root.
# scripts/ and tools/ are links to linux-kbuild.
relocate_headers() {
	local root=$1 final=$2 release=$3 file link target
	for file in "$root/usr/src/linux-headers-$release/Makefile" "$root/usr/src/linux-headers-$release/.kernelvariables"; do
		[ ! -f "$file" ] || sed -i -E "s#(^|[[:space:]=])/usr/(src|lib)/#\\1$final/usr/\\2/#g" "$file"
	done
	find "$root/usr/src" "$root/lib/modules" -type l | while read -r link; do
		target=$(readlink "$link")
		case $target in
		/*) ln -sfn "$final$target" "$link" ;;
		esac
	done
	# Relative links climb out of /usr/src into /usr/lib/linux-kbuild-*; they still fit.
}

fetch() {
	local dir=$1 series=$2 tmp release root
	tmp=$(mktemp -d "$dir.XXXXXX") || die "cannot write to $(dirname "$dir"). Is the disk full?"
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	root=$tmp/root
	if [ "$series" = 6.1 ]; then
		papt_init "$tmp/apt" bookworm bookworm-updates bookworm-security
	else
		papt_init "$tmp/apt" bookworm bookworm-security bookworm-backports
	fi
	release=$(newest_image "$series")
	[ -n "$release" ] || die "Debian 12's archive offers no kernel $series with headers."
	# shellcheck disable=SC2046
	papt_fetch "linux-image-$release" "linux-headers-$release" $(header_packages "$release") busybox-static
	papt_unpack "$root"
	[ -d "$root/lib/modules" ] || mv "$root/usr/lib/modules" "$root/lib/modules"
	relocate_headers "$root" "$dir/root" "$release"
	rm -rf "${root:?}/usr/share" "$tmp/apt"
	mv "$root/bin/busybox" "$tmp/busybox" 2>/dev/null || mv "$root/usr/bin/busybox" "$tmp/busybox"
	unpack_kernel "$root/boot/vmlinuz-$release" "$tmp/kernel"
	rm -rf "${root:?}/boot"
	ln -s root/lib "$tmp/lib"
	ln -s "root/usr/src/linux-headers-$release" "$tmp/build"
	printf '%s\n' "$release" >"$tmp/release"
	slim "$root/lib/modules/$release"
	chmod 755 "$tmp"
	rm -rf "$dir"
	mv -T "$tmp" "$dir"
}

# Field of the boot header of bzImage $1: offset $2, $3 bytes.
header_field() {
	od -An -j "$2" -N "$3" -t "u$3" "$1" | tr -d ' '
}

# Takes the ELF kernel out of the bzImage $1, for QEMU's direct (PVH) boot: without KVM, unpacking it in the guest at
# every start takes longer than the rest of the boot. The compressed file will do where the tool to unpack it is
# missing.
unpack_kernel() {
	local image=$1 out=$2 offset length unpack
	offset=$((($(header_field "$image" $((0x1f1)) 1) + 1) * 512 + $(header_field "$image" $((0x248)) 4)))
	length=$(header_field "$image" $((0x24c)) 4)
	case $(od -An -j "$offset" -N 4 -t x1 "$image" | tr -d ' ') in
	fd377a58) unpack="xz -dcq" ;;
	28b52ffd) unpack="zstd -dcq" ;;
	*) unpack=false ;;
	esac
	# The payload's last 4 bytes are its unpacked size; they are no part of the compressed stream.
	if dd if="$image" bs=1M iflag=skip_bytes,count_bytes skip="$offset" count="$((length - 4))" status=none |
		$unpack >"$out" 2>/dev/null &&
		[ "$(head -c 4 "$out" | tr -d '\177')" = ELF ]; then
		return
	fi
	cp "$image" "$out"
}

# A VM with virtio devices needs a few dozen of the thousands of modules.
slim() {
	rm -rf "$1"/kernel/{sound,net/{wireless,mac80211,bluetooth,sunrpc,sctp},drivers/{gpu,media,staging,usb,iio,scsi,infiniband,hwmon,input,mmc,platform}} \
		"$1"/kernel/drivers/net/{wireless,ethernet,can,usb,wan,phy}
}

main() {
	local series=${1:-6.1} dir
	case $series in
	6.1 | 6.12) ;;
	*) die "the kernels offered are 6.1 and 6.12, not '$series'." ;;
	esac
	[ "$(uname -m)" = x86_64 ] || die "only x86_64 hosts are supported."
	dir=$(vcuda_cache_dir)/kernel-$series
	mkdir -p "$(dirname "$dir")" || die "cannot make $(dirname "$dir"). VCUDA_CACHE names another directory."
	exec 9>"$dir.lock"
	flock 9
	[ -f "$dir/kernel" ] || fetch "$dir" "$series"
	printf '%s\n' "$dir"
}

main "$@"
