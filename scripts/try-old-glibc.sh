#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# try-old-glibc.sh [--keep] BUILD: installs the guest's part of the build folder BUILD in a minimal Debian 11 (glibc 2.31), and runs the
# command and a CUDA program there as an ordinary user. vcudad, with the software GPU, runs on this machine. Also compares the list of glibc's
# symbols with the libraries there. Needs root; minimal-root.sh says which variables name other places.
set -euo pipefail
scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/minimal-root.sh"

release=bullseye
keep=
[ "${1:-}" != --keep ] || { keep=yes && shift; }
[ $# = 1 ] || die "usage: try-old-glibc.sh [--keep] BUILD"
build=$(realpath "$1")
stubs=$build/guest/glibc
[ -e "$stubs/libc.so" ] || die "$build is built for the glibc of this machine only: there is no $stubs/libc.so."
for file in examples/vectorAdd.o test/unit/glibc-newer-program host/daemon/vcudad; do
	[ -e "$build/$file" ] || die "there is no $build/$file: build all first."
done

minimal_init
root=$work/root
echo "== minimal $release"
minimal_root "$root" "$release"
python3 "$scripts/../guest/glibc/symbols.py" compare "$scripts/../guest/glibc/symbols-2.17.txt" "$root/lib/x86_64-linux-gnu" ||
	die "the list of glibc's symbols has some that $release lacks."

echo "== installation"
make -s -C "$scripts/.." install-guest BUILD="$build" PREFIX=/usr/local DESTDIR="$root" SETUP=no >"$work/log" 2>&1 || {
	tail -n 5 "$work/log" >&2
	die "make install-guest"
}
mkdir -p "$root/test" "$root/run/vcuda"
cp "$build/test/unit/glibc-newer-program" "$root/test/"
# The example is linked again, as guest programs are. libstdc++ of this machine may need a newer glibc, that of the root is used.
g++ "$build/examples/vectorAdd.o" "$build/guest/libcudart/libcudart-13.so" -L"$stubs" -Wl,-rpath-link,"$stubs:$build/guest/libcuda" \
	-Wl,--wrap=__libc_start_main -Wl,--allow-shlib-undefined -o "$root/test/vectorAdd"
inside "$root" root "useradd -m member && ldconfig"

"$build/host/daemon/vcudad" --backend cpu --socket "$root/run/vcuda/socket" --socket-mode 0666 --allow-any-user >"$work/vcudad.log" 2>&1 &
daemon=$!
for ((i = 0; i < 600; i++)); do
	[ ! -S "$root/run/vcuda/socket" ] || break
	sleep 0.1
done

# expect NAME LINE COMMAND: an ordinary user's, without a variable. It prints a line that the pattern LINE matches.
expect() {
	echo "-- $1"
	inside "$root" member "env -i PATH=/usr/local/bin:/usr/bin:/bin bash -c '$3'" >"$work/out" 2>&1 && grep -qx -- "$2" "$work/out" || {
		cat "$work/out" "$work/vcudad.log" >&2
		die "$1: $3"
	}
}

echo "== $(inside "$root" root "ldd --version | head -n 1")"
expect "functions that $release lacks" 'all is right' /test/glibc-newer-program
# The loader goes on without a library that it cannot preload, and says so.
expect "each library with all of its symbols" "$(find "$root/usr/local" -name '*.so*' -type f | wc -l) libraries" 'n=0
	for library in $(find /usr/local -name "*.so*" -type f); do
		said=$(LD_BIND_NOW=1 LD_PRELOAD=$library /bin/echo loaded 2>&1)
		[ "$said" = loaded ] || { echo "$library: $said" && exit 1; }
		n=$((n + 1))
	done
	echo $n libraries'
expect vectorAdd 'Test PASSED' /test/vectorAdd
expect "vcuda run -- vectorAdd" 'Test PASSED' 'vcuda run -- /test/vectorAdd'
expect "vcuda smi" 'virtio-cuda  driver .*' 'vcuda smi'
kill "$daemon"
wait "$daemon" || true
echo "all passed"
