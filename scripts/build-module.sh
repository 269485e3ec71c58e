#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build-module.sh [6.1|6.12|/path/to/kernel/build]: builds virtio-cuda.ko in the cache and prints its path. Builds
# once for each kernel and state of the sources.
#
# VCUDA_MODULE_CFLAGS: further flags, such as W=1, for make.
set -euo pipefail
scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/private-apt.sh"

SOURCES=${VCUDA_DRIVER_SOURCE:-$scripts/../guest/driver}
CONTROL=$scripts/../protocol/control.h
PROJECT=$scripts/../meson.build

compiler() {
	local build=$1 wanted
	wanted=$(sed -n -E 's/^CONFIG_CC_VERSION_TEXT="([^ "]+).*/\1/p' "$build/include/config/auto.conf" 2>/dev/null || true)
	wanted=${wanted##*/}
	wanted=${wanted#x86_64-linux-gnu-}
	if [ -n "$wanted" ] && command -v "$wanted" >/dev/null; then
		printf '%s\n' "$wanted"
	else
		need_tool gcc gcc
		printf 'gcc\n'
	fi
}

# The version string that the kernel compares with; include/config/kernel.release differs from it on Debian's 6.1.
release_of() {
	sed -n -E 's/^#define UTS_RELEASE "(.*)"$/\1/p' "$1/include/generated/utsrelease.h"
}

# The programs of the kernel's headers come without what they are linked with.
check_libraries() {
	local missing
	missing=$(ldd "$1/tools/objtool/objtool" 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found$/\1/p' | tr '\n' ' ') || true
	[ -z "$missing" ] || die "objtool of the kernel's headers lacks ${missing% }: install the package 'libelf-dev' and try again."
}

# In a checkout meson.build has the version; an installation has version.h beside the sources.
version_header() {
	if [ -f "$PROJECT" ]; then
		sed -n -E "s/^  version: '([^']+)',$/#define VCUDA_VERSION \"\1\"/p" "$PROJECT"
	else
		cat "$SOURCES/version.h"
	fi
}

main() {
	local kernel=${1:-6.1} build release version hash dir tmp control=$CONTROL
	case $kernel in
	/*)
		build=$kernel
		[ -f "$build/Makefile" ] || die "$build has no kernel headers. Install the package linux-headers-$(uname -r)."
		;;
	*) build=$("$scripts/get-kernel.sh" "$kernel")/build ;;
	esac
	need_tool make make
	check_libraries "$build"
	release=$(release_of "$build")
	[ -f "$control" ] || control=$SOURCES/control.h
	version=$(version_header)
	hash=$({ cat "$SOURCES"/*.[ch] "$SOURCES/Kbuild" "$control" && printf '%s\n' "$version"; } | sha256sum | cut -c 1-16)
	dir=$(vcuda_cache_dir)/module-$release-$hash
	if [ ! -f "$dir/virtio-cuda.ko" ]; then
		mkdir -p "$(dirname "$dir")" || die "cannot make $(dirname "$dir"). VCUDA_CACHE names another directory."
		tmp=$(mktemp -d "$dir.XXXXXX") || die "cannot write to $(dirname "$dir"). Is the disk full?"
		# shellcheck disable=SC2064
		trap "rm -rf '$tmp'" EXIT
		cp "$SOURCES"/*.[ch] "$SOURCES/Kbuild" "$control" "$tmp/"
		printf '%s\n' "$version" >"$tmp/version.h"
		say "building virtio-cuda.ko for $release"
		# Without pahole no BTF can be made; nothing here needs it.
		# shellcheck disable=SC2086
		if ! make -s -C "$build" M="$tmp" CC="$(compiler "$build")" CONFIG_DEBUG_INFO_BTF_MODULES= \
			${VCUDA_MODULE_CFLAGS:-} modules >"$tmp/log" 2>&1; then
			tail -n 30 "$tmp/log" >&2
			die "virtio-cuda.ko does not build for $release."
		fi
		grep -E 'warning|error' "$tmp/log" >&2 || true
		chmod 755 "$tmp"
		mkdir -p "$dir"
		mv "$tmp/virtio-cuda.ko" "$dir/virtio-cuda.ko"
	fi
	printf '%s\n' "$dir/virtio-cuda.ko"
}

main "$@"
