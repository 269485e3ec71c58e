#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Finds or fetches a QEMU with the generic vhost-user device (QEMU 10.2 and later), and virtiofsd.
#
# Prints the directory that holds `qemu-system-x86_64` and `virtiofsd`: links to the host's programs where those will
# do, else wrappers around Debian's packages, unpacked in the cache and installed nowhere. Quick when it is there
# already.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/private-apt.sh"

DEVICE=vhost-user-test-device-pci

has_device() {
	"$1" -device "$DEVICE,help" >/dev/null 2>&1
}

# As libvirt asks: QEMU loads all of its modules for that, and ends at those of another QEMU.
lists_types() {
	printf '{"execute":"%s"}\n' qmp_capabilities qom-list-types quit |
		"$1" -S -no-user-config -nodefaults -display none -machine none,accel=tcg -qmp stdio 2>/dev/null | grep -q '"usb-device"'
}

has_readonly() {
	"$1" --help 2>/dev/null | grep -q -- --readonly
}

host_virtiofsd() {
	local candidate
	for candidate in "$(command -v virtiofsd || true)" /usr/libexec/virtiofsd /usr/lib/virtiofsd; do
		if [ -x "$candidate" ] && has_readonly "$candidate"; then
			printf '%s\n' "$candidate"
			return
		fi
	done
}

# wrapper FILE PROGRAM OPTIONS: PROGRAM through the loader and libraries of its own release; the host's may be older.
wrapper() {
	cat >"$1" <<-SCRIPT
		#!/bin/sh
		root=\$(dirname "\$(readlink -f "\$0")")/root
		lib=\$root/usr/lib/x86_64-linux-gnu
		unset LD_LIBRARY_PATH LD_PRELOAD
		exec "\$lib/ld-linux-x86-64.so.2" --library-path "\$lib:\$root/lib/x86_64-linux-gnu" --argv0 "\$0" "\$root/$2" $3 "\$@"
	SCRIPT
	chmod 755 "$1"
}

# Removes unpacked files that are not needed: documentation, debugging aids, other machines' firmware, front ends.
slim() {
	local root=$1 keep
	rm -rf "$root"/usr/share/{doc,man,info,locale,lintian,bug,icons,applications,mime,perl5} "${root:?}"/{var,etc}
	for keep in "$root"/usr/bin/*; do
		[ "$(basename "$keep")" = qemu-system-x86_64 ] || rm -rf "$keep"
	done
	rm -rf "$root"/usr/lib/x86_64-linux-gnu/{gconv,perl*,systemd,libLLVM*,dri,gallium*}
}

# QEMU looks for its modules and files in the folder qemu-bundle beside its program, which is the loader here. Without
# it the modules would be those of the host's QEMU.
bundle() {
	local folder=$1/usr/lib/x86_64-linux-gnu/qemu-bundle
	mkdir -p "$folder"
	ln -sfn ../../../../usr "$folder/usr"
}

fetch() {
	local dir=$1 tmp root
	tmp=$(mktemp -d "$dir.XXXXXX") || die "cannot write to $(dirname "$dir"). Is the disk full?"
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	root=$tmp/root
	say "this host has no QEMU with $DEVICE (10.2 or later) and virtiofsd with --readonly: fetching Debian's"
	papt_init "$tmp/apt" trixie trixie-updates trixie-backports
	papt_fetch_all -t trixie-backports qemu-system-x86 virtiofsd
	papt_unpack "$root"
	slim "$root"
	bundle "$root"
	wrapper "$tmp/qemu-system-x86_64" usr/bin/qemu-system-x86_64 \
		'-L "$root/usr/share/qemu" -L "$root/usr/share/seabios"'
	wrapper "$tmp/virtiofsd" usr/libexec/virtiofsd ''
	has_device "$tmp/qemu-system-x86_64" ||
		die "the fetched QEMU ($("$tmp/qemu-system-x86_64" --version 2>&1 | head -n 1)) has no $DEVICE."
	lists_types "$tmp/qemu-system-x86_64" || die "the fetched QEMU does not load its modules."
	has_readonly "$tmp/virtiofsd" || die "the fetched virtiofsd cannot share read-only."
	rm -rf "$tmp/apt"
	install_dir "$tmp" "$dir"
}

link_host() {
	local dir=$1 qemu=$2 virtiofsd=$3 tmp
	tmp=$(mktemp -d "$dir.XXXXXX")
	ln -s "$qemu" "$tmp/qemu-system-x86_64"
	ln -s "$virtiofsd" "$tmp/virtiofsd"
	install_dir "$tmp" "$dir"
}

# A directory cannot be renamed over another one: the loser of a race, or an older copy, is moved aside first.
install_dir() {
	chmod 755 "$1"
	rm -rf "$2.old"
	[ ! -e "$2" ] || mv -T "$2" "$2.old"
	mv -T "$1" "$2"
	rm -rf "$2.old"
}

main() {
	local dir qemu virtiofsd
	dir=$(vcuda_cache_dir)/qemu
	[ "$(uname -m)" = x86_64 ] || die "only x86_64 hosts are supported."
	mkdir -p "$(dirname "$dir")" || die "cannot make $(dirname "$dir"). VCUDA_CACHE names another directory."
	exec 9>"$dir.lock"
	flock 9
	if [ -x "$dir/qemu-system-x86_64" ] && [ -x "$dir/virtiofsd" ] && has_device "$dir/qemu-system-x86_64"; then
		[ ! -d "$dir/root" ] || bundle "$dir/root"
		printf '%s\n' "$dir"
		return
	fi
	qemu=$(command -v qemu-system-x86_64 || true)
	virtiofsd=$(host_virtiofsd)
	if [ -n "$qemu" ] && [ -n "$virtiofsd" ] && has_device "$qemu"; then
		link_host "$dir" "$qemu" "$virtiofsd"
	else
		fetch "$dir"
	fi
	printf '%s\n' "$dir"
}

main "$@"
