"""Large views are served from the store, from memory, or by the kernel itself: the bytes, revisions and maps are the same in each way."""
import json
import mmap
import os
import subprocess
import threading
import time

import numpy as np
import pytest
import safetensors.numpy

from conftest import PTIO, metrics
from harm import flip_on_disk, objects_of

ROWS = 4096


def passes(mnt):
    return json.loads((mnt / ".ptio" / "status.json").read_text())["passthrough"]["used"]


def array(seed, mib=8):
    return np.random.default_rng(seed).integers(0, 1 << 30, mib << 18, dtype=np.int32).reshape(ROWS, -1)


def save(mnt, key, a):
    path = mnt.key(key) / "full.npy"
    with open(path, "wb") as f:
        np.lib.format.write_array(f, a)
    return path


def warm(path):
    """Opens until all of it is in memory."""
    with open(path, "rb"), open(path, "rb"):
        deadline = time.monotonic() + 60
        while True:
            done, size = os.getxattr(path, "user.ptio.cached").decode().split("/")
            if done == size:
                return
            assert time.monotonic() < deadline
            time.sleep(0.01)


def eventually(true):
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(params=["auto", "cache", "stream"])
def way(request, mounts):
    return mounts(options=f"serve={request.param},cache_min=4096")


def test_every_way_gives_the_same_bytes(way):
    a = array(1)
    for r in range(4):
        d = way.key("w") / f"tp={r}of4,dim=1"
        d.mkdir()
        with open(d / "shard.npy", "wb") as f:
            np.lib.format.write_array(f, np.ascontiguousarray(np.split(a, 4, axis=1)[r]))
    for _ in range(4):
        assert (np.load(way / "w/full.npy") == a).all()
        assert (np.load(way / "w/full.npy", mmap_mode="r") == a).all()
        assert (np.load(way / "w/tp=1of3,dim=0/shard.npy") == a[ROWS // 3:ROWS * 2 // 3]).all()
        assert (np.load(way / "w/tp=3of4,dim=1/shard.npy", mmap_mode="r") == np.split(a, 4, axis=1)[3]).all()
    size = os.path.getsize(way / "w/full.npy")
    with open(way / "w/full.npy", "rb", buffering=0) as f:
        assert f.seek(0, 2) == size and f.read(10) == b""
        assert os.pread(f.fileno(), 100, size - 7) == a.tobytes()[-7:]
    assert way.errors() == ""


def test_reads_at_random_and_in_small_steps(way):
    a = array(2)
    path = save(way, "w", a)
    want = open(path, "rb").read()
    rng = np.random.default_rng(3)
    for _ in range(3):
        with open(path, "rb", buffering=0) as f:
            for off, n in zip(rng.integers(0, len(want), 50), rng.integers(1, 3 << 20, 50)):
                assert os.pread(f.fileno(), int(n), int(off)) == want[off:off + n]
        with open(path, "rb", buffering=0) as f:
            got = bytearray()
            while piece := f.read(100_003):
                got += piece
            assert bytes(got) == want


def test_an_upsert_is_seen_at_once_and_old_readers_keep_theirs(way):
    a, b = array(4), array(5)
    path = save(way, "w", a)
    warm_or_read(path)
    old = np.load(path, mmap_mode="r")
    held = open(path, "rb", buffering=0)
    for i in range(3):
        save(way, "w", b if i % 2 == 0 else a)
        want = b if i % 2 == 0 else a
        assert (np.load(path) == want).all()
        assert (np.load(path) == want).all()
        assert (np.load(path, mmap_mode="r") == want).all()
        assert (old == a).all()
        assert os.pread(held.fileno(), 1 << 20, 128) == a.tobytes()[:1 << 20]
    held.close()
    assert way.errors() == ""


def warm_or_read(path):
    for _ in range(3):
        with open(path, "rb") as f:
            while f.read(1 << 20):
                pass


def test_other_sizes_and_shorter_revisions(way):
    for mib in (8, 5, 9, 1):
        a = array(mib, mib)
        path = save(way, "w", a)
        for _ in range(3):
            assert os.path.getsize(path) == a.nbytes + 128
            assert (np.load(path) == a).all()


def test_readers_in_many_threads(way):
    a = array(6, 16)
    path = save(way, "w", a)
    bad = []

    def read(n):
        for _ in range(4):
            got = np.load(path, mmap_mode="r" if n % 2 else None)
            if not (got == a).all():
                bad.append(n)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not bad and way.errors() == ""


@pytest.mark.parametrize("flags", [0, os.O_DIRECT])
def test_readers_of_one_descriptor_at_once(way, flags):
    a = array(6, 16)
    path = save(way, "one", a)
    want = path.read_bytes()
    fd = os.open(path, os.O_RDONLY | flags)
    step, got, bad = 1 << 20, {}, []
    turns = iter(range(0, len(want), step))
    lock = threading.Lock()

    def read(seed):
        rng = np.random.default_rng(seed)
        buf = mmap.mmap(-1, step)       # O_DIRECT wants whole pages
        while True:
            with lock:
                off = next(turns, None)
            if off is None:
                return
            # the next piece of the file, and sometimes one from elsewhere
            for at in [off] + [int(rng.integers(0, len(want) // 4096)) * 4096] * int(rng.integers(0, 8) == 0):
                n = os.preadv(fd, [buf], at)
                if buf[:n] != want[at:at + step]:
                    bad.append(at)
            got[off] = True

    threads = [threading.Thread(target=read, args=(s,)) for s in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    os.close(fd)
    assert not bad and len(got) == -(-len(want) // step)


def test_large_reads_by_o_direct_are_read_ahead_each_byte_once(mounts):
    mnt = mounts(options="serve=stream,cache_min=4096")
    a = array(7, 32)
    path = save(mnt, "direct", a)
    want = a.tobytes()
    before = metrics(mnt)
    fd, buf, got = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4 << 20), []
    while n := os.readv(fd, [buf]):
        got.append(buf[:n])
    os.close(fd)
    assert b"".join(got)[-len(want):] == want
    after = metrics(mnt)
    assert after["ptio_fs_ahead_bytes_total"] - before["ptio_fs_ahead_bytes_total"] >= len(want) // 2
    # unaligned requests used to read each chunk for the request that it begins in, and again for the one that it ends in
    assert after["ptio_store_read_bytes_moved_total"] - before["ptio_store_read_bytes_moved_total"] <= len(want) * 5 // 4


def test_two_readers_of_one_streamed_file_read_the_store_once(mounts):
    mnt = mounts(options="serve=stream,cache_min=4096")
    a = array(8, 32)
    path = save(mnt, "two", a)
    want, step = a.tobytes(), 1 << 20
    before = metrics(mnt)
    fds, bufs, got = [os.open(path, os.O_RDONLY | os.O_DIRECT) for _ in range(2)], [mmap.mmap(-1, step) for _ in range(2)], [[], []]
    while True:     # by turns
        counts = [os.readv(fd, [buf]) for fd, buf in zip(fds, bufs)]
        if not any(counts):
            break
        for pieces, buf, n in zip(got, bufs, counts):
            pieces.append(buf[:n])
    [os.close(fd) for fd in fds]
    for pieces in got:
        assert b"".join(pieces)[-len(want):] == want
    after = metrics(mnt)
    assert after["ptio_store_read_bytes_moved_total"] - before["ptio_store_read_bytes_moved_total"] <= len(want) * 5 // 4
    assert after["ptio_fs_shared_bytes_total"] - before["ptio_fs_shared_bytes_total"] >= len(want) * 3 // 4


def test_a_warm_view_is_passed_through_and_read_without_the_driver(mounts):
    mnt = mounts()
    a = array(7)
    path = save(mnt, "w", a)
    if not passes(mnt):     # libfuse before 3.17: the kernel's cache does it
        warm_or_read(path)
        assert (np.load(path) == a).all() and metrics(mnt)["ptio_fs_passed_opens_total"] == 0
        return
    warm(path)
    before = metrics(mnt)
    for _ in range(3):
        assert (np.load(path) == a).all()
    m = mmap_of(path)
    after = metrics(mnt)
    assert bytes(m[128:]) == a.tobytes()
    assert after["ptio_fs_passed_opens_total"] - before["ptio_fs_passed_opens_total"] == 4
    assert after["ptio_fs_read_bytes_total"] - before["ptio_fs_read_bytes_total"] < 1 << 16  # the metrics file itself
    assert after["ptio_cache_fills_total"] == 1 and after["ptio_cache_filled_bytes_total"] == a.nbytes + 128


def mmap_of(path):
    with open(path, "rb") as f:
        return mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)


def test_the_cache_stays_within_its_size_and_mapped_views_survive_eviction(mounts):
    mnt = mounts(options="serve=cache,cache_size=20M")
    arrays = [array(10 + i) for i in range(5)]
    paths = [save(mnt, f"w{i}", a) for i, a in enumerate(arrays)]
    warm_or_read(paths[0])
    first = mmap_of(paths[0])
    for _ in range(2):
        for path, a in zip(paths, arrays):
            assert (np.load(path) == a).all()
            assert (np.load(path) == a).all()
            assert metrics(mnt)["ptio_cache_used_bytes"] <= 20 << 20
    assert bytes(first[128:]) == arrays[0].tobytes()
    m = metrics(mnt)
    assert m["ptio_cache_evictions_total"] >= 1
    first.close()
    assert mnt.errors() == ""


def test_an_evicted_view_whose_name_the_kernel_knows_comes_back_into_memory(mounts):
    mnt = mounts(options="serve=cache,cache_size=20M,entry_timeout=3600")
    arrays = [array(30 + i) for i in range(5)]
    paths = [save(mnt, f"w{i}", a) for i, a in enumerate(arrays)]
    for _ in range(2):
        for path, a in zip(paths, arrays):
            for _ in range(3):
                assert (np.load(path) == a).all()
            warm(path)
    assert metrics(mnt)["ptio_cache_fills_total"] >= 8


def test_a_revision_that_was_replaced_leaves_its_memory_to_the_next(mounts):
    mnt = mounts(options="cache_size=44M")
    if not passes(mnt):
        return
    mapped = None
    for step in range(6):
        a = array(40 + step)
        path = save(mnt, "w", a)
        warm(path)
        assert (np.load(path) == a).all()
        if step == 1:
            mapped = mmap_of(path)
    assert bytes(mapped[128:]) == array(41).tobytes()
    # closes are told afterwards; the map holds its file open
    eventually(lambda: metrics(mnt)["ptio_cache_superseded_total"] == 4 and metrics(mnt)["ptio_cache_files"] == 2)
    mapped.close()
    eventually(lambda: metrics(mnt)["ptio_cache_superseded_total"] == 5 and metrics(mnt)["ptio_cache_files"] == 1)
    m = metrics(mnt)
    assert m["ptio_cache_fills_total"] == 6 and m["ptio_cache_evictions_total"] == 0 and m["ptio_cache_refused_total"] == 0


def test_the_first_open_of_each_revision_is_passed_through_though_the_kernel_has_the_name(mounts):
    mnt = mounts(options="entry_timeout=3600,open_wait=20000")
    if not passes(mnt):
        return

    def publish(a):         # by other names: the kernel keeps that of the whole
        for r, part in enumerate(np.split(a, 2)):
            (mnt / f"w/tp={r}of2,dim=0").mkdir(parents=True, exist_ok=True)
            np.save(mnt / f"w/tp={r}of2,dim=0/shard.npy", part)

    path = mnt / "w/full.npy"
    for step in range(6):
        a = array(50 + step)
        publish(a)
        before = metrics(mnt)
        assert (np.load(path) == a).all()
        after = metrics(mnt)
        assert after["ptio_fs_passed_opens_total"] - before["ptio_fs_passed_opens_total"] == 1, step
        assert os.path.getsize(path) == a.nbytes + 128
    assert after["ptio_cache_fills_total"] == 6 and after["ptio_fs_direct_opens_total"] == 0
    # who only looks at it fills nothing
    publish(array(56))
    assert os.stat(path).st_size == a.nbytes + 128 and os.access(path, os.R_OK)
    assert metrics(mnt)["ptio_cache_fills_total"] == 6
    assert mnt.errors() == ""


def test_what_is_published_at_every_step_finds_memory_that_is_ready(mounts):
    mnt = mounts(options="cache_size=64M")
    if not passes(mnt):
        return
    for step in range(200):
        a = array(60 + step % 3)
        path = save(mnt, "w", a)
        assert (np.load(path) == a).all() and (np.load(path) == a).all()
        m = metrics(mnt)
        assert m["ptio_cache_used_bytes"] + m["ptio_cache_reserve_bytes"] <= 64 << 20
        if m["ptio_cache_reserve_filled_bytes_total"] >= 3 * a.nbytes:
            break
        time.sleep(0.01)        # as a step has other things to do
    assert m["ptio_cache_reserve_filled_bytes_total"] >= 3 * a.nbytes
    assert mnt.errors() == ""


def test_memory_for_first_opens_is_ready_some_time_after_the_mount(mounts):
    mnt = mounts(options="cache_size=512M,reserve=64M")
    if not passes(mnt):
        return
    other = mounts(name="other", options="cache_size=512M,reserve=0")
    for step, (mib, had) in enumerate(((20, (20 << 20) + 128), (32, 32 << 20), (40, 32 << 20), (4, 0))):
        a = array(80 + step, mib)
        save(other, f"w{step}", a)
        eventually(lambda: metrics(mnt)["ptio_cache_reserve_ready_bytes"] == 48 << 20)  # a half, and a quarter, of it
        before = metrics(mnt)
        assert before["ptio_cache_reserve_bytes"] == 48 << 20
        assert (np.load(mnt / f"w{step}/full.npy") == a).all()
        after = metrics(mnt)
        assert after["ptio_cache_reserve_filled_bytes_total"] - before["ptio_cache_reserve_filled_bytes_total"] == had, mib
    assert metrics(other)["ptio_cache_reserve_bytes"] == 0
    assert mnt.errors() == ""


def test_damage_is_reported_whichever_way(way, scratch):
    a = array(20)
    path = save(way, "w", a)
    stored, = objects_of(scratch / "store")
    flip_on_disk(stored, -5)
    for _ in range(3):
        with pytest.raises(OSError):
            with open(path, "rb", buffering=0) as f:
                while f.read(1 << 20):
                    pass
    assert "does not match its checksum" in way.errors()


@pytest.mark.parametrize("size", (300, 1 << 20))
def test_a_damaged_file_that_is_moved_away_for_a_good_one_is_not_read_any_more(way, scratch, size):
    a = array(21)[:size]
    path = save(way, "w", a)
    stored, = objects_of(scratch / "store")
    good = stored.read_bytes()
    flip_on_disk(stored, -5)
    with pytest.raises(OSError):
        path.read_bytes()
    stored.rename(scratch / "damaged")          # it keeps a name, and may be open in ptiofs yet
    stored.write_bytes(good)
    assert (np.load(path) == a).all()


def test_ptio_warm_reads_files_and_directories(mounts):
    mnt = mounts(options="cache_min=1M")
    arrays = [array(30 + i, 4) for i in range(2)]
    paths = [save(mnt, f"dir/w{i}", a) for i, a in enumerate(arrays)]
    done = subprocess.run([str(PTIO), "warm", str(mnt / "dir"), str(paths[0])], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("3 files"), (done.stdout, done.stderr)
    if passes(mnt):
        filled, size = os.getxattr(paths[0], "user.ptio.cached").decode().split("/")
        assert filled == size
    for path, a in zip(paths, arrays):
        assert (np.load(path) == a).all()
    done = subprocess.run([str(PTIO), "warm", str(mnt / "nothing/full.npy")], capture_output=True, text=True)
    assert done.returncode == 1 and "nothing/full.npy" in done.stderr


def test_windows_end_with_the_chunks_of_each_shard(mounts):
    """A chunk that two windows cut would be read and hashed twice."""
    mnt = mounts(options="serve=stream")
    a = np.random.default_rng(9).integers(0, 1 << 30, (4 * 1031, 1777), dtype=np.int32)
    for r in range(4):
        d = mnt.key("w") / f"tp={r}of4,dim=0"
        d.mkdir()
        with open(d / "shard.npy", "wb") as f:
            np.lib.format.write_array(f, np.ascontiguousarray(np.split(a, 4)[r]))
    for name, want in (("w/full.npy", a), ("w/tp=1of3,dim=0/shard.npy", a[1374:2749])):
        before = metrics(mnt)
        with open(mnt / name, "rb", buffering=0) as f:
            got = b"".join(iter(lambda: f.read(1 << 20), b""))
        after = metrics(mnt)
        assert got.endswith(want.tobytes()[-4096:]) and (np.load(mnt / name) == want).all()
        moved = after["ptio_store_read_bytes_moved_total"] - before["ptio_store_read_bytes_moved_total"]
        if json.loads((mnt / ".ptio/status.json").read_text())["direct_io"]:
            assert moved <= want.nbytes + (3 << 20), moved / want.nbytes
    kept = mounts("kept", store=mnt.store)
    if passes(kept):
        before = metrics(kept)
        warm(kept / "w/full.npy")
        moved = metrics(kept)["ptio_store_read_bytes_moved_total"] - before["ptio_store_read_bytes_moved_total"]
        assert moved <= a.nbytes + (1 << 20), moved / a.nbytes


def test_windows_of_short_pieces_read_each_chunk_once(mounts):
    mnt = mounts(options="serve=stream,cache_min=4096")
    a = array(8, 32)        # rows of 8 KiB, of which a rank has 2
    save(mnt, "rows", a)
    path = mnt / "rows" / "tp=1of4,dim=1" / "shard.npy"
    before = metrics(mnt)
    got, buf = [], bytearray(1 << 20)
    with open(path, "rb", buffering=0) as f:
        while n := f.readinto(buf):
            got.append(bytes(buf[:n]))
    n = a.shape[1] // 4
    assert b"".join(got)[128:] == a[:, n:2 * n].tobytes()
    moved = metrics(mnt)["ptio_store_read_bytes_moved_total"] - before["ptio_store_read_bytes_moved_total"]
    if json.loads((mnt / ".ptio/status.json").read_text())["direct_io"]:     # else the kernel cuts requests where it likes
        assert moved <= a.nbytes + (1 << 20)    # the first request comes before there are windows


def test_windows_end_with_the_chunks_of_each_tensor(mounts):
    """The same of files of many tensors."""
    mnt = mounts(options="serve=stream")
    rng = np.random.default_rng(10)
    arrays = {f"layers.{i}.mlp.{n}_proj.weight": rng.integers(0, 255, (1234, 5003), dtype=np.uint8) for i in range(2) for n in ("up", "down")}
    mnt.key("m")
    (mnt / "m/model.safetensors").write_bytes(safetensors.numpy.save(arrays))
    for i in range(3):
        save(mnt, f"k/w{i}", rng.integers(0, 255, (1111, 5003), dtype=np.uint8))
    for name in ("m/tp=1of2/model.safetensors", "k/.all.safetensors"):
        before = metrics(mnt)
        with open(mnt / name, "rb", buffering=0) as f:
            got = b"".join(iter(lambda: f.read(1 << 20), b""))
        after = metrics(mnt)
        for key, a in safetensors.numpy.load(got).items():
            want = arrays[key] if name[0] == "m" else np.load(mnt / "k" / key / "full.npy")
            assert a.tobytes() in (want.tobytes(), want[617:].tobytes(), np.ascontiguousarray(want[:, 2501:]).tobytes())
        asked = after["ptio_store_read_bytes_asked_total"] - before["ptio_store_read_bytes_asked_total"]
        moved = after["ptio_store_read_bytes_moved_total"] - before["ptio_store_read_bytes_moved_total"]
        if json.loads((mnt / ".ptio/status.json").read_text())["direct_io"] and name[0] == "k":
            assert moved <= asked + (3 << 20), moved / asked
