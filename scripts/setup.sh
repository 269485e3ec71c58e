#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs, by Debian package name, what building and testing need and this machine lacks. Says what it does; quick when nothing is
# missing. SETUP=no: installs nothing, names what is missing and fails.
set -euo pipefail

# What cannot be done without: for the build, for the tests, for fetching QEMU and a kernel, for building the guest's driver.
REQUIRED="gcc libc6-dev make meson ninja-build pkg-config python3
	llvm-19-dev libzstd-dev liblz4-dev nettle-dev zlib1g-dev libopenblas0-pthread libcmocka-dev spin procps binutils
	apt ca-certificates debian-archive-keyring xz-utils zstd"

# What the examples are built with where there is no toolkit of NVIDIA's.
EXAMPLES="clang-19 g++"

say() {
	printf 'setup: %s\n' "$*" >&2
}

die() {
	say "$@"
	exit 1
}

wanted() {
	# shellcheck disable=SC2086
	printf '%s\n' $REQUIRED
	if ! command -v nvcc >/dev/null && ! [ -x /usr/local/cuda/bin/nvcc ]; then
		# shellcheck disable=SC2086
		printf '%s\n' $EXAMPLES
	fi
}

# One call for all: the names that are not installed, sorted.
missing() {
	local installed
	# shellcheck disable=SC2046
	installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $(wanted) 2>/dev/null | sed -n 's/^installed //p')
	comm -23 <(wanted | sort -u) <(printf '%s\n' "$installed" | sort -u)
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "installing needs root, and there is no sudo. As root: apt-get install $names"
	fi
}

not_debian() {
	say "this is no Debian system, so nothing is installed. What is needed, by Debian's names:"
	wanted | tr '\n' ' ' | fmt -w 100 >&2
	say "where all of it is there: SETUP=no make"
	exit 1
}

# A machine with its tools in other places than Debian's packages need not have the packages.
tools_are_there() {
	local tool
	for tool in gcc meson ninja pkg-config python3; do
		command -v "$tool" >/dev/null || die "'$tool' is missing (package '$(package_of "$tool")' in Debian)."
	done
	pkg-config --exists libzstd liblz4 cmocka || die "libzstd, liblz4 or cmocka is missing, with its headers."
}

package_of() {
	case $1 in
	ninja) echo ninja-build ;;
	*) echo "$1" ;;
	esac
}

explain_failure() {
	case $(df -Pk /var/cache/apt | awk 'NR == 2 { print ($4 < 1500000) ? "full" : "ok" }') in
	full) die "$1: the disk is full, or nearly: 1.5 GB are needed below /var and /usr." ;;
	esac
	die "$1. Is there a network? Do /etc/apt/sources.list and apt's proxy settings fit?"
}

# llvm-19 is in Debian 12 (security updates) and later, not in older releases.
check_offered() {
	local name
	for name in $names; do
		[ -n "$(apt-cache madison "$name" 2>/dev/null)" ] ||
			die "this release offers no package '$name'. Debian 12 (with its security updates) and later do."
	done
}

install_missing() {
	say "installing with apt-get: $names"
	# Lists of a day old serve; without any, names cannot be looked up.
	if [ -z "$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -mtime -1 -print -quit 2>/dev/null)" ]; then
		as_root apt-get -qq update >&2 || explain_failure "the package lists could not be fetched"
	fi
	check_offered
	# shellcheck disable=SC2086
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $names >"$log" 2>&1 || {
		tail -n 5 "$log" >&2
		explain_failure "the packages could not be installed"
	}
}

if [ "$(uname -m)" != x86_64 ]; then
	die "only x86-64 machines are supported, not $(uname -m)."
fi
if ! command -v dpkg-query >/dev/null; then
	[ "${SETUP:-yes}" = no ] || not_debian
	tools_are_there
	exit 0
fi
names=$(missing | tr '\n' ' ')
names=${names% }
[ -n "$names" ] || exit 0
if [ "${SETUP:-yes}" = no ]; then
	die "missing, and not installed because SETUP=no: $names"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install_missing
names=$(missing | tr '\n' ' ')
[ -z "$names" ] || die "still missing after the installation: $names"
say "done"
