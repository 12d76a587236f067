"""Containers under their own name: readers of a large one are served as those of views are, and writers see an ordinary file. Sealing ordinary files."""
import json
import mmap
import os
import threading

import numpy as np
import pytest
import safetensors.numpy

from conftest import metrics
from test_cached import passes, warm

MIB = 1 << 20


def arrays(seed, mib=8):
    rng = np.random.default_rng(seed)
    return {f"t{i}": rng.integers(0, 255, (mib * MIB // 4 + 1000 * i + i,), dtype=np.uint8) for i in range(4)}


def file_bytes(seed, mib=8):
    return safetensors.numpy.save(arrays(seed, mib))


def direct(mnt):
    return json.loads((mnt / ".ptio/status.json").read_text())["direct_io"]


@pytest.fixture
def model(mnt):
    (mnt / "m").mkdir()
    path = mnt / "m/model.safetensors"
    path.write_bytes(file_bytes(1))
    return path


@pytest.fixture(params=["auto", "cache", "stream"])
def way(request, mounts):
    return mounts(options=f"serve={request.param},cache_min=4096")


def test_every_way_gives_the_same_bytes(way):
    want = file_bytes(2)
    (way / "m").mkdir()
    path = way / "m/model.safetensors"
    path.write_bytes(want)
    for _ in range(4):
        assert path.read_bytes() == want
        with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            assert m[:] == want
        for name, a in safetensors.numpy.load_file(path).items():
            assert (a == arrays(2)[name]).all()
    rng = np.random.default_rng(3)
    with open(path, "rb", buffering=0) as f:
        for off, n in zip(rng.integers(0, len(want), 40), rng.integers(1, 3 * MIB, 40)):
            assert os.pread(f.fileno(), int(n), int(off)) == want[off:off + n]
    assert way.errors() == ""


@pytest.mark.parametrize("options", ["serve=stream", "open_wait=0", ""])
def test_the_first_pass_moves_each_byte_once(model, mounts, mnt, options):
    mnt = mounts("again", store=mnt.store, options=options)
    model = mnt / "m/model.safetensors"
    want, before = file_bytes(1), metrics(mnt)
    with open(model, "rb", buffering=0) as f:
        got = b"".join(iter(lambda: f.read(MIB), b""))
    after = metrics(mnt)
    assert got == want
    if not direct(mnt):             # the kernel's cache
        return
    streamed = bool(options) or not passes(mnt)
    assert after["ptio_fs_direct_opens_total"] - before["ptio_fs_direct_opens_total"] == streamed
    # the first request comes before anything is read ahead, and may cut a chunk
    moved = after["ptio_store_read_bytes_moved_total"] - before["ptio_store_read_bytes_moved_total"]
    assert moved <= len(want) + 2 * MIB


def test_read_again_it_is_kept_and_passed_through(model, mnt):
    want = model.read_bytes()
    if not passes(mnt):
        assert model.read_bytes() == want
        return
    warm(model)
    before = metrics(mnt)
    for _ in range(3):
        assert model.read_bytes() == want
    with open(model, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        assert m[:] == want
    after = metrics(mnt)
    assert after["ptio_fs_passed_opens_total"] - before["ptio_fs_passed_opens_total"] == 4
    assert after["ptio_store_read_bytes_moved_total"] == before["ptio_store_read_bytes_moved_total"]


@pytest.mark.parametrize("keep", [False, True])
def test_a_reader_keeps_its_state_while_the_file_is_written_again(model, mnt, keep):
    old, new = file_bytes(1), file_bytes(4, 12)
    if keep and passes(mnt):
        model.read_bytes()
        warm(model)
    with open(model, "rb", buffering=0) as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        sealed = direct(mnt)
        with open(model, "wb") as w:
            w.write(new[:5 * MIB])
            w.flush()
            assert os.path.getsize(model) == 5 * MIB               # everybody sees the ordinary file while it is written
            w.write(new[5 * MIB:])
        assert model.read_bytes() == new and os.path.getsize(model) == len(new)
        if sealed:
            assert m[:] == old and os.fstat(f.fileno()).st_size == len(old)
            assert f.read() == old
    assert model.read_bytes() == new
    assert mnt.errors() == ""


def test_it_can_be_changed_in_place_cut_and_appended_to(model, mnt):
    want = bytearray(file_bytes(1))
    model.read_bytes()
    with open(model, "r+b") as f:
        f.seek(3 * MIB)
        f.write(b"x" * 100)
        want[3 * MIB:3 * MIB + 100] = b"x" * 100
    assert model.read_bytes() == want
    with open(model, "ab") as f:
        f.write(b"tail")
    assert model.read_bytes() == want + b"tail"
    os.truncate(model, len(want))
    assert model.read_bytes() == want
    with open(model, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
        m[:8], m[100:104] = m[:8], m[100:104]
        m.flush()
        assert m[:] == want
    assert model.read_bytes() == want
    os.truncate(model, 0)
    assert model.read_bytes() == b""
    assert mnt.errors() == ""


def test_attributes_are_those_of_the_file(model, mnt):
    ino = os.stat(model).st_ino
    with open(model, "rb") as f:
        os.chmod(model, 0o640)
        os.utime(model, (1000000, 1000000))
        os.setxattr(model, "user.note", b"kept")
        for st in (os.stat(model), os.fstat(f.fileno())):
            assert st.st_mode & 0o777 == 0o640 and st.st_mtime == 1000000 and st.st_ino == ino
            assert st.st_size == len(file_bytes(1))
        assert os.getxattr(f.fileno(), "user.note") == b"kept" and "user.note" in os.listxattr(model)
        os.fchmod(f.fileno(), 0o600)
    assert os.stat(model).st_mode & 0o777 == 0o600
    os.rename(model, mnt / "m/other.safetensors")
    assert os.stat(mnt / "m/other.safetensors").st_ino == ino
    assert os.getxattr(mnt / "m/other.safetensors", "user.note") == b"kept"


def test_it_outlives_its_name(model, mnt):
    want = file_bytes(1)
    with open(model, "rb", buffering=0) as f:
        assert f.read(MIB) == want[:MIB]
        os.unlink(model)
        assert not model.exists()
        (mnt / "m/again.safetensors").write_bytes(file_bytes(5))
        assert f.read() == want[MIB:]
    assert mnt.errors() == ""


def test_another_mount_sees_the_new_state_at_its_next_open(mounts):
    one = mounts()
    two = mounts("two", store=one.store)
    (one / "m").mkdir()
    for seed in (6, 7, 8):
        want = file_bytes(seed)
        (one / "m/model.safetensors").write_bytes(want)
        assert (two / "m/model.safetensors").read_bytes() == want
    with open(two / "m/model.safetensors", "rb", buffering=0) as f:
        begin = f.read(MIB)
        (one / "m/model.safetensors").write_bytes(file_bytes(9))
        if direct(two):
            assert begin + f.read() == file_bytes(8)
    assert (two / "m/model.safetensors").read_bytes() == file_bytes(9)


def test_readers_and_writers_at_once(model, mnt):
    """Whoever opens the file gets the bytes of one state, whole or still being written."""
    states = [file_bytes(s) for s in (10, 11)]
    model.write_bytes(states[0])
    tmp = mnt / "m/tmp.safetensors"
    failed, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            try:
                if model.read_bytes() not in states:
                    failed.append("a mix of two states")
            except OSError as e:
                failed.append(e)

    threads = [threading.Thread(target=read) for _ in range(2)]
    [t.start() for t in threads]
    for i in range(6):
        tmp.write_bytes(states[(i + 1) % 2])
        os.rename(tmp, model)
    stop.set()
    [t.join() for t in threads]
    assert not failed


def test_stat_does_not_wait_while_a_file_is_sealed(mounts, monkeypatch):
    monkeypatch.setenv("PTIO_FAULTS", "data.seal:delay_ms=4000")
    mnt = mounts()
    (mnt / "d").mkdir()
    path = mnt / "d/notes.txt"
    f = open(path, "wb", buffering=0)
    f.write(b"x" * 5000)
    closed = threading.Event()

    def close():
        f.close()
        closed.set()

    thread = threading.Thread(target=close)
    thread.start()
    count = 0
    while not closed.is_set():
        assert os.stat(path).st_size == 5000 and [e.stat().st_size for e in os.scandir(mnt / "d")] == [5000]
        count += 1
    thread.join()
    assert count >= 100                 # had one waited for the seal, it would have been the last
    assert path.read_bytes() == b"x" * 5000


def test_readers_share_an_ordinary_file_with_its_writer(mnt):
    (mnt / "d").mkdir()
    path = mnt / "d/log"
    done, failed = threading.Event(), []

    def read():
        while not done.is_set():
            with open(path, "rb", buffering=0) as r:
                got = r.read(4 * MIB)
                if got.strip(b"abc") or not os.fstat(r.fileno()).st_size:
                    failed.append(got[:10])

    with open(path, "w+b", buffering=0) as f:
        f.write(b"a" * 1000)
        threads = [threading.Thread(target=read) for _ in range(3)]
        [t.start() for t in threads]
        for i in range(60):
            f.write(b"abc"[i % 3:][:1] * 20000)
            os.fsync(f.fileno())
        done.set()
        [t.join() for t in threads]
    assert not failed
    assert len(path.read_bytes()) == 1000 + 60 * 20000


def test_a_file_that_somebody_writes_is_not_read_out_of_the_kernels_cache(mnt):
    """There a page at the file's end, read just before a write makes the file longer, has zeros where the write's bytes are."""
    SIZE = 100000               # more than the metrics themselves take to read
    path = mnt / "log"
    with open(path, "wb", buffering=0) as w:
        w.write(b"a" * SIZE)
        with open(path, "rb", buffering=0) as r, open(path, "r+b", buffering=0) as rw:
            for f in (r, rw):
                before = metrics(mnt)["ptio_fs_read_bytes_total"]
                for _ in range(3):
                    assert os.pread(f.fileno(), 2 * SIZE, 0) == b"a" * SIZE
                if direct(mnt):
                    assert metrics(mnt)["ptio_fs_read_bytes_total"] - before >= 3 * SIZE
            with mmap.mmap(r.fileno(), SIZE, prot=mmap.PROT_READ) as m:
                w.write(b"b" * 100)
                os.pwrite(rw.fileno(), b"c" * 10, 20)
                want = b"a" * 20 + b"c" * 10 + b"a" * (SIZE - 30) + b"b" * 100
                assert os.pread(r.fileno(), 2 * SIZE, 0) == os.pread(rw.fileno(), 2 * SIZE, 0) == want and m[:] == want[:SIZE]
    assert path.read_bytes() == want
    before = metrics(mnt)["ptio_fs_read_bytes_total"]
    assert path.read_bytes() == path.read_bytes() == want
    assert metrics(mnt)["ptio_fs_read_bytes_total"] - before < 3 * SIZE / 2      # nobody writes any more
