#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh: builds and runs every test, in ./build, and those that need no VM once more under the address and undefined-behaviour
# sanitizers, in ./build-asan. Many threads at once run under the thread sanitizer, in ./build-tsan, where no more is
# built than that needs. libFuzzer runs each fuzzer for 10 s, two for 20, in ./build-fuzz. The last line is "N passed, N failed, N skipped"; exit status 1 if any failed.
#
# BUILD=DIR, BUILD_ASAN=DIR, BUILD_TSAN=DIR, BUILD_FUZZ=DIR: other build directories. CHECK_SUITES="unit local": only these suites.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

BUILD=${BUILD:-build}
BUILD_ASAN=${BUILD_ASAN:-build-asan}
BUILD_TSAN=${BUILD_TSAN:-build-tsan}
BUILD_FUZZ=${BUILD_FUZZ:-build-fuzz}
SANITIZED="unit protocol fuzz vhost local"
# Some tests wait more than they run.
TESTS_AT_ONCE=$(($(nproc) + 2))
# A limit ends what hangs. It must not end what is slow on a busy machine.
PATIENCE=8
broken=0

# The suites of $2... that CHECK_SUITES lets through, as options.
suites() {
	local suite
	for suite in "$@"; do
		case " ${CHECK_SUITES:-$suite} " in
		*" $suite "*) printf -- '--suite\n%s\n' "$suite" ;;
		esac
	done
}

# run DIR SUITE...: a failed build counts as a failed test.
run() {
	local dir=$1 options
	shift
	rm -f "$dir/meson-logs/testlog.json"
	mapfile -t options < <(suites "$@")
	[ ${#options[@]} -gt 0 ] || return 0
	meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes "$TESTS_AT_ONCE" --timeout-multiplier "$PATIENCE" "${options[@]}"
	[ -f "$dir/meson-logs/testlog.json" ] || broken=$((broken + 1))
}

if scripts/build.sh "$BUILD" 350 all; then
	run "$BUILD" unit ring protocol fuzz vhost local nested libraries vm gpu ptx
else
	broken=$((broken + 1))
fi
if scripts/build-sanitized.sh address,undefined "$BUILD_ASAN" 700 all; then
	# shellcheck disable=SC2086
	run "$BUILD_ASAN" $SANITIZED
else
	broken=$((broken + 1))
fi
if scripts/build-sanitized.sh thread "$BUILD_TSAN" 150 threads; then
	run "$BUILD_TSAN" threads
else
	broken=$((broken + 1))
fi

# Status 77: libFuzzer is missing, as the script says.
scripts/build-fuzz.sh "$BUILD_FUZZ"
case $? in
0) run "$BUILD_FUZZ" fuzz ;;
77) ;;
*) broken=$((broken + 1)) ;;
esac

python3 scripts/count-tests.py "$broken" "$BUILD/meson-logs/testlog.json" "$BUILD_ASAN/meson-logs/testlog.json" \
	"$BUILD_TSAN/meson-logs/testlog.json" "$BUILD_FUZZ/meson-logs/testlog.json"
