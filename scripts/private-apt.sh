# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by get-qemu.sh and get-kernel.sh: an apt whose package lists, state and downloads lie in a directory of
# ours, so that Debian packages of any release can be unpacked without root and without touching the host's own apt.
#
# The mirror and the proxy are the host's: its first Debian entry, and its apt configuration.

vcuda_cache_dir() {
	printf '%s\n' "${VCUDA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vcuda}"
}

say() {
	[ -n "${VCUDA_QUIET:-}" ] || printf '%s: %s\n' "$(basename "$0")" "$*" >&2
}

die() {
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	exit 1
}

need_tool() {
	command -v "$1" >/dev/null 2>&1 || die "'$1' is missing. Install the package '$2' and try again."
}

# The base URI of the archive $1 ("debian" or "debian-security") in the host's sources, else Debian's own.
host_mirror() {
	local archive=$1 uri
	uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
		sed -n -E "/^[[:space:]]*#/d; s#^(URIs:|deb)[[:space:]](.*[[:space:]])?([a-z+]+://[^[:space:]]*/$archive)/?([[:space:]].*)?\$#\\3#p" |
		head -n 1)
	printf '%s\n' "${uri:-http://deb.debian.org/$archive}"
}

# papt_init DIR SUITE...: makes a private apt under DIR that knows the suites, and fetches their lists.
papt_init() {
	local dir=$1 suite keyring=/usr/share/keyrings/debian-archive-keyring.gpg uri
	shift
	need_tool apt-get apt
	need_tool dpkg-deb dpkg
	[ -r "$keyring" ] || die "Debian's archive keys are missing. Install the package 'debian-archive-keyring'."
	mkdir -p "$dir"/{etc/preferences.d,etc/sources.list.d,state/lists/partial,cache/archives/partial} ||
		die "cannot write to $dir. Is the disk full? VCUDA_CACHE names another directory."
	: >"$dir/state/status"
	for suite in "$@"; do
		uri=$(host_mirror debian)
		case $suite in
		*-security) uri=$(host_mirror debian-security) ;;
		esac
		printf 'deb [signed-by=%s arch=amd64] %s %s main\n' "$keyring" "$uri" "$suite"
	done >"$dir/etc/sources.list"
	# The host's apt.conf.d stays in force (proxies, certificates); only places are changed.
	cat >"$dir/apt.conf" <<-CONF
		Dir::Etc::sourcelist "$dir/etc/sources.list";
		Dir::Etc::sourceparts "$dir/etc/sources.list.d";
		Dir::Etc::preferences "$dir/etc/preferences";
		Dir::Etc::preferencesparts "$dir/etc/preferences.d";
		Dir::State "$dir/state";
		Dir::State::status "$dir/state/status";
		Dir::Cache "$dir/cache";
		APT::Architecture "amd64";
		APT::Architectures { "amd64"; };
		APT::Sandbox::User "root";
		APT::Update::Post-Invoke "";
		APT::Update::Post-Invoke-Success "";
		Acquire::Languages "none";
		Acquire::Retries "3";
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear DPkg::Post-Invoke;
	CONF
	PAPT_CONF=$dir/apt.conf
	PAPT_DIR=$dir
	say "fetching package lists ($*) from $(host_mirror debian)"
	if ! APT_CONFIG=$PAPT_CONF apt-get -qq -o APT::Update::Error-Mode=any update >"$dir/log" 2>&1; then
		tail -n 5 "$dir/log" >&2
		case $(df -Pk "$dir" | awk 'NR == 2 { print ($4 < 300000) ? "full" : "ok" }') in
		full) die "the disk that holds $dir is full: 300 MB are needed. VCUDA_CACHE names another directory." ;;
		esac
		die "the package lists could not be fetched. Is there a network, and does apt's proxy setting fit?"
	fi
}

papt() {
	APT_CONFIG=$PAPT_CONF "$@"
}

papt_fail() {
	tail -n 5 "$PAPT_DIR/log" >&2
	if [ "$(df -Pk "$PAPT_DIR" | awk 'NR == 2 { print ($4 < 500000) }')" = 1 ]; then
		die "$1 (the disk that holds $PAPT_DIR has less than 500 MB left; VCUDA_CACHE names another directory)"
	fi
	die "$1"
}

# papt_fetch PACKAGE...: downloads exactly these packages; papt_fetch_all [-t SUITE] PACKAGE...: their dependencies
# too.
papt_fetch() {
	say "downloading $*"
	(cd "$PAPT_DIR/cache/archives" && papt apt-get -qq download "$@") >"$PAPT_DIR/log" 2>&1 ||
		papt_fail "downloading $* failed."
}

papt_fetch_all() {
	say "downloading ${*: -1} and what it needs"
	papt apt-get -qq -y --download-only --no-install-recommends \
		-o Debug::NoLocking=true install "$@" >"$PAPT_DIR/log" 2>&1 || papt_fail "downloading $* failed."
}

# papt_unpack ROOT: unpacks all that was downloaded into ROOT.
papt_unpack() {
	local root=$1 deb
	mkdir -p "$root"
	for deb in "$PAPT_DIR"/cache/archives/*.deb; do
		dpkg-deb -x "$deb" "$root" >"$PAPT_DIR/log" 2>&1 || papt_fail "unpacking $(basename "$deb") failed."
		rm -f "$deb"
	done
}
