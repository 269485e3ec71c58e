#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh NAME FUZZER: runs a fuzzer that is linked with libFuzzer, from the inputs in corpus/NAME and with a random seed, which it prints.
# FUZZ_SECONDS=N: for so long, worker and ptx for twice as long, because they have the most code (default: 10 s each). FUZZ_KEEP=DIR:
# inputs that reach new code go to DIR/NAME. An input that fails stays in the build folder as NAME-crash-..., and "FUZZER FILE" repeats
# it. The last line has the fuzzer's processor time, user and system.
set -eu
name=$1 fuzzer=$2
here=$(dirname "$(readlink -f "$0")")
corpus=$here/corpus/$name
found=${FUZZ_KEEP:+$FUZZ_KEEP/$name} made=
trap 'rm -rf "$made"; times' EXIT
if [ -z "$found" ]; then
	found=$(mktemp -d)
	made=$found
fi
mkdir -p "$found"
set -- "$found"
[ ! -d "$corpus" ] || set -- "$@" "$corpus"
[ ! -f "$here/$name.dict" ] || set -- -dict="$here/$name.dict" "$@"
seconds=${FUZZ_SECONDS:-10}
case $name in
worker | ptx) seconds=$((seconds * 2)) ;;
esac
# A worker's memory is freed at its process's end. vcudad and callers of a decoder live on.
case $name in
worker | channel | ptx | cache | share) leaks=0 ;;
*) leaks=1 ;;
esac
export ASAN_OPTIONS=detect_leaks=$leaks UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# A busy machine may take long. A kernel that ends with SIGSEGV is the software GPU's to notice.
"$fuzzer" -detect_leaks=$leaks -max_total_time="$seconds" -timeout=600 -error_exitcode=1 -rss_limit_mb=4096 -max_len=16384 -print_final_stats=1 \
	-handle_segv=0 -handle_bus=0 -artifact_prefix="$name-" "$@"
