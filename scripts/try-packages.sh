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
minimal_tool systemd-nspawn systemd-container
if [ -z "$packages" ]; then
	packages=$work/packages
	BARE_CACHE=$cache "$scripts/build-packages.sh" "$release" "$packages"
fi
root=$work/root
echo "== minimal $release"
minimal_root "$root" "$release"
mkdir -p "$root/test" "$root/packages"
cp "$build/examples/vectorAdd" "$build/test/local/steady" "$scripts/../test/packages/"*.sh "$root/test/"
cp "$packages"/*.deb "$root/packages/"
raise_version "$packages" "$root/upgrade"
install_inside "$root" procps
echo "== packages"
inside "$root" root "/test/inside.sh" || die "the packages fail in a minimal $release."

# systemd is the first program, and runs boot.sh.
echo "== units"
cat >"$root/etc/systemd/system/trial.service" <<-END
	[Unit]
	After=basic.target sockets.target
	[Service]
	Type=oneshot
	ExecStart=/test/boot.sh
	[Install]
	WantedBy=multi-user.target
END
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../trial.service "$root/etc/systemd/system/multi-user.target.wants/trial.service"
install_inside "$root" systemd-sysv dbus /packages/virtio-cuda-{host,softgpu,guest}_*.deb
setpriv --pdeathsig KILL timeout -k 10 600 systemd-nspawn -q -D "$root" --register=no --keep-unit -b >"$work/boot.log" 2>&1 </dev/null || true
cat "$root/test/boot.out" || tail -n 20 "$work/boot.log" >&2
grep -qx -- '-- all passed' "$root/test/boot.out" || die "the units fail in a minimal $release."
