"""Small views come to the kernel's cache with their first open: whoever reads them asks for nothing more, and gets the same bytes as by READ."""
import errno
import mmap
import os
import threading

import numpy as np
import pytest

from conftest import metrics
from harm import flip_on_disk, objects_of

COUNT = 20
REQUESTS = ("lookup", "open", "read")


def tensor(i, elems=1000):
    return np.arange(elems, dtype=np.float32) * (i + 1)


def put(mount, count=COUNT, elems=1000):
    """Keys, and how their views read."""
    for i in range(count):
        np.save(mount.key(f"many/t{i}") / "full.npy", tensor(i, elems))
    return [f"many/t{i}/full.npy" for i in range(count)]


def read(path, flags=0):
    fd = os.open(path, os.O_RDONLY | flags)
    try:
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)


def payload(data):
    return data[-4000:]


def numbers(mount):
    m = metrics(mount)
    return {op: m[f'ptio_fs_operations_total{{op="{op}"}}'] for op in REQUESTS} | {"given": m["ptio_fs_given_opens_total"], "calls": m.get("ptio_net_calls_total", 0)}


def cost(mount, work):
    """What the work takes, without what reading the numbers does."""
    before, again = numbers(mount), numbers(mount)
    work()
    after = numbers(mount)
    return {n: after[n] - again[n] - (again[n] - before[n]) for n in after}


@pytest.fixture
def new(mounts):
    """A mount that knows nothing yet of some keys, and the names of their views."""
    writer = mounts("writer")
    names = put(writer)
    return mounts("new"), names


def test_a_small_tensor_is_looked_up_and_opened_and_never_read(new):
    mnt, names = new
    os.stat(mnt / "many")

    def read_all():
        for i, name in enumerate(names):
            assert payload(read(mnt / name)) == tensor(i).tobytes()

    took = cost(mnt, read_all)
    assert took["read"] == 0 and took["open"] == took["given"] == COUNT and took["lookup"] <= 2 * COUNT + 2
    took = cost(mnt, read_all)
    assert took["read"] == took["given"] == 0 and took["open"] == COUNT


def test_maps_of_it_have_the_bytes(new):
    mnt, names = new

    def map_all():
        for i, name in enumerate(names):
            with open(mnt / name, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
                assert payload(m[:]) == tensor(i).tobytes()

    assert cost(mnt, map_all)["read"] == 0


def test_each_revision_comes_with_its_first_open(new):
    mnt, names = new
    for n in range(5):
        np.save(mnt / names[0], tensor(n + 100))
        took = cost(mnt, lambda: read(mnt / names[0]))
        assert took["read"] == 0 and took["given"] == 1
        assert payload(read(mnt / names[0])) == tensor(n + 100).tobytes()


@pytest.mark.parametrize("what", ["larger", "direct"])
def test_what_is_not_small_or_goes_around_the_cache_is_read(mounts, what):
    names = put(mounts("writer"), elems=1000 if what == "direct" else 100000)
    mnt = mounts("new")
    took = cost(mnt, lambda: [read(mnt / n, os.O_DIRECT if what == "direct" else 0) for n in names])
    assert took["read"] >= COUNT and took["given"] == 0
    # The first open has passed: what the kernel is given would come too late to be of use.
    assert cost(mnt, lambda: [read(mnt / n) for n in names])["given"] == 0


def test_a_damaged_one_is_opened_and_its_read_fails(scratch, mounts):
    writer = mounts("writer")
    (name,) = put(writer, 1)
    writer.stop()
    flip_on_disk(objects_of(scratch / "store")[-1], -1)
    mnt = mounts("new")
    fd = os.open(mnt / name, os.O_RDONLY)
    assert metrics(mnt)["ptio_fs_given_opens_total"] == 0
    assert "many/t0" not in mnt.errors()
    with pytest.raises(OSError) as e:
        os.read(fd, 1 << 20)
    assert e.value.errno == errno.EIO
    os.close(fd)
    assert "many/t0" in mnt.errors() and "checksum" in mnt.errors()


def test_many_who_open_the_same_ones_at_once_all_get_the_bytes(mounts):
    names = put(mounts("writer"), 60)
    mnt = mounts("new")
    start, wrong = threading.Barrier(12), []

    def work():
        start.wait()
        for i, name in enumerate(names):
            if payload(read(mnt / name)) != tensor(i).tobytes():
                wrong.append(name)

    threads = [threading.Thread(target=work) for _ in range(12)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong
    m = metrics(mnt)
    assert 0 < m["ptio_fs_given_opens_total"] <= 60 and m["ptio_fs_open_views"] <= 60


def test_of_a_store_that_is_away_it_takes_no_more_calls_than_a_read(mounts, daemon):
    options = f"secret_file={daemon.secret},timeout=20,entry_timeout=3600"
    names = put(mounts("writer", daemon.uri, options))
    mnt = mounts("new", daemon.uri, options)
    for name in names:
        os.stat(mnt / name)

    def read_all():
        for i, name in enumerate(names):
            assert payload(read(mnt / name)) == tensor(i).tobytes()

    took = cost(mnt, read_all)
    assert took["read"] == 0 and took["given"] == COUNT
    assert took["calls"] <= 3 * COUNT + 4           # pin, bytes, unpin; and what waits for news
