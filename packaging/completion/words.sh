# shellcheck shell=sh
# The commands in `vcuda help`, such as "vm run": the leading words of each part of a line.
_vcuda_commands() {
	"$1" help 2>/dev/null | sed -n 's/^  \([a-z]\)/\1/p' | tr , '\n' |
		awk '{ n = ""; for (i = 1; i <= NF && $i ~ /^[a-z]+$/; i++) n = n (n ? " " : "") $i; if (n) print n }'
}

# The options in the usage, and those that begin a line below it.
_vcuda_options() {
	"$@" --help 2>/dev/null | awk '/^$/ { below = 1 } !below || /^ +-/ {
		rest = $0
		while (match(rest, /(^|[^a-z-])--[a-z][a-z-]*=?/)) {
			name = substr(rest, RSTART, RLENGTH)
			sub(/^[^-]*/, "", name)
			print name
			if (below) break
			rest = substr(rest, RSTART + RLENGTH)
		}
	}' | sort -u
}
