# Sourced by the tests of the mount. Each has a store and a mount of its own, both gone at the end whatever happens.
#
# Functions: mount_it [ptiofs option...], umount_it, check CLAIM COMMAND..., refuse CLAIM ERRTEXT COMMAND..., finish.
set -u
src=${PTIO_SRC:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${PTIO_BUILD:-.}
ptiofs=$build/fs/ptiofs
client=$build/tests/integ/fsclient
export PTIO_RESERVE=${PTIO_RESERVE-64M}         # of each of many mounts
[ -c /dev/fuse ] || { echo "no /dev/fuse"; exit 77; }
command -v fusermount3 >/dev/null || { echo "no fusermount3"; exit 77; }
work=$(mktemp -d)
m=$work/mnt
store=$work/store
mkdir "$m"
passed=0 failed=0

clean() {
	local d
	for d in $(awk -v d="$work/" 'index($2, d) == 1 { print $2 }' /proc/mounts | sort -r); do
		fusermount3 -u -z "$d" || umount -l "$d"
	done
	[ -z "${pid_it:-}" ] || kill "$pid_it" 2>/dev/null
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

mount_it() {
	"$ptiofs" "$store" "$m" ${1+"$@"} || { echo "FAIL: cannot mount"; exit 1; }
}

driver_pid() { sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$m/.ptio/status.json"; }

# The driver has ended and let go of the store when its process is gone (or waits for an init that reaps nobody).
umount_it() {
	local pid
	pid=$(driver_pid)
	fusermount3 -u "$m" || return 1
	while kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null; do sleep 0.05; done
}

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL: $*"; }

check() {
	local claim=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		ok
	else
		bad "$claim: $(head -c 600 "$work/out")"
	fi
}

# The command must fail, and its output must hold the text.
refuse() {
	local claim=$1 text=$2
	shift 2
	if "$@" >"$work/out" 2>&1; then
		bad "$claim: did not fail"
	elif grep -qF -- "$text" "$work/out"; then
		ok
	else
		bad "$claim: failed with: $(head -c 300 "$work/out")"
	fi
}

ops() { "$client" ops "$@"; }
equal() { cmp "$1" "$2"; }
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
has() { grep -qF -- "$2" "$1" || { echo "$1 lacks: $2"; return 1; }; }
names() { ls "$1" | tr '\n' ' '; }
revision() { getfattr --only-values -n user.ptio.revision "$1" 2>/dev/null; }
# A tensor as PATH.npy (file) and PATH.bin (payload).
tensor() {
	"$client" npy "$2" "$3" >"$1.npy"
	"$client" slice "$2" "$3" 0 0 99999999 >"$1.bin"
}

finish() {
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
	exit $?
}
