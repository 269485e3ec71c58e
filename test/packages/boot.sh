#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# boot.sh: what try-packages.sh runs as a unit of a minimal Debian that systemd has booted: vcudad's units, an upgrade while they run, and
# a purge. /upgrade has the packages with a higher version. Writes /test/boot.out, and powers the system off.
set -uo pipefail
exec >/test/boot.out 2>&1
trap 'systemctl poweroff' EXIT

# shellcheck source=common.sh
. "${0%/*}/common.sh"

explain() {
	systemctl status --no-pager 'vcuda*'
	journalctl --no-pager -n 50
}

as_member() {
	setpriv --reuid member --regid member --init-groups env -i bash -c "cd /test && $1"
}

main_pid() {
	systemctl show -p MainPID --value "$1"
}

# The last line of /tmp/steady.out changes from "ready" to the exit status.
begin_steady() {
	: >/tmp/steady.out
	chown member /tmp/steady.out
	as_member "./steady 100000 >/tmp/steady.out 2>&1; echo \$? >>/tmp/steady.out" &
	wait_for '[ "$(tail -n 1 /tmp/steady.out)" = ready ]'
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
wait_for '[ "$(systemctl is-active vcuda-arbiter.service)" = active ]'
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

say "an upgrade leaves daemons and programs alone"
systemctl enable --quiet vcudad@vm1.socket
begin_steady
before=$(main_pid vcudad.service) before_vm=$(main_pid vcudad@vm1.service)
dpkg -i /upgrade/virtio-cuda-{host,softgpu,guest}_*.deb >/tmp/dpkg.out 2>&1 || die "upgrade: $(cat /tmp/dpkg.out)"
[ "$(main_pid vcudad.service) $(main_pid vcudad@vm1.service)" = "$before $before_vm" ] || die "the upgrade has restarted vcudad"
[ "$(vcuda --version)" ] || die "vcuda does not run"
expect_passed "a new program of the old daemon"
[ "$(tail -n 1 /tmp/steady.out)" = ready ] || die "the upgrade has ended a program: $(cat /tmp/steady.out)"
say "a restart ends programs with an error, and the next program has the new version"
systemctl restart vcudad.service
wait_for '[[ "$(tail -n 1 /tmp/steady.out)" =~ ^[0-9]+$ ]]'
[ "$(tail -n 1 /tmp/steady.out)" = 3 ] || die "the program that ran: $(cat /tmp/steady.out)"
grep -q 'CUDA error' /tmp/steady.out || die "the program that ran: $(cat /tmp/steady.out)"
sed 's/^/   /' /tmp/steady.out
expect_passed "a program after the restart"
after=$(main_pid vcudad.service)
[ "$after" != "$before" ] || die "vcudad has not been restarted"
[ "$(readlink "/proc/$after/exe")" = /usr/bin/vcudad ] || die "vcudad is $(readlink "/proc/$after/exe")"

say "a purge ends all daemons, and leaves nothing"
dpkg --purge virtio-cuda-{softgpu,host,guest} >/tmp/dpkg.out 2>&1 || die "purge: $(cat /tmp/dpkg.out)"
! pgrep -l 'vcuda' || die "processes are left"
! systemctl list-units --all --plain --no-legend 'vcuda*' | grep -v not-found || die "units are left"
! getent passwd vcuda || die "the user is left"
left=$(find /etc /usr /run /var -xdev \( -name '*vcuda*' -o -name '*virtio-cuda*' \) -not -path '/var/log/*' -not -path '/run/systemd/*' -not -path '/run/log/*')
[ -z "$left" ] || die "files are left: $left"
say "all passed"
