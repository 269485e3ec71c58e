#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build-packages.sh [--keep] [bookworm|trixie] [FOLDER]: builds the Debian packages of this checkout's last commit in a minimal Debian, and
# puts them into FOLDER (dist/RELEASE). Prints each step, the sizes and what lintian says. Fails where lintian finds an error or a warning.
#
# The version is that of meson.build, with date and name of the commit unless the commit is the tag "v" VERSION.
# --keep: leaves the minimal system there. minimal-root.sh says which variables name other places.
set -euo pipefail
scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/minimal-root.sh"

release=bookworm
keep=
out=
while [ $# -gt 0 ]; do
	case $1 in
	bookworm | trixie) release=$1 ;;
	--keep) keep=yes ;;
	-*) die "usage: build-packages.sh [--keep] [bookworm|trixie] [FOLDER]" ;;
	*) out=$1 ;;
	esac
	shift
done

version() {
	local version
	version=$("$scripts/check-version.py" --print)
	if [ "$(git -C "$scripts/.." describe --tags --exact-match 2>/dev/null || true)" = "v$version" ]; then
		printf '%s\n' "$version"
	else
		TZ=UTC git -C "$scripts/.." log -1 --date=format-local:%Y%m%d%H%M --format="$version+git%cd.%h"
	fi
}

# The changelog of the packages names the release; CHANGELOG.md says what changed.
write_changelog() {
	local maintainer
	maintainer=$(sed -n 's/^Maintainer: //p' "$1/debian/control")
	cat >"$1/debian/changelog" <<-END
		virtio-cuda ($(version)) unstable; urgency=medium

		  * CHANGELOG.md says what changed.

		 -- $maintainer  $(git -C "$scripts/.." log -1 --format=%cD)
	END
}

step() {
	printf '== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60))
}

# Shows each twentieth step of ninja and the helpers of debhelper; all of the output is in $work/build.log.
follow() {
	local line
	while IFS= read -r line; do
		printf '%s\n' "$line" >>"$work/build.log"
		case $line in
		"["*[05]0/*"] "* | "   dh_"*) printf '%s\n' "${line:0:100}" ;;
		esac
	done
}

minimal_init
out=$(realpath -m "${out:-$scripts/../dist/$release}")
root=$work/root
step "minimal $release"
minimal_root "$root" "$release"
mkdir -p "$root/build/virtio-cuda"
git -C "$scripts/.." archive HEAD | tar -x -C "$root/build/virtio-cuda"
write_changelog "$root/build/virtio-cuda"
step "what the packages are built with"
install_inside "$root" build-essential lintian
inside "$root" root "DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends build-dep /build/virtio-cuda" >"$work/log" 2>&1 || {
	tail -n 5 "$work/log" >&2
	die "what debian/control names cannot be installed on $release."
}
step "packages $(version)"
inside "$root" root "cd /build/virtio-cuda && DEB_BUILD_OPTIONS='noautodbgsym parallel=$(nproc)' dpkg-buildpackage -b -us -uc" 2>&1 | follow || {
	tail -n 30 "$work/build.log" >&2
	die "the packages cannot be built on $release."
}
rm -rf "$out"
mkdir -p "$out"
cp "$root"/build/*.deb "$root"/build/*.changes "$root"/build/*.buildinfo "$out/"
step "lintian"
inside "$root" root "useradd -m checker"
inside "$root" checker "lintian --info --display-info --fail-on error,warning /build/*.changes" 2>&1 |
	tee "$out/lintian.txt" || die "lintian finds errors or warnings in the packages: $out/lintian.txt"
step "packages in $out"
for package in "$out"/*.deb; do
	printf '%8d KiB  %8d KiB installed  %s\n' $(($(stat -c %s "$package") / 1024)) "$(dpkg-deb -f "$package" Installed-Size)" \
		"$(basename "$package")"
done
