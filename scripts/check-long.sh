#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check-long.sh [PART...]: tests that take too long for `make check`; without arguments all parts. Needs root and Debian. Notes the last
# result of each part in test/long-results.txt, which is kept in the tree. The last line is "N passed, N failed, N skipped".
#
# Parts: bare-RELEASE-root, bare-RELEASE-user (`make demo` in a minimal system), bare-RELEASE-check (`make check` in it), where RELEASE is
# bookworm or trixie; packages-RELEASE (the Debian packages are built in a minimal system, installed in another one, upgraded and
# purged, also beside systemd); old-glibc (the guest's part in a minimal Debian 11); loaded (`make check` beside four endless loops, which start when all is built); ends (programs that end beside threads that print, 5,000 times,
# beside three endless loops); random (all recorded random kernels); pairs or pairs:N (the same
# from machine code, with pairs of registers as 64-bit values and without; one in N); fuzz or fuzz:MINUTES (libFuzzer runs
# each fuzzer for so many minutes, 15 unless told, and worker and ptx for twice as long); faults (ten times those of `make check`: 1,000
# starts, 10,000 hostile connections, a worker killed in each command, ten reboots and ends of QEMU); vms (four VMs with
# four programs each); slow (the tests of the suite of that name, also under the address sanitizer); pauses (programs are paused 200 times, and release their memory 200 times; 200 events beside VMs that share memory); kasan (the guest's driver in User-Mode Linux under the kernel's sanitizers, 15 minutes to build);
# mutants (mutated PTX instructions against NVIDIA's ptxas); cupti (records and numbers of libcupti against the headers in PyPI's wheels).
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

BUILD=$(realpath -m "${BUILD:-build}")
BUILD_ASAN=$(realpath -m "${BUILD_ASAN:-build-asan}")
BUILD_FUZZ=$(realpath -m "${BUILD_FUZZ:-build-fuzz}")
COMMIT=$(git describe --always --dirty)
RESULTS=test/long-results.txt
PARTS="bare-bookworm-root bare-bookworm-user bare-trixie-root bare-trixie-user bare-bookworm-check bare-trixie-check packages-bookworm packages-trixie old-glibc loaded ends random pairs fuzz faults vms pauses slow kasan mutants cupti"

# beside N COMMAND...: runs the command beside N endless loops.
beside() {
	local loops=() status n
	for ((n = 0; n < $1; n++)); do
		# Background jobs ignore Ctrl-C, so each looks now and then whether this script is still there.
		(while [ -d "/proc/$$" ]; do for ((i = 0; i < 1000000; i++)); do :; done; done) &
		loops+=($!)
	done
	shift
	"$@"
	status=$?
	kill "${loops[@]}"
	wait "${loops[@]}" 2>/dev/null
	return $status
}

build() {
	scripts/setup.sh check && scripts/build.sh "$BUILD" 350 all
}

# fuzz MINUTES
fuzz() {
	scripts/setup.sh check && scripts/build-fuzz.sh "$BUILD_FUZZ" &&
		FUZZ_SECONDS=$((60 * $1)) meson test -C "$BUILD_FUZZ" --no-rebuild --print-errorlogs --suite fuzz
}

faults() {
	build && VCUDAD="$BUILD/host/daemon/vcudad" FAKE_WORKER="$BUILD/test/vhost/fake-worker" VCUDA_TEST_TIMES=10 \
		python3 test/vhost/test-faults.py && VCUDA_TEST_TIMES=10 python3 test/local/local.py "$BUILD" faults &&
		VCUDA_TEST_TIMES=10 VCUDA_CPU_COMPUTE=9.0 python3 test/local/local.py "$BUILD" kills &&
		VCUDA_TEST_TIMES=2 python3 test/vm/vm.py "$BUILD" 6.1 reboot killed
}

vms() {
	build && python3 test/vm/several.py "$BUILD" 6.1 4 4
}

