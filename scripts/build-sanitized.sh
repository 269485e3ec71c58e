#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build-sanitized.sh SANITIZERS DIR MIB TARGET... [-- MESON_OPTION...]: as build.sh, with those sanitizers of the compiler. The code is
# optimised a little and has line numbers but no variables for a debugger, since the compiler takes up to a third longer with them.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

[ $# -ge 4 ] || {
	echo "usage: build-sanitized.sh SANITIZERS DIR MIB TARGET... [-- MESON_OPTION...]" >&2
	exit 1
}
sanitizers=$1
shift
case " $* " in
*" -- "*) ;;
*) set -- "$@" -- ;;
esac
exec scripts/build.sh "$@" -Db_sanitize="$sanitizers" -Doptimization=1 -Dc_args=-g1
