#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build-fuzz.sh DIR: builds the fuzzers with libFuzzer, under the address and undefined-behaviour sanitizers. Exit status 77: libFuzzer is
# not installed.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

export CC=clang-19
if ! "$CC" -x c -fsanitize=fuzzer -o /dev/null - 2>/dev/null <<<'int LLVMFuzzerTestOneInput(void *p, long n) { return 0; }'; then
	echo "build: the fuzzers are skipped: they need clang-19 and libclang-rt-19-dev" >&2
	exit 77
fi
exec scripts/build-sanitized.sh address,undefined "$1" 400 fuzzers -- -Dfuzz=true -Db_lundef=false
