"""One process of Mooncake, for peers.py: python mooncake_peer.py HTTP-PORT RPC-PORT ARRAY.npy lend|use. Answers a line of JSON to each command.

Each with the dim, 0 or 1, that the set is split on: write: the array by 4 tp ranks. full: all of it. shard: rank 1 of 4 on the other dim, which Mooncake has no call for: it is
read whole and cut.
"""
import json
import os
import sys
import time

import mooncake.store as mooncake
import numpy as np
import torch

http, rpc, path, role = sys.argv[1:]
torch.set_num_threads(1)
array = torch.from_numpy(np.load(path, mmap_mode="r" if role == "lend" else None).view())
size = array.numel() * array.element_size()
segment, buffer = (4 * size + (256 << 20), 64 << 20) if role == "lend" else (0, 2 * size + (256 << 20))
store = mooncake.MooncakeDistributedStore()
rc = store.setup("127.0.0.1", f"http://127.0.0.1:{http}/metadata", segment, buffer, "tcp", "", f"127.0.0.1:{rpc}")


def answer(**what):
    print(json.dumps(what), flush=True)


def parallelism(rank, dim):
    axis, p = mooncake.ParallelAxis(), mooncake.TensorParallelism()
    axis.kind, axis.rank, axis.size, axis.split_dim = "tp", rank, 4, dim
    p.axes = [axis]
    return p


def write(dim):
    codes = [store.upsert_tensor_with_parallelism(f"w{dim}", part, parallelism(rank, dim)) for rank, part in enumerate(parts[dim])]
    assert codes == [0] * 4, codes


def full(dim):
    target = mooncake.ReadTarget()
    target.mode, target.parallelism = "full", parallelism(0, dim)
    return store.get_tensor_with_parallelism(f"w{dim}", target)


def of_rank_1(whole, dim):
    n = whole.shape[dim] // 4
    return whole.narrow(dim, n, n)


def shard(dim):
    whole = full(dim)
    return None if whole is None else of_rank_1(whole, 1 - dim).contiguous()


if rc:
    answer(error=f"setup gave {rc}")
    sys.exit(1)
answer(version=getattr(mooncake, "__version__", ""))
if role == "lend":
    sys.stdin.read()
    os._exit(0)
parts = [[p.contiguous() for p in array.chunk(4, dim)] for dim in (0, 1)]
for line in sys.stdin:
    what, dim = line.split()
    try:
        begin = time.perf_counter()
        got = {"write": write, "full": full, "shard": shard}[what](int(dim))
        seconds = time.perf_counter() - begin
        want = of_rank_1(array, 1 - int(dim)) if what == "shard" else array
        if what != "write" and (got is None or got.shape != want.shape or not torch.equal(got, want)):
            answer(error=f"Mooncake's {what} is not what was written")
        else:
            answer(seconds=seconds)
        del got
    except Exception as e:
        answer(error=f"Mooncake's {what} failed: {e!r}"[:300])
os._exit(0)