pauses() {
	build && VCUDA_TEST_TIMES=20 python3 test/local/local.py "$BUILD" pause &&
		VCUDA_TEST_TIMES=20 python3 test/local/local.py "$BUILD" release &&
		VCUDA_TEST_TIMES=20 python3 test/local/local.py "$BUILD" overcommit_random
}

slow() {
	local dir
	build && scripts/build-sanitized.sh address,undefined "$BUILD_ASAN" 700 all || return
	for dir in "$BUILD" "$BUILD_ASAN"; do
		meson test -C "$dir" --no-rebuild --print-errorlogs --timeout-multiplier 8 --suite slow || return
	done
}

# pairs EVERY: a share of the kernels for each processor
pairs() {
	local jobs=() count n status=0
	count=$(nproc)
	build || return
	for ((n = 0; n < count; n++)); do
		softgpu/test/pairs.sh "$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)" 80 "$BUILD/softgpu/test/lift-sass" \
			"$BUILD/cli/vcuda" "$BUILD/test/ptx/run-random" test/ptx/random.expect $(($1 * count)) $(($1 * n)) &
		jobs+=($!)
	done
	for n in "${jobs[@]}"; do
		wait "$n" || status=1
	done
	return $status
}

# 4,000 random mutants; the seed is printed
mutants() {
	build && python3 test/ptx/mutate.py --count 4000 --seed "$RANDOM" "$BUILD/test/ptx/check-load"
}

kasan() {
	build && python3 test/kasan/kasan.py "$BUILD"
}

part() {
	case $1 in
	bare-*-root) scripts/try-bare.sh "$(cut -d - -f 2 <<<"$1")" ;;
	bare-*-user) scripts/try-bare.sh --user "$(cut -d - -f 2 <<<"$1")" ;;
	bare-*-check) scripts/try-bare.sh --check "$(cut -d - -f 2 <<<"$1")" ;;
	packages-*) build && scripts/try-packages.sh "${1#packages-}" "$BUILD" ;;
	old-glibc) build && scripts/try-old-glibc.sh "$BUILD" ;;
	loaded) CHECK_SUITES=none make check BUILD="$BUILD" && beside 4 make check BUILD="$BUILD" ;;
	ends) build && VCUDA_TEST_RUNS=5000 beside 3 python3 test/local/local.py "$BUILD" awkward_ends ;;
	pairs) pairs 1 ;;
	pairs:*) pairs "${1#pairs:}" ;;
	random) build && test/ptx/run.sh "$BUILD/cli/vcuda" "$BUILD/test/ptx/run-random" --check test/ptx/random.expect ;;
	fuzz) fuzz 15 ;;
	fuzz:*) fuzz "${1#fuzz:}" ;;
	faults) faults ;;
	vms) vms ;;
	pauses) pauses ;;
	slow) slow ;;
	kasan) kasan ;;
	mutants) mutants ;;
	cupti) python3 test/local/cupti/layouts.py ;;
	esac
}

# note PART RESULT SECONDS: replaces the part's line.
note() {
	local rest
	rest=$(grep -v -e "^$1 " -e '^#' "$RESULTS" 2>/dev/null)
	{
		echo "# The last result of each part of make check-long: part, date, commit, result, minutes:seconds."
		{
			printf '%s\n' "$rest"
			printf '%s %s %s %s %d:%02d\n' "$1" "$(date -u +%F)" "$COMMIT" "$2" $(($3 / 60)) $(($3 % 60))
		} | sort | sed '/^$/d'
	} >"$RESULTS.new" && mv "$RESULTS.new" "$RESULTS"
}

passed=0 failed=0
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $PARTS
for name in "$@"; do
	case " $PARTS " in
	*" ${name%%:*} "*) ;;
	*)
		echo "check-long: there is no part '$name'. Parts: $PARTS" >&2
		exit 2
		;;
	esac
done
for name in "$@"; do
	echo "== $name"
	begun=$SECONDS
	if part "$name"; then
		result=passed passed=$((passed + 1))
	else
		result=failed failed=$((failed + 1))
	fi
	note "$name" "$result" $((SECONDS - begun))
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
