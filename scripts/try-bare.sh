#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# try-bare.sh [--user] [--check] [--keep] [bookworm|trixie]: clones this checkout's last commit into a minimal Debian and runs
# `make demo` there, as a new user would, without nvcc. Reports the time and disk space of each step. Needs root.
#
# --user: runs as an ordinary user with sudo instead of as root. --check: runs `make check` instead. --keep: leaves the root there.
# minimal-root.sh says which variables name other places.
set -euo pipefail
shopt -s lastpipe
scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/minimal-root.sh"

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

minimal_init
root=$work/root
mkdir -p "$root"

begin "minimal system (debootstrap)"
echo "== minimal $release"
minimal_root "$root" "$release"
begin "git and make"
echo "== git and make"
packages="git make"
[ "$user" = root ] || packages="$packages sudo"
# shellcheck disable=SC2086
install_inside "$root" $packages
if [ "$user" != root ]; then
	inside "$root" root "useradd -m -s /bin/bash $user && echo '$user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$user"
fi
begin "clone"
git -C "$scripts/.." bundle create -q "$root/virtio-cuda.bundle" HEAD
inside "$root" "$user" 'git clone -q /virtio-cuda.bundle "virtio cuda"'
rm "$root/virtio-cuda.bundle"
begin "packages (make setup)"
status=0
inside "$root" "$user" "cd 'virtio cuda' && make $goal" 2>&1 | follow || status=$?
begin
report
[ "$status" = 0 ] || die "\`make $goal\` failed in a minimal $release as $user."
if [ "$goal" = demo ]; then
	passed=$(grep -c '^Test PASSED$' "$work/output") || true
	[ "$passed" = 3 ] || die "\`make demo\` printed 'Test PASSED' $passed times, not 3 times."
fi
say "\`make $goal\` works in a minimal $release as $user"
