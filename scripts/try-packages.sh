#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# try-packages.sh [--keep] [bookworm|trixie] BUILD [PACKAGES]: installs, upgrades and purges the Debian packages in a minimal Debian, and runs
# programs of the build folder BUILD there as plain users (test/packages/inside.sh). Builds the packages first unless PACKAGES, a folder, has
# them. Needs root; minimal-root.sh says which variables name other places.
set -euo pipefail
scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/minimal-root.sh"

release=bookworm
keep=
folders=()
while [ $# -gt 0 ]; do
	case $1 in
	bookworm | trixie) release=$1 ;;
	--keep) keep=yes ;;
	*) folders+=("$1") ;;
	esac
	shift
done
[ ${#folders[@]} -ge 1 ] || die "usage: try-packages.sh [--keep] [bookworm|trixie] BUILD [PACKAGES]"
build=${folders[0]}
packages=${folders[1]:-}
for program in "$build/examples/vectorAdd" "$build/test/local/steady"; do
	[ -x "$program" ] || die "there is no $program: build all first."
done

# raise_version FOLDER OTHER: the same packages with a higher version.
raise_version() {
	local package tree
	mkdir -p "$2"
	for package in "$1"/*.deb; do
		tree=$(mktemp -d "$work/package.XXXXXX")
		dpkg-deb -R "$package" "$tree"
		sed -i -E 's/^(Version: .*)$/\1+1/; s/(virtio-cuda-[a-z]* \(= [^)]*)\)/\1+1)/g' "$tree/DEBIAN/control"
		dpkg-deb -Zxz -z1 -b "$tree" "$2/$(basename "$package")" >/dev/null
		rm -rf "$tree"
	done
}

minimal_init
if [ -z "$packages" ]; then
	packages=$work/packages
	BARE_CACHE=$cache "$scripts/build-packages.sh" "$release" "$packages"
fi
root=$work/root
echo "== minimal $release"
minimal_root "$root" "$release"
mkdir -p "$root/test" "$root/packages"
cp "$build/examples/vectorAdd" "$build/test/local/steady" "$scripts/../test/packages/inside.sh" "$root/test/"
cp "$packages"/*.deb "$root/packages/"
raise_version "$packages" "$root/upgrade"
install_inside "$root" procps
echo "== packages"
inside "$root" root "/test/inside.sh" || die "the packages fail in a minimal $release."
