"""The parts of the benchmarks that go through a ptiod over loopback TCP."""
import contextlib
import pathlib
import subprocess
import tempfile

import numpy as np

import peers
from measure import Mount, make_tensor, now, read_file, write_file


class Ptiod:
    """A daemon, ended by its own process. On loopback, without a secret."""

    def __init__(self, stack, build, store, log):
        self.log = pathlib.Path(log)
        self.port = peers.free_port()
        self.uri = f"tcp://127.0.0.1:{self.port}"
        with open(log, "wb") as out:
            self.process = subprocess.Popen([str(build / "tools/ptiod/ptiod"), str(store), "--listen", f"127.0.0.1:{self.port}", "--insecure", "--rdma", "no"],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        stack.callback(self.stop)
        deadline = now() + 30
        while "listening on" not in self.log.read_text():
            if self.process.poll() is not None or now() > deadline:
                raise SystemExit("ptiod did not start: " + self.log.read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def ranges(program, uri, mib, rounds, pid):
    """What bench_range prints: {way: (bytes, seconds of each round)}."""
    out = subprocess.run([str(program), uri, str(mib), str(rounds), str(pid)], capture_output=True, text=True)
    if out.returncode:
        raise SystemExit(out.stderr)
    rows = {}
    for line in out.stdout.splitlines():
        name, size, *seconds = line.split("\t")
        rows[name] = int(size), [float(s) for s in seconds]
    return rows


def part_net(args, t, env):
    """Range gets by the client library, against the same bytes sent by the plainest means."""
    for store in ("dir", "mem"):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=env.dir)))
            d = Ptiod(stack, args.build, folder / "store" if store == "dir" else f"mem:{args.mib + 64}M", folder / "ptiod.log")
            rows = ranges(args.build / "tests/bench/bench_range", d.uri, max(args.mib, 32), args.rounds, d.process.pid)
        names = {"sendfile": "sendfile() of a file in memory, one process to another", "write": "write() of one buffer, as iperf3 does",
                 **{s: f"ptio, 16 MiB a get in ranges of {s}" for s in ("4 KiB", "64 KiB", "1 MiB", "16 MiB")}}
        size = rows["sendfile"][0]
        goal = {names[s]: ">= 0.8" for s in ("64 KiB", "1 MiB", "16 MiB")}
        t.add(f"range gets over loopback TCP, ptiod on {store}:, verify=off", "GB/s", size, {n: rows[k][1] for k, n in names.items()}, names["sendfile"], goal)
        t.add(f"the same, processor time of both sides for a GB ({store}:)", "s/GB", size, {n: rows["cpu " + k][1] for k, n in names.items()}, names["sendfile"])


PTIO = "ptio, numpy on a mount of ptiod, verify=touch"


def beside_mooncake(t, env, mount, mooncake, dim):
    """A tensor that 4 tp ranks write on one dim, read whole and as a shard on the other, each over loopback TCP."""
    other, key = 1 - dim, f"w{dim}"
    files = make_tensor(mount, key, env.array, 4, dim)
    want = {"full": env.array, f"tp=1of4,dim={other}/shard": np.split(env.array, 4, axis=other)[1]}

    def write():
        return sum(write_file(path, data) for path, data in files)

    def read(name):
        begin = now()
        got = np.load(mount / f"{key}/{name}.npy")
        seconds = now() - begin
        assert np.array_equal(got, want[name]), f"ptio's {name} is not what was written"
        return seconds

    for title, what, mine in ((f"4 tp ranks write a tensor on dim {dim}, over loopback TCP", "write", write),
                              (f"a set on dim {dim} is read whole", "full", lambda: read("full")),
                              (f"rank 1 of 4 on dim {other} is read of a set on dim {dim}" + (" (Mooncake: whole, then cut)" if mooncake else ""), "shard",
                               lambda: read(f"tp=1of4,dim={other}/shard"))):
        ways, reference, goals = {PTIO: mine}, PTIO, None
        if mooncake:
            reference = f"Mooncake {peers.version('mooncake_transfer_engine_non_cuda')}"
            ways = {reference: lambda what=what: mooncake.seconds(what, dim), PTIO: mine}
            goals = {PTIO: "<= 0.2"} if what != "write" else None
        try:
            t.run(title, "s", 1, ways, reference, goals)
        except peers.Absent as e:
            t.leave_out(f"Mooncake: {title}", e)


def part_mooncake(args, t, env):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=env.dir)))
        d = Ptiod(stack, args.build, f"mem:{6 * args.mib + 64}M", folder / "ptiod.log")
        mount = Mount(args.build, d.uri, folder / "mnt", "serve=stream")
        stack.callback(mount.stop)
        mooncake = None
        try:
            mooncake = peers.Mooncake(stack, folder, env.ref)
            for dim in (0, 1):
                mooncake.seconds("write", dim)
        except peers.Absent as e:
            t.leave_out("Mooncake over loopback TCP", e)
            mooncake = None
        for dim in (0, 1):
            beside_mooncake(t, env, mount, mooncake, dim)


def check_remote(args, env, c):
    """What a mount of a daemon moves, whatever the machine."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=env.dir)))
        d = Ptiod(stack, args.build, env.store, folder / "ptiod.log")
        mount = Mount(args.build, d.uri, folder / "mnt", "serve=stream,verify=off")
        stack.callback(mount.stop)
        before = mount.metrics()
        shards = [mount / f"w/tp={r}of4,dim=0/shard.npy" for r in range(4)]
        for path in shards:
            read_file(path)
        after = mount.metrics()
        moved = after["tcp_read_bytes_total"] - before["tcp_read_bytes_total"]
        c.true(f"bytes read over TCP per bytes asked on dim 0: {moved / env.array.nbytes:.3f}, below 1.005 wanted", moved / env.array.nbytes < 1.005)
        wire = after["net_received_bytes_total"] - before["net_received_bytes_total"]
        c.true(f"bytes on the wire for them: {wire / moved:.3f}, below 1.02 wanted", wire / moved < 1.02)
        for r, (path, want) in enumerate(zip(shards, np.split(env.array, 4))):
            c.true(f"shard {r} over TCP is right", np.array_equal(np.load(path), want))
