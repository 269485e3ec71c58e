#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh DIR MIB TARGET... [-- MESON_OPTION...]: configures DIR where that is not done yet, again where Debian's packages have changed since,
# and builds the targets in it.
# MIB: disk space of DIR when all targets are built. Says so when a disk is full.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

# Left over for the compiler's and linker's temporary files.
SPARE_MIB=100

die() {
	printf 'build: %s\n' "$*" >&2
	exit 1
}

free_mib() {
	df -Pm "$1" | awk 'NR == 2 { print $4 }'
}

used_mib() {
	du -sm "$1" | cut -f 1
}

[ $# -ge 3 ] || die "usage: build.sh DIR MIB TARGET... [-- MESON_OPTION...]"
dir=$1 size=$2
shift 2
targets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	targets+=("$1")
	shift
done
[ $# -eq 0 ] || shift

advice="BUILD=DIR builds in another folder, TMPDIR=DIR names another one for temporary files."
mkdir -p "$dir" || die "the folder '$dir' cannot be made. $advice"
missing=$((size - $(used_mib "$dir")))
if [ "$missing" -gt 0 ] && [ "$(free_mib "$dir")" -lt "$missing" ]; then
	die "the disk that holds '$dir' has $(free_mib "$dir") MiB free, and the build needs up to $missing MiB more there. $advice"
fi
configure() {
	if [ ! -f "$dir/build.ninja" ]; then
		meson setup "$dir" "$@"
	elif [ /var/lib/dpkg/status -nt "$dir/build.ninja" ]; then
		meson setup --reconfigure "$dir"
	fi
}

if configure "$@" && ninja -C "$dir" "${targets[@]}"; then
	exit 0
fi
for place in "$dir" "${TMPDIR:-/tmp}"; do
	free=$(free_mib "$place")
	[ "$free" -ge "$SPARE_MIB" ] || die "failed, and the disk that holds '$place' is nearly full: $free MiB are free. $advice"
done
exit 1
