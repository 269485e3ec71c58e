#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# boot.sh: what try-packages.sh runs as a unit of a minimal Debian that systemd has booted: vcudad's units. Writes /test/boot.out, and
# powers the system off.
set -uo pipefail
exec >/test/boot.out 2>&1
trap 'systemctl poweroff' EXIT

say() {
	printf -- '-- %s\n' "$*"
}

die() {
	printf 'FAILED: %s\n' "$*"
	systemctl status --no-pager 'vcuda*'
	journalctl --no-pager -n 50
	exit 1
}

as_member() {
	setpriv --reuid member --regid member --init-groups env -i bash -c "cd /test && $1"
}

expect_passed() {
	as_member ./vectorAdd | grep -qx 'Test PASSED' || die "$1"
}

units="vcudad.socket vcudad.service vcudad@vm1.socket vcudad@vm1.service vcuda-arbiter.socket vcuda-arbiter.service"
say "the units are well formed"
# man is not installed here.
# shellcheck disable=SC2086
systemd-analyze verify $units 2>&1 | grep -v "Command 'man " && die "systemd-analyze verify"
for unit in vcudad.service vcudad@vm1.service vcuda-arbiter.service; do
	printf '   %s ' "$unit"
	systemd-analyze security --no-pager "$unit" | sed -n 's/.*exposure level for .*: //p'
done

say "a program starts vcudad by its socket"
usermod -a -G vcuda member
[ "$(systemctl is-active vcudad.service)" = inactive ] || die "vcudad runs before a program does"
expect_passed "the first program"
[ "$(systemctl is-active vcudad.service)" = active ] || die "vcudad does not run"
[ "$(ps -o user= -p "$(systemctl show -p MainPID --value vcudad.service)")" = vcuda ] || die "vcudad has another user"
[ -n "$(find /var/cache/vcuda -type f)" ] || die "compiled kernels are not kept"
say "vcudad ends, and the next program starts it again"
systemctl stop vcudad.service
expect_passed "a program after vcudad's end"

say "options of a VM come from /etc/vcuda"
mkdir -p /etc/vcuda
printf '%s\n' 'max-contexts = 7' 'share = 3' >/etc/vcuda/vm1.conf
vcuda config check >/tmp/check.out 2>&1 || die "vcuda config check: $(cat /tmp/check.out)"
grep -qx '1 file, 0 mistakes' /tmp/check.out || die "vcuda config check: $(cat /tmp/check.out)"
systemctl start vcudad@vm1.service || die "vcudad@vm1 does not start"
[ -S /run/vcuda/vm1.sock ] || die "there is no socket of vm1"
for ((i = 0; i < 100; i++)); do
	! vcuda vm list --json | grep -q vm1 || break
	sleep 0.2
done
vcuda vm list --json | grep -q '"max-contexts": *{[^}]*"limit": *7' || die "vm1: $(vcuda vm list --json)"
[ "$(systemctl is-active vcuda-arbiter.service)" = active ] || die "the arbiter does not run"
say "a file with a mistake keeps its daemon from starting"
echo 'max-contexs = 5' >/etc/vcuda/vm2.conf
! vcuda config check >/tmp/check.out 2>&1 || die "vcuda config check finds no mistake"
grep -q '^/etc/vcuda/vm2.conf:1: error: .*do you mean max-contexts?' /tmp/check.out || die "vcuda config check: $(cat /tmp/check.out)"
! systemctl start vcudad@vm2.service 2>/dev/null || sleep 1
[ "$(systemctl is-active vcudad@vm2.service)" != active ] || die "vcudad@vm2 runs"
journalctl --no-pager -u vcudad@vm2.service | grep -q 'vm2.conf:1: error' || die "the journal does not say what is wrong"
say "options of local programs come from /etc/vcuda/local.conf"
systemctl stop vcudad.service
echo 'max-contexts = 9' >/etc/vcuda/local.conf
expect_passed "a program of a daemon with options"
vcuda vm list --json --control /run/vcudad/control | grep -q '"max-contexts": *{[^}]*"limit": *9' || die "local.conf is not read"
say "all passed"
