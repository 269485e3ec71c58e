#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# uninstall.sh BUILD: removes the files that `make install`, `install-host` or `install-guest` of this build folder puts
# there (below DESTDIR, if the variable is set), and the folders that are only ours once they are empty.
set -euo pipefail

build=$1
[ -f "$build/build.ninja" ] || {
	echo "uninstall: '$build' is no build folder, and only that says which files were installed." >&2
	exit 1
}
list=$(mktemp -d)
trap 'rm -rf "$list"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$list" >/dev/null
cd "$list"
removed=0
while IFS= read -r -d '' file; do
	path=${DESTDIR:-}/${file#./}
	if [ -e "$path" ] || [ -L "$path" ]; then
		rm -f -- "$path"
		removed=$((removed + 1))
	fi
done < <(find . ! -type d -print0)
find . -depth -type d \( -path '*/vcuda' -o -path '*/vcuda/*' -o -path '*/virtio-cuda' -o -path '*/virtio-cuda/*' \) -print0 |
	while IFS= read -r -d '' folder; do
		rmdir --ignore-fail-on-non-empty -- "${DESTDIR:-}/${folder#./}" 2>/dev/null || true
	done
echo "uninstall: $removed files removed"
