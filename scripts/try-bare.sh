#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# try-bare.sh [--user] [--check] [--keep] [bookworm|trixie]: clones this checkout's last commit into a minimal Debian and runs
# `make demo` there, as a new user would, without nvcc. Reports the time and disk space of each step. Needs root.
#
# --user: runs as an ordinary user with sudo instead of as root. --check: runs `make check` instead. --keep: leaves the root there.
# BARE_CACHE=DIR: keeps Debian's packages in DIR for the next run. VCUDA_BARE_PARENT=DIR: makes the root below DIR, not /tmp.
set -euo pipefail
shopt -s lastpipe
scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/private-apt.sh"

release=bookworm
user=root
goal=demo
keep=
while [ $# -gt 0 ]; do
	case $1 in
	bookworm | trixie) release=$1 ;;
	--user) user=newcomer ;;
	--check) goal=check ;;
	--keep) keep=yes ;;
	*) die "usage: try-bare.sh [--user] [--check] [--keep] [bookworm|trixie]" ;;
	esac
	shift
done

# The steps that have ended: "SECONDS MIB NAME" each.
steps=()
step=
report() {
	local line seconds mib
	printf '\n%-44s %8s %8s\n' "$release as $user" "min:s" "MiB"
	for line in "${steps[@]}"; do
		read -r seconds mib line <<<"$line"
		printf '%-44s %5d:%02d %8d\n' "$line" $((seconds / 60)) $((seconds % 60)) "$mib"
	done
}

# begin NAME: ends the step before it; without a name, only that.
begin() {
	local now=$SECONDS size
	size=$(du -smx "$root" | cut -f 1)
	[ -z "$step" ] || steps+=("$((now - started)) $((size - size_before)) $step")
	step=${1:-}
	started=$now
	size_before=$size
}

# Shows the output of `make`, in which a line "== NAME" begins a step.
follow() {
	local line
	while IFS= read -r line; do
		printf '%s\n' "$line"
		case $line in
		"== "*) begin "${line#== }" ;;
		esac
		printf '%s\n' "$line" >>"$work/output"
	done
}

# A minimal system has no certificates; apt checks signatures all the same.
mirror() {
	host_mirror "$1" | sed 's#^https:#http:#'
}

make_root() {
	local packages=$cache/debootstrap
	mkdir -p "$packages"
	debootstrap --variant=minbase --cache-dir="$packages" "$release" "$root" "$(mirror debian)" >"$work/log" 2>&1 || {
		tail -n 5 "$work/log" >&2
		die "debootstrap could not make a minimal $release."
	}
	{
		printf "deb $(mirror debian) %s main\n" "$release" "$release-updates"
		printf "deb $(mirror debian-security) %s main\n" "$release-security"
	} >"$root/etc/apt/sources.list"
	{
		apt-config dump | grep -E '^Acquire::https?::Proxy' || true
		[ -z "${http_proxy:-}" ] || printf 'Acquire::http::Proxy "%s";\n' "$http_proxy"
	} >"$root/etc/apt/apt.conf.d/99proxy"
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}

# inside USER COMMAND: a shell command on the minimal system, which sees nothing of this one but its devices and its network. pivot_root
# and no chroot, in which the kernel refuses user namespaces to ordinary users.
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
	' inside "$root" "$cache" "$1" "$2" </dev/null
}

# A signal may end this script alone: what it started in the minimal system ends with the subshell that runs inside().
cleanup() {
	pkill -KILL -P $$ && sleep 1
	if [ -n "$keep" ]; then
		say "the minimal system is in $root"
	else
		rm -rf --one-file-system "$work"
	fi
}

[ "$(id -u)" = 0 ] || die "only root can make a minimal system: sudo $0"
if ! command -v debootstrap >/dev/null; then
	say "installing debootstrap"
	apt-get -qq update >/dev/null 2>&1 || true
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install debootstrap >/dev/null 2>&1 ||
		die "'debootstrap' is missing, and apt-get cannot install it."
fi
need_tool git git
work=$(mktemp -d "${VCUDA_BARE_PARENT:-/tmp}/vcuda-bare.XXXXXX") || die "no folder can be made in ${VCUDA_BARE_PARENT:-/tmp}."
trap cleanup EXIT
chmod 755 "$work"
root=$work/root
cache=$(realpath -m "${BARE_CACHE:-$work/cache}")
mkdir -p "$root" "$cache/apt/partial"

begin "minimal system (debootstrap)"
echo "== minimal $release"
make_root
begin "git and make"
echo "== git and make"
packages="git make"
[ "$user" = root ] || packages="$packages sudo"
inside root "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $packages" \
	>"$work/log" 2>&1 || {
	tail -n 5 "$work/log" >&2
	die "git and make could not be installed in the minimal system."
}
if [ "$user" != root ]; then
	inside root "useradd -m -s /bin/bash $user && echo '$user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$user"
fi
begin "clone"
git -C "$scripts/.." bundle create -q "$root/virtio-cuda.bundle" HEAD
inside "$user" 'git clone -q /virtio-cuda.bundle "virtio cuda"'
rm "$root/virtio-cuda.bundle"
begin "packages (make setup)"
status=0
inside "$user" "cd 'virtio cuda' && make $goal" 2>&1 | follow || status=$?
begin
report
[ "$status" = 0 ] || die "\`make $goal\` failed in a minimal $release as $user."
if [ "$goal" = demo ]; then
	passed=$(grep -c '^Test PASSED$' "$work/output") || true
	[ "$passed" = 3 ] || die "\`make demo\` printed 'Test PASSED' $passed times, not 3 times."
fi
say "\`make $goal\` works in a minimal $release as $user"
