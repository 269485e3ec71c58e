# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# For inside.sh and boot.sh. A script may define explain(), which shows more of a failure.

say() {
	printf -- '-- %s\n' "$*"
}

die() {
	printf 'FAILED: %s\n' "$*" >&2
	! declare -F explain >/dev/null || explain
	exit 1
}

wait_for() {
	local i
	for ((i = 0; i < 600; i++)); do
		! eval "$1" || return 0
		sleep 0.5
	done
	die "waited in vain for: $1"
}
