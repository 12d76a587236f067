"""Names, attributes and small tensors: many keys in one directory, beside as many files on tmpfs. The client is bench_meta, a program, so that no interpreter is timed."""
import contextlib
import io
import os
import subprocess

import numpy as np
import peers
from measure import fresh, now, timed

VIEW = "/full.npy"


def client(args, what, path, n, suffix=""):
    """Seconds that the program itself says its calls took."""
    rest = [] if what == "list" else [str(n), suffix]
    out = subprocess.run([args.build / "tests/bench/bench_meta", what, path, *rest], check=True, capture_output=True, text=True).stdout.split()
    assert int(out[0]) == n, (what, path, out)
    return float(out[1])


def ls(path):
    """The program, with its start, sorting and printing."""
    return timed(lambda: subprocess.run(["ls", "-l", path], check=True, stdout=subprocess.DEVNULL))


def make(env, n):
    """Files t0, t1, ... on tmpfs, and keys of the same names."""
    b = io.BytesIO()
    np.lib.format.write_array(b, np.arange(16, dtype=np.float32))
    ref = env.dir / "small"
    ref.mkdir()
    os.mkdir(env.auto / "many")
    begin = now()
    for i in range(n):
        os.mkdir(env.auto / f"many/t{i}")
        (env.auto / f"many/t{i}{VIEW}").write_bytes(b.getvalue())
        (ref / f"t{i}").write_bytes(b.getvalue())
    print(f"\n({n} small tensors made in {now() - begin:.1f} s)")
    return ref


def passthrough_hp(ref, fn):
    """fn on a mount of the files by libfuse's example, which nobody has looked at yet."""
    with contextlib.ExitStack() as stack:
        return fn(peers.passthrough_hp(stack, ref))


def twice(fn):
    """The second time is what counts."""
    fn()
    return fn()


def part_meta(args, t, env):
    n = 100 if args.quick else args.tensors
    ref = make(env, n)
    new = lambda fn: fresh(args, env, fn)
    beside = {}
    try:
        if not args.quick:
            peers.have_passthrough_hp()
            beside = {"libfuse passthrough_hp": lambda fn: lambda: passthrough_hp(ref, fn)}
    except peers.Absent as e:
        t.leave_out("libfuse passthrough_hp, names", e)

    def with_peer(suffix, fn):
        return {name + suffix: way(fn) for name, way in beside.items()}

    def listed(m):
        """So that the directories are known, as by a loader that has listed what there is."""
        client(args, "list", m / "many", n)
        return m

    view = lambda what: lambda m: client(args, what, m / "many", n, VIEW)
    t.run(f"directory of {n} with attributes, per entry", "us", n, {
        "tmpfs": lambda: client(args, "list", ref, n),
        "ptio, first": lambda: new(lambda m: client(args, "list", m / "many", n)),
        "ptio, again": lambda: client(args, "list", env.auto / "many", n),
        "tmpfs, the program ls -l": lambda: ls(ref),
        "ptio, the program ls -l, first": lambda: new(lambda m: ls(m / "many")),
        "ptio, the program ls -l, again": lambda: ls(env.auto / "many"),
        **with_peer(", first", lambda hp: client(args, "list", hp, n)),
        **with_peer(", again", lambda hp: twice(lambda: client(args, "list", hp, n)))}, "tmpfs", {"ptio, first": "<= 5 us", "ptio, again": "<= 5 us"})
    t.run("stat of a tensor's view", "us", n, {
        "tmpfs": lambda: client(args, "stat", ref, n),
        "ptio, first": lambda: new(view("stat")),
        "ptio, first, directory listed before": lambda: new(lambda m: view("stat")(listed(m))),
        "ptio, again": lambda: view("stat")(env.auto),
        **with_peer(", first", lambda hp: client(args, "stat", hp, n))}, "tmpfs", {"ptio, first, directory listed before": "<= 30 us"})
    t.run("open+read+close of a small tensor", "us", n, {
        "tmpfs": lambda: client(args, "read", ref, n),
        "ptio, first": lambda: new(view("read")),
        "ptio, first, directory listed before": lambda: new(lambda m: view("read")(listed(m))),
        "ptio, again": lambda: view("read")(env.auto),
        **with_peer(", first", lambda hp: client(args, "read", hp, n)),
        **with_peer(", again", lambda hp: twice(lambda: client(args, "read", hp, n)))}, "tmpfs", {"ptio, again": "<= 60 us"})
