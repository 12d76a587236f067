"""The first open of a large view waits until it is whole in memory, where the kernel then reads it by itself: but not for long, not for all, and at nobody's cost."""
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import zlib

import numpy as np
import pytest
import safetensors.numpy

from conftest import metrics
from harm import forget_verified
from test_cached import array, mmap_of, passes, save

pytestmark = pytest.mark.alone          # how long an open waits hangs on how fast the store was

MIB = 1 << 20


def view(mnt, key, seed, mib=8):
    a = array(seed, mib)
    return save(mnt, key, a), a


def read(path):
    with open(path, "rb", buffering=0) as f:
        return b"".join(iter(lambda: f.read(MIB), b""))


def wait_for(what):
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_first_opens_of_views_are_passed_through(mounts):
    """Also several by one thread, one after the other: each of them is looked up again."""
    made = mounts()
    a = array(1)
    save(made, "w", a)
    (made / "m").mkdir()
    (made / "m/model.safetensors").write_bytes(safetensors.numpy.save({"x": a, "y": a[::-1].copy()}))
    want = {n: read(made / n) for n in ("w/full.npy", "w/full.safetensors", "w/full.pt", "m/model.safetensors")}
    forget_verified(made)
    mnt = mounts("again", store=made.store)
    before = metrics(mnt)
    for n, data in want.items():
        with open(mnt / n, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            assert m[:] == data
    after = metrics(mnt)
    if not passes(mnt):
        assert after["ptio_fs_passed_opens_total"] == 0
        return
    assert after["ptio_fs_passed_opens_total"] - before["ptio_fs_passed_opens_total"] == 4
    assert after["ptio_fs_open_waits_total"] - before["ptio_fs_open_waits_total"] <= 4      # some may be whole at once
    assert after["ptio_fs_direct_opens_total"] == before["ptio_fs_direct_opens_total"]
    # the file under its own name is as it lies in the store
    stored = want.pop("m/model.safetensors")
    assert after["ptio_cache_fills_total"] == 3 and after["ptio_cache_checked_bytes_total"] == len(stored)
    assert after["ptio_cache_filled_bytes_total"] == sum(len(d) for d in want.values())
    assert mnt.errors() == ""


def test_without_waiting_the_first_open_is_streamed(mounts):
    mnt = mounts(options="open_wait=0")
    path, a = view(mnt, "w", 2)
    assert read(path).endswith(a.tobytes())
    m = metrics(mnt)
    assert m["ptio_fs_open_waits_total"] == m["ptio_fs_passed_opens_total"] == m["ptio_cache_fills_total"] == 0


@pytest.mark.parametrize("format", ["npy", "safetensors"])
def test_a_slow_store_is_not_waited_for_longer_than_allowed(mounts, monkeypatch, format):
    made = mounts()
    _, a = view(made, "w", 3, 16)
    monkeypatch.setenv("PTIO_FAULTS", "data.read:delay_ms=300")
    mnt = mounts("slow", store=made.store)
    monkeypatch.delenv("PTIO_FAULTS")
    path = mnt / f"w/full.{format}"
    with open(path, "rb", buffering=0) as f:
        m = metrics(mnt)
        assert m["ptio_fs_passed_opens_total"] == 0 and m["ptio_fs_open_waits_total"] == passes(mnt)
        assert os.pread(f.fileno(), 100, os.path.getsize(path) - 100) == a.tobytes()[-100:]
    assert read(path).endswith(a.tobytes())
    assert read(path).endswith(a.tobytes())
    if passes(mnt):
        assert metrics(mnt)["ptio_cache_fills_total"] == 1 and metrics(mnt)["ptio_fs_passed_opens_total"] >= 1
    assert mnt.errors() == ""


def test_a_view_for_which_there_is_no_room_is_streamed(mounts):
    mnt = mounts(options="cache_size=20M")
    path, a = view(mnt, "w", 4, 32)
    for _ in range(2):
        assert read(path).endswith(a.tobytes())
    m = metrics(mnt)
    assert m["ptio_fs_passed_opens_total"] == m["ptio_cache_fills_total"] == m["ptio_cache_used_bytes"] == 0


def open_at_once(path, barrier, queue):
    barrier.wait()
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        queue.put(zlib.crc32(m))


def test_processes_that_open_one_view_at_once_fill_it_once(mounts):
    made = mounts()
    _, a = view(made, "w", 5, 32)
    mnt = mounts("again", store=made.store)
    path, n = str(mnt / "w/full.npy"), 24
    ctx = multiprocessing.get_context("fork")
    barrier, queue = ctx.Barrier(n), ctx.Queue()
    children = [ctx.Process(target=open_at_once, args=(path, barrier, queue)) for _ in range(n)]
    [c.start() for c in children]
    got = [queue.get(timeout=60) for _ in children]
    [c.join() for c in children]
    want = zlib.crc32(read(path))
    assert got == [want] * n
    if passes(mnt):
        m = metrics(mnt)
        assert m["ptio_cache_fills_total"] == 1 and m["ptio_cache_filled_bytes_total"] == a.nbytes + 128
    assert mnt.errors() == ""


OPENER = "import os, sys; os.open(sys.argv[1], os.O_RDONLY)"


@pytest.fixture
def waiting(mounts, monkeypatch):
    """A mount, and a process that waits there for a view which takes long; None: nobody waits with this libfuse."""
    made = mounts()
    view(made, "w", 6, 16)
    monkeypatch.setenv("PTIO_FAULTS", "data.read:delay_ms=2000")
    mnt = mounts("slow", store=made.store, options="open_wait=60000")
    monkeypatch.delenv("PTIO_FAULTS")
    if not passes(mnt):
        yield mnt, None
        return
    opener = subprocess.Popen([sys.executable, "-c", OPENER, str(mnt / "w/full.npy")], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: metrics(mnt)["ptio_fs_open_waits_total"] == 1)
        yield mnt, opener
    finally:
        opener.kill()
        opener.wait()


def test_an_opener_can_be_killed_while_it_waits(waiting):
    mnt, opener = waiting
    if not opener:
        return
    opener.send_signal(signal.SIGKILL)
    opener.wait(timeout=30)
    m = metrics(mnt)
    assert m["ptio_cache_fills_total"] == m["ptio_fs_passed_opens_total"] == 0
    wait_for(lambda: metrics(mnt)["ptio_cache_given_up_total"] == 1)        # nobody wants it any more
    m = metrics(mnt)
    assert m["ptio_cache_used_bytes"] == m["ptio_cache_filling"] == m["ptio_cache_failed_total"] == 0
    assert mnt.errors() == ""


def test_an_opener_that_is_killed_tells_nothing_of_how_fast_the_store_is(waiting):
    mnt, opener = waiting
    if not opener:
        return
    opener.send_signal(signal.SIGKILL)
    opener.wait(timeout=30)
    wait_for(lambda: metrics(mnt)["ptio_cache_given_up_total"] == 1)
    again = subprocess.Popen([sys.executable, "-c", OPENER, str(mnt / "w/full.npy")], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: metrics(mnt)["ptio_fs_open_waits_total"] == 2)
    finally:
        again.kill()
        again.wait()


def test_the_driver_ends_while_an_opener_waits(waiting):
    mnt, opener = waiting
    if not opener:
        return
    mnt.process.send_signal(signal.SIGTERM)
    mnt.process.wait(timeout=30)
    opener.wait(timeout=30)


def test_what_is_read_once_does_not_drive_out_what_is_used(mounts):
    made = mounts()
    paths = [view(made, f"w{i}", 10 + i) for i in range(9)]
    mnt = mounts("again", store=made.store, options="cache_size=36M")
    used, a = mnt / "w0/full.npy", paths[0][1]
    for _ in range(2):
        assert (np.load(used) == a).all()
    for i in range(1, 9):           # 64 MiB and more
        assert (np.load(mnt / f"w{i}/full.npy") == paths[i][1]).all()
    if not passes(mnt):
        return
    before = metrics(mnt)
    assert before["ptio_cache_evictions_total"] >= 4 and before["ptio_cache_used_bytes"] <= 36 * MIB
    assert (np.load(used) == a).all()
    after = metrics(mnt)
    assert after["ptio_fs_passed_opens_total"] - before["ptio_fs_passed_opens_total"] == 1
    assert after["ptio_cache_fills_total"] == before["ptio_cache_fills_total"]
    assert after["ptio_store_read_bytes_moved_total"] == before["ptio_store_read_bytes_moved_total"]
    # nor does a first open drive out what is in use
    held = [mmap_of(mnt / f"w{i}/full.npy") for i in range(1, 9)]
    assert [bytes(m[128:]) for m in held] == [p[1].tobytes() for p in paths[1:]]
    assert mnt.errors() == ""
