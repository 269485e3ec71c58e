#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# get-uml.sh: builds User-Mode Linux 6.1 from Debian's source, with the kernel's checks of memory and locks
# (test/kasan/uml.config), in the cache. Takes a quarter of an hour and 2 GB the first time; 150 MB stay.
#
# Prints the directory, which holds linux (the kernel, a program), build (for `make -C ARCH=um`) and a static busybox.
set -euo pipefail
scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/private-apt.sh"

KASAN=$scripts/../test/kasan
# The files that an external module is built with.
KEPT="Makefile Kbuild Kconfig .config Module.symvers scripts include arch"

fetch_source() {
	papt_init "$1/apt" bookworm bookworm-updates bookworm-security
	papt_fetch linux-source-6.1 busybox-static
	papt_unpack "$1/root"
	mv "$1/root/bin/busybox" "$1/busybox" 2>/dev/null || mv "$1/root/usr/bin/busybox" "$1/busybox"
	say "unpacking the source"
	tar -C "$1" -xf "$1/root/usr/src/linux-source-6.1.tar.xz" || die "the source cannot be unpacked. Is the disk full?"
	mv "$1/linux-source-6.1" "$1/source"
	rm -rf "${1:?}/apt" "$1/root"
}

# Says which options the kernel does not take: that is an error of uml.config.
check_config() {
	local missing
	missing=$(grep '^CONFIG_' "$KASAN/uml.config" | grep -vxFf "$1/.config") || return 0
	die "the kernel does not take $missing"
}

configure() {
	{
		cat "$KASAN/uml.config"
		printf 'CONFIG_LOCALVERSION="-vcuda-%s"\n' "$2"
	} >"$1/vcuda.config"
	make -s -C "$1" ARCH=um KCONFIG_ALLCONFIG=vcuda.config allnoconfig >/dev/null
	check_config "$1"
}

compile() {
	say "building User-Mode Linux"
	if ! make -s -C "$1" ARCH=um -j"$(nproc)" linux modules >"$1/log" 2>&1; then
		grep -v 'ld: ' "$1/log" | tail -n 30 >&2
		die "User-Mode Linux does not build."
	fi
}

# Leaves what modules are built with.
slim() {
	local name
	mkdir "$2"
	for name in $KEPT; do
		mv "$1/$name" "$2/"
	done
	find "$2/arch" -mindepth 1 -maxdepth 1 -type d ! -name um ! -name x86 -exec rm -rf {} +
	find "$2" -name '*.o' ! -path '*/scripts/*' -delete
	rm -rf "$1"
}

fetch() {
	local dir=$1 hash=$2 tmp tool
	for tool in make gcc flex bison bc xz patch; do
		need_tool "$tool" "${tool/#xz/xz-utils}"
	done
	tmp=$(mktemp -d "$dir.XXXXXX") || die "cannot write to $(dirname "$dir"). Is the disk full?"
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	fetch_source "$tmp"
	patch -s -d "$tmp/source" -p1 <"$KASAN/uml.patch" || die "test/kasan/uml.patch does not fit the source."
	configure "$tmp/source" "$hash"
	compile "$tmp/source"
	mv "$tmp/source/linux" "$tmp/linux"
	slim "$tmp/source" "$tmp/build"
	chmod 755 "$tmp"
	mv -T "$tmp" "$dir"
}

main() {
	local hash dir
	[ "$(uname -m)" = x86_64 ] || die "only x86_64 hosts are supported."
	hash=$(cat "$KASAN"/uml.{config,patch} | sha256sum | cut -c 1-12)
	dir=$(vcuda_cache_dir)/uml-6.1-$hash
	mkdir -p "$(dirname "$dir")" || die "cannot make $(dirname "$dir"). VCUDA_CACHE names another directory."
	exec 9>"$dir.lock"
	flock 9
	[ -x "$dir/linux" ] || fetch "$dir" "$hash"
	printf '%s\n' "$dir"
}

main "$@"
