# SPDX-License-Identifier: Apache-2.0
# Shared by setup, build and test (bash, sourced). Owns the places where things
# are kept and the way messages look. Assumes that src is set to the source tree.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# The debian release that we are on, as "bookworm"; empty elsewhere.
debian_codename() {
	(. /etc/os-release 2>/dev/null; [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}")
}

# Where a libfuse newer than the system's is kept.
fuse3_prefix() {
	if [ -n "${PTIO_FUSE3_PREFIX:-}" ]; then
		printf '%s\n' "$PTIO_FUSE3_PREFIX"
	elif [ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]; then
		printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/ptio/fuse3"
	else
		printf '%s\n' "$src/build/fuse3"
	fi
}

# Compilers take flags apart at spaces, so this path must have none.
check_fuse3_prefix() {
	case $1 in
	*[[:space:]]*) die "libfuse cannot be kept in '$1', which has a space; set PTIO_FUSE3_PREFIX to another place" ;;
	/*) ;;
	*) die "PTIO_FUSE3_PREFIX must be an absolute path, not '$1'" ;;
	esac
}

# fuse3_at_least VERSION [PREFIX]: is there a libfuse of this version or later?
fuse3_at_least() {
	local path= d
	if [ -n "${2:-}" ]; then
		for d in "$2"/lib/pkgconfig "$2"/lib/*/pkgconfig; do path+=${path:+:}$d; done
		PKG_CONFIG_LIBDIR=$path pkg-config --atleast-version="$1" fuse3 2>/dev/null
	else
		pkg-config --atleast-version="$1" fuse3 2>/dev/null
	fi
}

# Compile jobs: as many as there are processors, but not more than memory allows.
build_jobs() {
	if [ -n "${PTIO_JOBS:-}" ]; then echo "$PTIO_JOBS"; else nproc; fi
}
