#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Claim: daemon and mount use the RDMA device, port and GID that their options name, over IPv4 and IPv6, whichever address they talk TCP by; and refuse, with a
# sentence that says what there is, names of which there is no such thing. Run by tests/vm/suite. Usage: tests/vm/test_names.sh mount|daemon, whose options.
set -uo pipefail
: "${PTIO_BUILD:?}" "${PTIO_PYTHON:?}"
part=${1:?usage: tests/vm/test_names.sh mount|daemon}
work=$(mktemp -d)
daemon= passed=0 failed=0
export PTIO_SECRET_FILE=$work/secret
unset PTIO_RDMA_BIND
echo 'a secret that only tests know' >"$work/secret"
chmod 600 "$work/secret"
mkdir "$work/mnt"
"$PTIO_PYTHON" -c '
import json, os, struct, sys
payload = os.urandom(3 << 20)
head = json.dumps({"w": {"dtype": "U8", "shape": [len(payload)], "data_offsets": [0, len(payload)]}}).encode()
open(sys.argv[1] + "/w.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + payload)
open(sys.argv[1] + "/w.bin", "wb").write(payload)' "$work"

check() { # WHAT COMMAND...
	local what=$1
	shift
	if "$@"; then passed=$((passed + 1)); echo "ok: $what"; else failed=$((failed + 1)); echo "FAILED: $what"; fi
}
has() { # TEXT FILE
	grep -qF -- "$1" "$2" || { cat "$2"; false; }
}
stop() {
	if mountpoint -q "$work/mnt"; then fusermount3 -u "$work/mnt"; fi
	[ -z "$daemon" ] || { kill $daemon; wait $daemon; }
	daemon=
}
trap 'stop; rm -rf "$work"' EXIT

# start ADDRESS OPTION...: a daemon that listens there for TCP, at port 7846.
start() {
	stop
	"$PTIO_BUILD/tools/ptiod/ptiod" mem:64M --listen "$1:7846" --secret-file "$work/secret" --arena 8M --http 127.0.0.1:7847 "${@:2}" 2>"$work/log" &
	daemon=$!
	for ((n = 0; n < 300; n++)); do
		grep -q 'listening.*http' "$work/log" && break
		kill -0 $daemon 2>/dev/null || break
		sleep 0.1
	done
	"$PTIO_BUILD/tools/ptio" -s "tcp://$1:7846" put "$work/w.safetensors" w/full >"$work/out" 2>&1 || { cat "$work/log" "$work/out"; false; }
}
# reads URI OPTIONS WORD...: through a mount, by RDMA, all of it; then each WORD is in the status.
reads() {
	local word
	"$PTIO_BUILD/fs/ptiofs" "$1" "$work/mnt" ${2:+-o "$2"} 2>"$work/out" || { cat "$work/out" "$work/log"; return 1; }
	cmp "$work/w.bin" "$work/mnt/w/full.bin" || return 1
	tr -d ' \n' <"$work/mnt/.ptio/status.json" >"$work/status"
	for word in '"transport":"rdma"' "${@:3}"; do has "$word" "$work/status" || return 1; done
	grep -q '^ptio_tcp_read_bytes_total 0$' "$work/mnt/.ptio/metrics" || return 1
	fusermount3 -u "$work/mnt"
}
# refused WORDS COMMAND...: ends by itself, not with 0, and says so.
refused() {
	local words=$1
	shift
	if timeout 60 "$@" >"$work/out" 2>&1; then cat "$work/out"; return 1; fi
	[ $? != 124 ] && has "$words" "$work/out"
}
# gid DEVICE ADDRESS-AS-GID: its index
gid() {
	local f
	for f in /sys/class/infiniband/"$1"/ports/1/gids/*; do
		if [ "$(cat "$f")" = "$2" ]; then basename "$f"; return; fi
	done
}
four=$(gid rxe1 0000:0000:0000:0000:0000:ffff:0a4d:0002) six=$(gid rxe1 fd77:0000:0000:0000:0000:0000:0000:0002)
six0=$(gid rxe0 fd77:0000:0000:0000:0000:0000:0000:0001)
echo "rxe1's GIDs: $four is 10.77.0.2, $six is fd77::2; rxe0's $six0 is fd77::1"

if [ "$part" = mount ]; then
	check "a daemon at one device's address" start 10.77.0.1
	check "serves by that" has '(rdma, rxe0 port 1)' "$work/log"
	check "a mount by the other device" reads ptio://10.77.0.1:7846 rdma_device=rxe1 '"device":"rxe1","port":1'
	check "by its port and GID" reads rdma://10.77.0.1:7846 rdma_device=rxe1,rdma_port=1,rdma_gid=$four "\"device\":\"rxe1\",\"port\":1,\"gid\":$four"
	check "by the daemon's own device" reads rdma://10.77.0.1:7846 rdma_device=rxe0 '"device":"rxe0"'
	export PTIO_RDMA_DEVICE=rxe1
	check "by the environment" reads rdma://10.77.0.1:7846 '' '"device":"rxe1"'
	unset PTIO_RDMA_DEVICE

	mount=("$PTIO_BUILD/fs/ptiofs" ptio://10.77.0.1:7846 "$work/mnt" -f -o)
	check "a mount refuses a device that is not there" refused 'no RDMA device "rxe7" here; there are rxe' "${mount[@]}" rdma_device=rxe7
	check "and a port" refused 'rxe1 has 1 port, so no port 2' "${mount[@]}" rdma_device=rxe1,rdma_port=2
	check "and a GID" refused 'rxe1 has no GID 77' "${mount[@]}" rdma_device=rxe1,rdma_gid=77
	check "and a GID of another kind than the daemon's address" refused 'IPv4' "${mount[@]}" rdma_device=rxe1,rdma_gid=$six
	check "and a port without a device" refused 'name the device, too' "${mount[@]}" rdma_port=1
	check "and what is no number" refused 'not "one"' "${mount[@]}" rdma_device=rxe1,rdma_port=one
else
	check "a daemon told its device, away from where it listens" start 127.0.0.1 --rdma-device rxe1
	check "serves by that" has 'listening on 10.77.0.2:7846 (rdma, rxe1 port 1)' "$work/log"
	check "a mount by TCP on loopback and RDMA on the cable" reads rdma://127.0.0.1:7846 rdma_device=rxe0 '"device":"rxe0"'
	printf 'rdma-device = rxe0\nrdma-port = 1\nrdma-gid = %s\n' "$six0" >"$work/config"
	check "a daemon told device, port and GID by its configuration" start 127.0.0.1 --config "$work/config"
	check "serves by that" has 'listening on [fd77::1]:7846 (rdma, rxe0 port 1)' "$work/log"
	check "a mount by IPv4 for TCP and IPv6 for RDMA" reads rdma://127.0.0.1:7846 rdma_device=rxe1,rdma_gid=$six "\"device\":\"rxe1\",\"port\":1,\"gid\":$six"

	check "a daemon on IPv6" start '[fd77::1]'
	check "serves by that" has 'listening on [fd77::1]:7846 (rdma, rxe0 port 1)' "$work/log"
	check "a mount on IPv6 by the other device" reads 'rdma://[fd77::1]:7846' rdma_device=rxe1 "\"device\":\"rxe1\",\"port\":1,\"gid\":$six"
	export PTIO_RDMA_BIND=fd77::2
	check "or by its address" reads 'rdma://[fd77::1]:7846' '' '"device":"rxe1"'
	stop

	serve=("$PTIO_BUILD/tools/ptiod/ptiod" mem:1M --listen 127.0.0.1:0 --secret-file "$work/secret")
	check "a daemon refuses a device that is not there" refused 'no RDMA device "mlx5_0" here; there are rxe' "${serve[@]}" --rdma-device mlx5_0
	check "and a port" refused 'rxe0 has 1 port' "${serve[@]}" --rdma-device rxe0 --rdma-port 3
	check "and a GID" refused 'rxe0 has no GID 50' "${serve[@]}" --rdma-device rxe0 --rdma-gid 50
	check "and a device together with rdma=no" refused 'rdma is no' "${serve[@]}" --rdma-device rxe0 --rdma no
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
