#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# release.sh [--check] [--days N]: makes the annotated tag "v" VERSION of a release, if all that a release needs is there. The version is
# that of meson.build. Each requirement has one line: "ok ITEM: ..." or "missing ITEM: ...", which says what to do. Exit status 1 if any
# is missing; then there is no tag.
#
# --check: makes no tag. --days N: results of tests may be N days old (30).
#
# Results are those in test/long-results.txt, which `make check-long` writes, and the dates in doc/reference/coverage.md of NVIDIA's samples
# on a GPU. The tree has no result of `make check` and of the suite "gpu": CONTRIBUTING.md asks for them.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

MOST_LINES=150
SAMPLES=doc/reference/coverage.md
RESULTS=test/long-results.txt
days=30
check=
missing=0

usage() {
	echo "usage: release.sh [--check] [--days N]" >&2
	exit 2
}

# item NAME CONDITION-STATUS OK-TEXT MISSING-TEXT
item() {
	if [ "$2" = 0 ]; then
		echo "ok $1: $3"
	else
		echo "missing $1: $4"
		missing=$((missing + 1))
	fi
}

# The days since a date; nothing if it is no date.
age() {
	local seconds
	seconds=$(date -ud "$1" +%s 2>/dev/null) && echo $((($(date -u +%s) - seconds) / 86400))
}

# dated NAME DATE TO-DO: the date is at most $days days ago.
dated() {
	local old
	old=$(age "${2:-none}")
	if [ -z "$old" ]; then
		item "$1" 1 "" "there is no result: $3"
	else
		[ "$old" -le "$days" ]
		item "$1" $? "$2" "$2 is $old days ago, more than $days: $3"
	fi
}

check_repository() {
	local branch
	[ -z "$(git status --porcelain)" ]
	item tree $? "no changes" "files differ from the commit: commit or remove them (git status)"
	branch=$(git symbolic-ref --short -q HEAD)
	[ "$branch" = main ]
	item branch $? main "a release is made on main, not on ${branch:-a detached commit}: git switch main"
	! git rev-parse -q --verify "refs/tags/v$version" >/dev/null
	item tag $? "v$version is free" "v$version is there: meson.build needs the next version"
}

check_version() {
	local copies
	[[ "$version" =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]
	item version $? "$version" "'$version' in meson.build is not X.Y.Z"
	copies=$(scripts/check-version.py)
	item copies $? "all files name $version" "$(head -n 1 <<<"$copies")"
}

check_changelog() {
	local heading lines
	heading=$(grep -m 1 '^## ' CHANGELOG.md)
	[[ "$heading" =~ ^"## $version ("[0-9]{4}-[0-9]{2}-[0-9]{2}")"$ ]]
	item changelog $? "$heading" "the first heading of CHANGELOG.md is \"$heading\", not \"## $version ($(date -u +%F))\": give it version and date"
	lines=$(awk '/^## /{n++} n == 1' CHANGELOG.md | wc -l)
	[ "$lines" -le $MOST_LINES ]
	item changelog-length $? "$lines lines" "$lines lines of CHANGELOG.md are about this release: shorten them to $MOST_LINES"
}

# The parts of check-long.sh, among them the bare machines and the packages.
check_long() {
	local part date result
	for part in $(sed -n 's/^PARTS="\(.*\)"$/\1/p' scripts/check-long.sh); do
		read -r date result < <(awk -v part="$part" '$1 == part {print $2, $4}' $RESULTS)
		if [ -n "$date" ] && [ "$result" != passed ]; then
			item "$part" 1 "" "$result on $date: mend it, then make check-long PARTS=$part"
		else
			dated "$part" "$date" "make check-long PARTS=$part"
		fi
	done
}

# The newest date among the results of NVIDIA's samples with a GPU.
check_samples() {
	local newest
	newest=$(awk '/^#/{here = /^### With a GPU/} here' $SAMPLES | grep -oE '\b20[0-9]{2}-[0-9]{2}-[0-9]{2}\b' | sort | tail -n 1)
	dated samples-gpu "$newest" "run test/programs/samples.py and the suite gpu on a GPU, and write date and results into $SAMPLES"
}

while [ $# -gt 0 ]; do
	case $1 in
	--check) check=yes ;;
	--days)
		[[ "${2:-}" =~ ^[0-9]+$ ]] || usage
		days=$2
		shift
		;;
	*) usage ;;
	esac
	shift
done
version=$(scripts/check-version.py --print) || exit 1
check_repository
check_version
check_changelog
check_long
check_samples
if [ $missing != 0 ]; then
	echo "release.sh: $missing missing: version $version cannot be released"
	exit 1
fi
[ -n "$check" ] && exit 0
git tag -a "v$version" -m "virtio-cuda $version" || exit 1
echo "release.sh: the tag v$version is made; make packages builds its packages"
