# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by try-bare.sh, build-packages.sh, try-packages.sh and try-old-glibc.sh: minimal Debian systems in a temporary folder, $work. Needs root.
#
# BARE_CACHE=DIR: keeps Debian's packages in DIR for the next run. VCUDA_BARE_PARENT=DIR: makes $work below DIR, not /tmp.
. "$(dirname "${BASH_SOURCE[0]}")/private-apt.sh"

# minimal_tool PROGRAM PACKAGE: installs the package on this machine where the program is missing.
minimal_tool() {
	if ! command -v "$1" >/dev/null; then
		say "installing $2"
		apt-get -qq update >/dev/null 2>&1 || true
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$2" >/dev/null 2>&1 ||
			die "'$1' is missing, and apt-get cannot install $2."
	fi
}

# minimal_init: makes $work and $cache.
minimal_init() {
	[ "$(id -u)" = 0 ] || die "only root can make a minimal system: sudo $0"
	minimal_tool debootstrap debootstrap
	need_tool git git
	work=$(mktemp -d "${VCUDA_BARE_PARENT:-/tmp}/vcuda-bare.XXXXXX") || die "no folder can be made in ${VCUDA_BARE_PARENT:-/tmp}."
	trap minimal_cleanup EXIT
	chmod 755 "$work"
	cache=$(realpath -m "${BARE_CACHE:-$work/cache}")
	mkdir -p "$cache/apt/partial"
}

# A signal may end this script alone: what it started in the minimal system ends with the subshell that runs inside().
minimal_cleanup() {
	pkill -KILL -P $$ && sleep 1
	if [ -n "${keep:-}" ]; then
		say "the minimal system is in $work"
	else
		rm -rf --one-file-system "$work"
	fi
}

# A minimal system has no certificates; apt checks signatures nevertheless.
minimal_mirror() {
	host_mirror "$1" | sed 's#^https:#http:#'
}

# minimal_root ROOT RELEASE
minimal_root() {
	local root=$1 release=$2 packages=$cache/debootstrap
	mkdir -p "$root" "$packages"
	debootstrap --variant=minbase --cache-dir="$packages" "$release" "$root" "$(minimal_mirror debian)" >"$work/log" 2>&1 || {
		tail -n 5 "$work/log" >&2
		die "debootstrap could not make a minimal $release."
	}
	{
		printf "deb $(minimal_mirror debian) %s main\n" "$release" "$release-updates"
		printf "deb $(minimal_mirror debian-security) %s main\n" "$release-security"
	} >"$root/etc/apt/sources.list"
	{
		apt-config dump | grep -E '^Acquire::https?::Proxy' || true
		[ -z "${http_proxy:-}" ] || printf 'Acquire::http::Proxy "%s";\n' "$http_proxy"
	} >"$root/etc/apt/apt.conf.d/99proxy"
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}

# inside ROOT USER COMMAND: a shell command on the minimal system, which sees nothing of this one but its devices and its network.
# pivot_root and no chroot, in which the kernel refuses user namespaces to ordinary users.
inside() {
	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child bash -euc '
		root=$1 cache=$2 user=$3 command=$4
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount -t sysfs -o ro sysfs "$root/sys"
		mount --rbind /dev "$root/dev"
		mkdir -p "$root/var/cache/apt/archives" "$root/before"
		mount --bind "$cache/apt" "$root/var/cache/apt/archives"
		cd "$root"
		pivot_root . before
		cd /
		umount -l /before
		# This shell stays, as process 1 has to reap what lost its parent.
		env -i TERM=dumb PATH=/usr/sbin:/usr/bin:/sbin:/bin su - "$user" -c "$command" || exit $?
		exit 0
	' inside "$1" "$cache" "$2" "$3" </dev/null
}

# install_inside ROOT PACKAGE...: from the minimal system's own sources.
install_inside() {
	local root=$1
	shift
	inside "$root" root "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $*" \
		>"$work/log" 2>&1 || {
		tail -n 5 "$work/log" >&2
		die "these packages could not be installed in the minimal system: $*"
	}
}
