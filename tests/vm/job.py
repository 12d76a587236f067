# SPDX-License-Identifier: Apache-2.0
"""The main job on a mount, small enough for an emulated machine: writers that hold a tensor whole each write their slice, readers take other layouts.

usage: job.py MOUNTPOINT TRANSPORT

The last line is "N passed, N failed".
"""
import json
import os
import pathlib
import sys

import numpy as np
import safetensors.numpy

mount, transport = pathlib.Path(sys.argv[1]), sys.argv[2]
results = []


def check(what, right):
    results.append(bool(right))
    print("ok" if right else "FAILED", what, sep=": ", flush=True)


def same(got, want):
    return got.shape == want.shape and got.dtype == want.dtype and got.tobytes() == want.tobytes()


def shard(tensor, dim, rank, ranks):
    extent = tensor.shape[dim]
    return np.ascontiguousarray(tensor[(slice(None),) * dim + (slice(extent * rank // ranks, extent * (rank + 1) // ranks),)])


def write(key, writers, dim, tensor):
    """As processes do that each hold all of it: whole files, of which the rank's slice is kept. Half of them with safetensors."""
    key.mkdir(parents=True, exist_ok=True)
    for rank in range(writers):
        path = key / f"writer={rank}of{writers},dim={dim}" / "full"
        data = safetensors.numpy.save({"w": tensor}) if rank % 2 else None
        with open(path, "wb") as f:
            f.write(data) if data else np.save(f, tensor)


rng = np.random.default_rng(5)
tensors = {
    "rows": (0, rng.standard_normal((1024, 1536)).astype("float32")),
    "columns": (1, rng.integers(-30000, 30000, (1000, 1023), "int16")),
    "vector": (0, rng.standard_normal(4099).astype("float64")),
}
for name, (dim, tensor) in tensors.items():
    write(mount / "m" / name, 4, dim, tensor)

for name, (written, tensor) in tensors.items():
    key = mount / "m" / name
    check(f"{name}: whole, by np.load", same(np.load(key / "full.npy"), tensor))
    for dim in range(tensor.ndim):
        for rank in range(3):
            want = shard(tensor, dim, rank, 3)
            place = key / f"tp={rank}of3,dim={dim}"
            if rank == 1:
                got = next(iter(safetensors.numpy.load_file(place / "shard.safetensors").values()))
            else:
                got = np.load(place / "shard.npy")
            check(f"{name}: written on dim {written}, rank {rank} of 3 on dim {dim}, by {'safetensors' if rank == 1 else 'np.load'}", same(got, want))
    want = shard(tensor, tensor.ndim - 1, 5, 8)
    got = np.load(key / f"tp=5of8,dim={tensor.ndim - 1}" / "shard.npy", mmap_mode="r")
    check(f"{name}: rank 5 of 8 on the last dim, mapped", same(np.ascontiguousarray(got), want))

key = mount / "m" / "rows"
with open(key / "full.bin", "rb", buffering=0) as f:
    begin = f.read(1000)
    newer = tensors["rows"][1] + 1
    write(key, 2, 1, newer)
    check("a reader keeps the revision that it opened", begin + f.readall() == tensors["rows"][1].tobytes())
check("a new reader has the newer one", same(np.load(key / "full.npy"), newer))
(mount / "config.json").write_text('{"layers": 12}')
check("an ordinary file", json.loads((mount / "config.json").read_text()) == {"layers": 12})

status = json.loads((mount / ".ptio" / "status.json").read_text())
check(f"the status names {transport}, not {status.get('transport')}", status.get("transport") == transport)
check("no errors were recorded", not os.path.getsize(mount / ".ptio" / "errors") and not (mount / ".ptio" / "errors").read_text())
print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
sys.exit(not all(results))
