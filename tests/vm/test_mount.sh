#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Claim: a daemon at 10.77.0.1 and a mount that comes from 10.77.0.2 do the main job over RDMA, with numpy as client:
# four writers that hold the whole tensor, readers in other layouts; bytes go by RDMA both ways, and land where they are wanted. Run by tests/vm/suite.
set -eu
build=${PTIO_BUILD:-.}
python=${PTIO_PYTHON:-python3}
work=$(mktemp -d)
export PTIO_RDMA_BIND=10.77.0.2 PTIO_SECRET_FILE=$work/secret
echo 'a secret that only tests know' >"$work/secret"
chmod 600 "$work/secret"
mkdir "$work/mnt"

"$build/tools/ptiod/ptiod" "$work/store" --listen 10.77.0.1:7846 --secret-file "$work/secret" --rdma yes --arena 128M --http 127.0.0.1:7847 2>"$work/log" &
daemon=$!
n=0
until grep -q 'listening.*http' "$work/log"; do
	n=$((n + 1))
	[ $n -lt 300 ] || { cat "$work/log"; exit 1; }
	sleep 0.1
done
"$build/fs/ptiofs" rdma://10.77.0.1:7846 "$work/mnt"
"$python" - "$work/mnt" <<'P'
import os, sys
import numpy as np
mnt = sys.argv[1]

def metric(name):
    with open(mnt + "/.ptio/metrics") as f:
        return next(int(l.split()[1]) for l in f if l.startswith(f"ptio_{name} "))

w = np.arange(1024 * 1024, dtype=np.float32).reshape(1024, 1024)
os.makedirs(mnt + "/m/w")
for rank in range(4):
    np.save("/tmp/w.npy", w)
    with open("/tmp/w.npy", "rb") as src, open(f"{mnt}/m/w/writer={rank}of4,dim=0/full", "wb") as dst:
        dst.write(src.read())
# Each part is a MiB and its header: whole windows go by RDMA, the short end by message.
assert metric("rdma_written_bytes_total") == 4 << 20, metric("rdma_written_bytes_total")
assert metric("rdma_write_fallbacks_total") == 0
assert (np.load(mnt + "/m/w/full.npy") == w).all()
assert metric("rdma_read_bytes_total") >= w.nbytes, metric("rdma_read_bytes_total")
assert metric("rdma_bounced_bytes_total") == 0, metric("rdma_bounced_bytes_total")
for rank in range(3):
    got = np.load(f"{mnt}/m/w/tp={rank}of3,dim=1/shard.npy")
    lo, hi = 1024 * rank // 3, 1024 * (rank + 1) // 3
    assert got.shape == (1024, hi - lo) and (got == w[:, lo:hi]).all(), rank
print("numpy wrote 4 parts and read 3 shards and the whole")
P
loads=$("$python" -c 'import urllib.request; t = urllib.request.urlopen("http://127.0.0.1:7847/metrics").read().decode()
print(*[l.split()[1] for n in ("arena_loads_total", "read_bytes_total") for l in t.splitlines() if l.startswith("ptiod_" + n + " ")])')
fusermount3 -u "$work/mnt"
kill -TERM $daemon
wait $daemon
# Four objects were read from the arena, and no byte of them by TCP.
echo "arena loads and bytes read by TCP: $loads"
[ "$loads" = "4 0" ]
