"""A file whose record in the store is damaged or missing, or whose bytes are missing: it says so when it is read, can be removed and written again, and nothing else in its directory suffers."""
import errno
import os
import pathlib

import numpy as np
import pytest

from harm import flip_on_disk, objects_of
from test_stored import write


def names_of(store):
    return set(objects_of(store))


def added(store, before):
    return sorted(names_of(store) - before, key=lambda p: p.stat().st_size)


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


@pytest.fixture(params=("flipped", "cut", "gone"))
def broken(request, mounts):
    """A new mount of a directory with one file whose record is not what it was, and others that are sound."""
    mnt = mounts("made")
    write(mnt, 1, 1, "m/broken.safetensors")
    record = objects_of(mnt.store)[0]
    assert record.stat().st_size < 1000
    np.save(mnt / "m/one.npy", np.arange(3000))
    {"flipped": lambda p: flip_on_disk(p, 100), "cut": cut, "gone": pathlib.Path.unlink}[request.param](record)
    return mounts("new", store=mnt.store)


def fails(number, fn):
    with pytest.raises(OSError) as e:
        fn()
    assert e.value.errno == number


def test_who_reads_it_is_told_and_its_directory_goes_on(broken):
    m = broken / "m"
    assert (np.load(m / "one.npy") == np.arange(3000)).all() and (np.load(m / "one/full.npy") == np.arange(3000)).all()
    size = os.stat(m / "broken.safetensors").st_size
    assert size > 1 << 20 and [e.stat().st_size for e in os.scandir(m) if e.name.startswith("broken")] == [size]
    fails(errno.EIO, (m / "broken.safetensors").read_bytes)
    assert "restore this file" in broken.errors()
    # what is made of all files of the directory is not made without it
    fails(errno.EIO, (m / ".all.safetensors").read_bytes)
    fails(errno.EIO, (m / ".ptio.json").read_text)
    # others can be made
    fails(errno.ENOENT, (m / "nothing").stat)
    (m / "plain").write_bytes(b"x")
    os.mkdir(m / "key")
    np.save(m / "key/full.npy", np.arange(10))
    assert (np.load(m / "key/full.npy") == np.arange(10)).all()


def rewrite(mnt):
    write(mnt, 2, 1, "m/broken.safetensors")


def replace(mnt):
    write(mnt, 2, 1, "m/other.safetensors")
    os.rename(mnt / "m/other.safetensors", mnt / "m/broken.safetensors")


def remove(mnt):
    os.unlink(mnt / "m/broken.safetensors")
    write(mnt, 2, 1, "m/broken.safetensors")


def truncate(mnt):
    os.truncate(mnt / "m/broken.safetensors", 0)
    assert (mnt / "m/broken.safetensors").read_bytes() == b""
    write(mnt, 2, 1, "m/broken.safetensors")


@pytest.mark.parametrize("way", (rewrite, replace, remove, truncate))
def test_it_can_be_replaced(broken, way):
    way(broken)
    data = write(broken, 2, 1, "m/same.safetensors")
    assert (broken / "m/broken.safetensors").read_bytes() == data
    assert (broken / "m/.all.safetensors").exists()


@pytest.mark.parametrize("name", ("m/model.safetensors", "plain"))
def test_bytes_that_are_missing_are_damage(mounts, name):
    """And neither a file that is not there nor a stale handle."""
    mnt = mounts("made")
    if name == "plain":
        (mnt / name).write_bytes(b"x" * 50000)
    else:
        write(mnt, 1, 12, name)
    for p in objects_of(mnt.store):
        p.unlink()
    new = mounts("new", store=mnt.store)
    fails(errno.EIO, (new / name).read_bytes)
    assert "restore this file" in new.errors() and "missing from the store" in new.errors()
    (new / name).write_bytes(b"y" * 10)
    assert (new / name).read_bytes() == b"y" * 10
