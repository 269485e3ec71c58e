#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh [check]: installs, by Debian package name, what building needs and this machine lacks; "check" adds what the tests need.
# Prints what it does; quick when nothing is missing. SETUP=no: installs nothing, names what is missing and fails.
set -euo pipefail

# For the build; for fetching QEMU and a kernel; for building the guest's driver, whose objtool is linked with libelf.
REQUIRED="gcc libc6-dev make meson ninja-build pkg-config python3
	llvm-19-dev libzstd-dev liblz4-dev nettle-dev zlib1g-dev libopenblas0-pthread libseccomp-dev libcmocka-dev procps binutils libelf-dev
	apt ca-certificates debian-archive-keyring xz-utils zstd"

# The compiler of the examples where there is no toolkit of NVIDIA's. The tests use it beside nvcc too.
EXAMPLES="clang-19 g++"

# Python's gRPC and YAML are for the plug-ins for Kubernetes: 2.5 MB to fetch, 9 MB on the disk.
# Slurm is for its plug-in: 3.2 MB to fetch, 20 MB on the disk.
TESTS="spin libclang-rt-19-dev dkms python3-grpcio python3-yaml libslurm-dev munge slurm-client slurmctld slurmd"

# The disk space that all packages need where none is installed.
NEEDED_MIB=1500

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
	if [ "$purpose" = check ] || { ! command -v nvcc >/dev/null && ! [ -x /usr/local/cuda/bin/nvcc ]; }; then
		# shellcheck disable=SC2086
		printf '%s\n' $EXAMPLES
	fi
	# shellcheck disable=SC2086
	[ "$purpose" != check ] || printf '%s\n' $TESTS
}

# One call for all: the names that are not installed, sorted.
missing() {
	local installed
	# shellcheck disable=SC2046
	installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $(wanted) 2>/dev/null | sed -n 's/^installed //p')
	comm -23 <(wanted | sort -u) <(printf '%s\n' "$installed" | sort -u)
}

# Before anything is redirected: sudo may ask for a password, and a refusal must be seen.
check_rights() {
	local by_hand="As root: apt-get update && apt-get install --no-install-recommends $names"
	[ "$(id -u)" != 0 ] || return 0
	command -v sudo >/dev/null || die "installing needs root, and there is no sudo. $by_hand"
	if sudo -n true 2>/dev/null; then
		return
	fi
	[ -t 0 ] || die "installing needs root; sudo asks for a password, and there is no terminal for it. $by_hand"
	say "installing needs root: sudo may ask for your password"
	sudo -v || die "installing needs root, and sudo refuses it to $(id -un). $by_hand"
}

# apt_get ARGUMENT...: its output goes to the log, its progress to the terminal.
apt_get() {
	local prefix=()
	[ "$(id -u)" = 0 ] || prefix=(sudo)
	"${prefix[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -y -o APT::Status-Fd=1 -o DPkg::Lock::Timeout=600 \
		"$@" 2>&1 </dev/null | show_progress
}

# The steps of apt's status lines in tenths, and its sentences about sizes and waiting; all else goes to the log.
show_progress() {
	local line tenths step last=''
	while IFS= read -r line; do
		case $line in
		dlstatus:*) step="downloading packages" ;;
		pmstatus:*) step="installing packages" ;;
		"Need to get "* | "After this operation"*)
			say "apt: $line"
			continue
			;;
		"Waiting for cache lock"*)
			[ "$last" = waiting ] || say "another apt is at work; waiting for it"
			last=waiting
			continue
			;;
		*)
			printf '%s\n' "$line" >>"$log"
			continue
			;;
		esac
		[[ $line =~ :([0-9]*)[0-9]\.[0-9]+: ]] || continue
		tenths=${BASH_REMATCH[1]:-0}
		if [ "$step $tenths" != "$last" ]; then
			last="$step $tenths"
			say "$step: $((tenths * 10)) %"
		fi
	done
}

# Another system has the tools in places of its own, so that nothing is installed there.
not_debian() {
	say "this is no Debian system, so nothing is installed. The build needs, by Debian's names:"
	wanted | tr '\n' ' ' | fmt -w 100 >&2
	say "where all of it is installed: SETUP=no make"
	exit 1
}

tools_are_there() {
	local tool
	for tool in gcc meson ninja pkg-config python3; do
		command -v "$tool" >/dev/null || die "'$tool' is missing (package '$(package_of "$tool")' in Debian)."
	done
	pkg-config --exists libzstd liblz4 libseccomp cmocka || die "libzstd, liblz4, libseccomp or cmocka is missing, with its headers."
}

package_of() {
	case $1 in
	ninja) echo ninja-build ;;
	*) echo "$1" ;;
	esac
}

free_mib() {
	df -Pm "$1" | awk 'NR == 2 { print $4 }'
}

# The folder that packages are written to with the least space, if apt or dpkg says that a disk is full.
full_folder() {
	local place=/usr
	if grep -qE 'No space left on device|enough free space' "$log"; then
		[ "$(free_mib /usr)" -lt "$(free_mib /var/cache/apt)" ] || place=/var/cache/apt
		printf '%s\n' "$place"
	fi
}

# The end of apt's own words, and the likeliest cause.
explain_failure() {
	local place
	grep -E '^(E|dpkg):' "$log" | sort -u | tail -n 3 >&2 || tail -n 5 "$log" >&2
	place=$(full_folder)
	[ -z "$place" ] ||
		die "$1: the disk that holds $place is too full ($(free_mib "$place") MiB are free; up to $NEEDED_MIB MiB are needed)."
	die "$1. Is there a network? Do /etc/apt/sources.list and apt's proxy settings fit?"
}

# Sources of other projects may fail without harm, so that a failure counts only once a package is not found. `any`: by default
# apt-get reports sources that it cannot reach as success.
update_lists() {
	say "fetching the package lists"
	lists=fetched
	apt_get -o APT::Update::Error-Mode=any update || lists=failed
}

# llvm-19 is in Debian 12 (security updates) and later, not in older releases.
check_offered() {
	local name
	for name in $names; do
		[ -z "$(apt-cache madison "$name" 2>/dev/null)" ] || continue
		[ "$lists" != failed ] || explain_failure "the package lists could not be fetched"
		die "this release offers no package '$name'. Debian 12 (with its security updates) and later do."
	done
	[ "$lists" != failed ] || say "some package lists could not be fetched; going on with those that are there"
}

install_packages() {
	# shellcheck disable=SC2086
	apt_get --no-install-recommends install $names
}

install_missing() {
	local lists=old
	check_rights
	say "these packages are missing: $names"
	# Lists of a day old serve; without any, names cannot be looked up.
	if [ -z "$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -mtime -1 -print -quit 2>/dev/null)" ]; then
		update_lists
	fi
	check_offered
	if install_packages; then
		return
	fi
	# A package of an older list may be gone from the archive.
	if [ "$lists" = old ] && [ -z "$(full_folder)" ]; then
		update_lists
		check_offered
		if install_packages; then
			return
		fi
	fi
	explain_failure "the packages could not be installed"
}

purpose=${1:-build}
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
log=$(mktemp) || die "no temporary file can be made. Is the disk that holds ${TMPDIR:-/tmp} full?"
trap 'rm -f "$log"' EXIT
install_missing
names=$(missing | tr '\n' ' ')
[ -z "$names" ] || die "still missing after the installation: $names"
say "done"
