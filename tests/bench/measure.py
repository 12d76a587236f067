"""What the benchmarks have in common: a mount, what is timed, a group of ways that are compared, the plot."""
import contextlib
import itertools
import json
import mmap
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

STEP = 1 << 20


def now():
    return time.perf_counter()


class Mount:
    """A mounted store, ended by its own process."""

    def __init__(self, build, store, point, options=""):
        self.point = pathlib.Path(point)
        self.point.mkdir()
        self.log = open(str(point) + ".log", "wb")
        argv = [str(build / "fs/ptiofs"), str(store), str(point), "-f"] + (["-o", options] if options else [])
        self.process = subprocess.Popen(argv, stdout=self.log, stderr=self.log)
        deadline = now() + 30
        while not (self.point / ".ptio/version").exists():
            if self.process.poll() is not None or now() > deadline:
                raise SystemExit("ptiofs did not mount: " + pathlib.Path(str(point) + ".log").read_text())
            time.sleep(0.02)

    def __truediv__(self, name):
        return self.point / name

    def metrics(self):
        lines = (self.point / ".ptio/metrics").read_text().splitlines()
        return {n.removeprefix("ptio_"): int(v) for n, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def status(self):
        return json.loads((self.point / ".ptio/status.json").read_text())

    def resident_peak(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10

    def processor(self):
        """Seconds of processor time so far, of all threads."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        subprocess.run(["fusermount3", "-u", "-z", str(self.point)], stderr=subprocess.DEVNULL)
        self.process.wait(timeout=60)
        self.log.close()


fresh_count = itertools.count()


@contextlib.contextmanager
def unverified(env):
    """Meanwhile nobody has verified anything of the store on this machine."""
    known, aside = env.store / "verified", env.dir / "verified-aside"
    os.rename(known, aside)
    try:
        yield
    finally:
        shutil.rmtree(known, ignore_errors=True)
        os.rename(aside, known)


def fresh(args, env, fn, options="", known=True, after=0):
    """fn on a mount of its own, which knows nothing yet; known: but for what was verified on this machine, as what was written on it is. after: seconds since the mount."""
    with contextlib.nullcontext() if known else unverified(env):
        m = Mount(args.build, env.store, env.dir / f"fresh{next(fresh_count)}", options)
        try:
            time.sleep(after)
            return fn(m)
        finally:
            m.stop()


TAKE = "import mmap, sys; m = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(mmap.MADV_HUGEPAGE); m[::4096] = bytes((len(m) + 4095) // 4096)"


def have_memory(size):
    """So much free memory is this machine's own: a virtual one that gives back what is free has to fetch it from its host otherwise, page by page and ten times as slowly as it clears it."""
    if size:
        subprocess.run([sys.executable, "-S", "-c", TAKE, str(size)], check=True)


# ---- what is timed; each returns seconds ----

def read_file(path, flags=0, step=STEP, most=1 << 62):
    """most: bytes, rounded up to steps."""
    buf = mmap.mmap(-1, step)
    view = memoryview(buf)
    begin, got = now(), 0
    fd = os.open(path, os.O_RDONLY | flags)
    while got < most and (n := os.readv(fd, [view])) > 0:
        got += n
    os.close(fd)
    return now() - begin


def read_twice(path):
    threads = [threading.Thread(target=read_file, args=(path,)) for _ in range(2)]
    begin = now()
    [t.start() for t in threads]
    [t.join() for t in threads]
    return now() - begin


def map_file(path):
    begin = now()
    fd = os.open(path, os.O_RDONLY)
    m = mmap.mmap(fd, 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
    os.close(fd)
    a = np.frombuffer(m, np.uint8)
    int(a[::4096].sum())
    del a
    m.close()
    return now() - begin


def write_file(path, data, sync=False):
    begin = now()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for at in range(0, len(data), STEP):
        os.write(fd, data[at:at + STEP])
    if sync:
        os.fsync(fd)
    os.close(fd)
    return now() - begin


def publish_file(path, data):
    """As who replaces a file that others may be reading: a new one, on the disk before it gets the name."""
    begin = now()
    new = f"{path}.new"
    write_file(new, data, sync=True)
    os.replace(new, path)
    return now() - begin


def publish_and_read(files, path, settle=lambda: None):
    """A tensor written anew by its ranks (files: of make_tensor), and then read by somebody; the reading is timed. settle: what else comes of it, which is waited for."""
    for name, data in files:
        write_file(name, data)
    time.sleep(0.3)                             # a step of a training loop is longer
    seconds = read_file(path)
    settle()
    return seconds


def settle(args, store, mount):
    """Superseded objects are collected now, and not some seconds later beside what is timed then; and the mount has its memory for the next one ready."""
    subprocess.run([str(args.build / "tools/ptio"), "-s", str(store), "gc"], check=True, stdout=subprocess.DEVNULL)
    deadline = now() + 30
    while (m := mount.metrics())["cache_reserve_ready_bytes"] < m["cache_reserve_bytes"] and now() < deadline:
        time.sleep(0.05)


def write_processor(path, data, mount=None):
    """Of the writer, and of the mount that it writes to."""
    begin = time.process_time() + (mount.processor() if mount else 0)
    write_file(path, data)
    return time.process_time() + (mount.processor() if mount else 0) - begin


def write_four(paths, pieces):
    threads = [threading.Thread(target=write_file, args=(p, d)) for p, d in zip(paths, pieces)]
    begin = now()
    [t.start() for t in threads]
    [t.join() for t in threads]
    return now() - begin


def timed(fn, *args):
    begin = now()
    fn(*args)
    return now() - begin


def in_process(fn, *args):
    """In a fresh process, where nothing is mapped; the process's start is not timed."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(fn, args)


# ---- what is measured ----

def make_tensor(mount, key, array, size, dim):
    """Written by `size` ranks, each its shard."""
    from io import BytesIO
    files = []
    for rank, part in enumerate(np.split(array, size, axis=dim)):
        b = BytesIO()
        np.lib.format.write_array(b, np.ascontiguousarray(part))
        d = mount / key / f"tp={rank}of{size},dim={dim}"
        os.makedirs(d, exist_ok=True)
        files.append((d / "shard.npy", b.getbuffer()))
    for path, data in files:
        write_file(path, data)
    return files


# ---- a group of ways that are compared ----

class Table:
    def __init__(self, rounds, memory):
        """memory: bytes that are made ready before each way, of which no way should need more."""
        self.rounds, self.memory, self.groups, self.left_out = rounds, memory, [], {}

    def leave_out(self, what, why):
        self.left_out[what] = str(why)
        print(f"\nleft out: {what}: {why}")

    def run(self, title, unit, amount, ways, reference, goals=None, size=0):
        """ways: {name: callable -> seconds}. unit GB/s: amount is bytes; us: amount is operations; s: seconds as they are. size: bytes that a way needs memory for, if it is more than usual."""
        seconds = {name: [] for name in ways}
        for name, way in ways.items():
            if self.rounds > 1:
                way()                           # once without counting: imports, and what is kept from the second time on
        for _ in range(self.rounds):
            for name, way in ways.items():
                have_memory(self.memory and max(self.memory, 3 * size))
                seconds[name].append(way())
        self.add(title, unit, amount, seconds, reference, goals)

    def add(self, title, unit, amount, seconds, reference, goals=None):
        """seconds: {name: those of each round}."""
        group = {"title": title, "unit": unit, "reference": reference, "ways": {}}
        print(f"\n{title}")
        for name, times in seconds.items():
            median = statistics.median(times)
            value = amount / median / 1e9 if unit == "GB/s" else median / amount * 1e6 if unit == "us" else median / amount * 1e9 if unit == "s/GB" else median
            # of speed where speed is the unit, else of time
            ratio = statistics.median(r / t if unit == "GB/s" else t / r for r, t in zip(seconds[reference], times))
            entry = {"value": value, "ratio": ratio, "seconds": times}
            goal = (goals or {}).get(name)
            if goal:
                entry["goal"] = goal
            group["ways"][name] = entry
            print(f"  {name:<58} {value:10.2f} {unit:<5} {ratio:7.2f} x" + (f"   goal {goal}" if goal else ""))
        self.groups.append(group)


# ---- out ----

def svg(groups, path):
    """Ratios to each group's reference, as bars."""
    rows = [(g["title"], n, w["ratio"], w["value"], g["unit"]) for g in groups for n, w in g["ways"].items()]
    titles = len(groups)
    height = 30 + 18 * len(rows) + 30 * titles
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="900" height="{height}" fill="white"/>']
    y, last = 20, None
    top = max(min(r[2], 4) for r in rows)
    for title, name, ratio, value, unit in rows:
        if title != last:
            y += 26
            out.append(f'<text x="10" y="{y}" font-weight="bold">{title}</text>')
            y, last = y + 18, title
        width = 330 * min(ratio, top) / top
        colour = "#3b6ea5" if name.startswith("ptio") else "#9a9a9a"
        out.append(f'<text x="20" y="{y}">{name}</text><rect x="400" y="{y - 10}" width="{width:.1f}" height="12" fill="{colour}"/>'
                   f'<text x="{406 + width:.1f}" y="{y}">{ratio:.2f} x ({value:.3g} {unit})</text>')
        y += 18
    out.append("</svg>")
    path.write_text("\n".join(out).replace(">=", "&gt;=") + "\n")
