#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# In the VM: driver-guest.sh DRIVER_TEST [CHECK...]. Runs its checks, and those that need the driver removed and loaded
# again, but for the checks named. Ends with the number of checks that failed.
test=$1
shift
skipped=$*
box=/run/vcuda/busybox
failed=0

check() {
	name=$1
	shift
	case " $skipped " in *" $name "*) return ;; esac
	if "$@"; then
		echo "ok $name"
	else
		echo "not ok $name"
		failed=$((failed + 1))
	fi
}

pins_left() {
	awk '$1 == "nr_foll_pin_acquired" { a = $2 } $1 == "nr_foll_pin_released" { r = $2 } END { print a - r }' /proc/vmstat
}

# A context that the host is still ending keeps its pages for a while, and the kernel adds up its counters once a second.
pins_left_are() {
	tries=0
	while [ "$(pins_left)" -ne "$1" ]; do
		[ $tries -lt 100 ] || { echo "$(pins_left) pages are pinned, not $1"; return 1; }
		sleep 0.1
		tries=$((tries + 1))
	done
}

no_pins_left() {
	pins_left_are 0
}

no_complaints() {
	! $box dmesg | grep -E 'BUG|WARNING:|Oops|general protection|refcount|use-after-free|lockdep'
}

# Under a waiting process: it must be told.
unbind_under_process() {
	device=$(basename /sys/bus/virtio/drivers/virtio_cuda/virtio*)
	$box mkfifo /tmp/ready.$$
	$box timeout 600 "$test" unbound >/tmp/ready.$$ &
	waiter=$!
	read -r word </tmp/ready.$$
	echo "$device" >/sys/bus/virtio/drivers/virtio_cuda/unbind
	wait $waiter || return 1
	[ "$word" = ready ] && [ ! -e /dev/vcuda ] || return 1
	echo "$device" >/sys/bus/virtio/drivers/virtio_cuda/bind
	[ -c /dev/vcuda ]
}

# virtiofs refuses to suspend, which ends the attempt. One device is suspended after the other, the last one first, so
# that ours is suspended by then, and comes back.
suspend_under_process() {
	$box mkfifo /tmp/suspend.$$
	$box timeout 600 "$test" unbound >/tmp/suspend.$$ &
	waiter=$!
	read -r word </tmp/suspend.$$
	echo 0 >/sys/power/pm_async
	echo devices >/sys/power/pm_test
	{ echo freeze >/sys/power/state; } 2>/dev/null
	echo none >/sys/power/pm_test
	wait $waiter
}

reload() {
	$box rmmod virtio_cuda && [ ! -e /dev/vcuda ] && $box insmod /run/vcuda/virtio-cuda.ko && [ -c /dev/vcuda ]
}

for name in open wait doorbells pin direct extents map-fails slow-unmap lost fork orphan sharer kill limit export; do
	check "$name" "$test" "$name"
done
check no-pins-left no_pins_left
check unbind unbind_under_process
check no-pins-left-after-unbind no_pins_left
check pin-after-bind "$test" pin
check suspend suspend_under_process
check pin-after-suspend "$test" pin
check killable "$test" killable
check quarantine "$test" quarantine
check quarantine-holds pins_left_are 4096
check random "$(dirname "$test")/driver-random" 5 3
check reload reload
check reset-frees-quarantine no_pins_left
check pin-after-reload "$test" pin
for round in 1 2 3 4 5; do
	check "reload-$round" reload
done
check open-after-reloads "$test" open
check no-complaints no_complaints
exit $failed
