"""A store whose filesystem is full: nothing that was there is lost, whoever looks at which result, and all works when there is room again."""
import errno
import os
import subprocess
import time

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

from conftest import metrics

KIB = 1024


class Small:
    """A store on a tmpfs of 24 MiB, which can be filled up."""

    def __init__(self, path):
        self.path, self.filler = path, path / "filler"
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(path)], check=True)

    @property
    def store(self):
        return self.path / "store"

    def free(self):
        s = os.statvfs(self.path)
        return s.f_bavail * s.f_frsize

    def fill(self, leave):
        fd = os.open(self.filler, os.O_WRONLY | os.O_CREAT)
        os.posix_fallocate(fd, 0, self.free() - leave)
        os.close(fd)

    def empty(self):
        self.filler.unlink()


@pytest.fixture
def small(scratch):
    disk = Small(scratch / "small")
    yield disk
    subprocess.run(["umount", "-l", str(disk.path)], check=True)


@pytest.mark.parametrize("size", [100 * KIB, 1024 * KIB, 3072 * KIB])
def test_a_saver_that_looks_at_no_result_of_close_replaces_no_model_by_nothing(small, mounts, size):
    """safetensors writes a temporary file, drops it, which closes it, and renames it."""
    mount = mounts(store=small.store)
    path = mount / "model.safetensors"
    old = {"a": torch.arange(size // 4, dtype=torch.int32)}
    safetensors.torch.save_file(old, str(path))
    small.fill(leave=size - 20 * KIB)
    with pytest.raises(safetensors.SafetensorError, match="No space left"):
        safetensors.torch.save_file({"a": torch.zeros(size // 4, dtype=torch.int32) + 7}, str(path))
    assert path.read_bytes() == safetensors.torch.save(old)
    assert os.listdir(mount.point) == ["model.safetensors"]
    small.empty()
    safetensors.torch.save_file({"a": old["a"] + 1}, str(path))
    assert torch.equal(safetensors.torch.load_file(str(path))["a"], old["a"] + 1)


def test_what_was_removed_makes_room_at_once(small, mounts):
    """rm and cp, one after the other: as on any filesystem."""
    mount = mounts(store=small.store)
    first = np.arange(10 << 18, dtype=np.int32)
    for n in range(4):
        for name in ("w", "v"):
            np.save(mount / f"{name}.npy", first + n)
        np.save(mount.key("k") / "full.npy", first[:1000])
        assert np.array_equal(np.load(mount / "w.npy"), first + n)
        (mount / "w.npy").unlink()
        (mount / "v.npy").unlink()
    (mount / "plain").write_bytes(bytes(10 << 20).replace(b"\0", b"x"))


@pytest.fixture(params=("here", "away"))
def memory(request, scratch):
    """A store of 24 MiB in memory, a mount's own and a daemon's: URI, options."""
    from daemons import Daemon
    if request.param == "here":
        yield "mem:24M", ""
        return
    d = Daemon(scratch, "mem:24M").start()
    yield d.uri, f"secret_file={d.secret}"
    d.stop()


def test_a_store_in_memory_gives_what_was_superseded_to_the_next(memory, mounts):
    """It is full when an object is begun, not when its bytes come."""
    mnt = mounts(store=memory[0], options=memory[1])
    mnt.key("w")
    for n in range(12):
        np.save(mnt / "w/full.npy", np.full(KIB * KIB, n, np.float32))
        assert np.load(mnt / "w/full.npy")[-1] == n


@pytest.mark.parametrize("number", ("ENOSPC", "EDQUOT"))
def test_a_write_that_found_no_room_is_never_anything_else(mounts, monkeypatch, number):
    """Also when it is tried again, by one who sees a short write, and there was something to collect."""
    monkeypatch.setenv("PTIO_FAULTS", f"data.seal:error={number}:after=4")
    mount = mounts()
    data = safetensors.torch.save({"a": torch.arange(1 << 20), "b": torch.arange(10)})
    for _ in range(2):                  # two objects each
        (mount / "model.safetensors").write_bytes(data)
    fd = os.open(mount / "other.safetensors", os.O_WRONLY | os.O_CREAT)
    at, seen = 0, []
    while at < len(data) and len(seen) < 3:
        try:
            at += os.write(fd, data[at:])
        except OSError as e:
            seen.append(errno.errorcode[e.errno])
    try:
        os.close(fd)
    except OSError as e:
        seen.append(errno.errorcode[e.errno])
    assert seen == [number] * 4
    assert (mount / "model.safetensors").read_bytes() == data


def test_a_change_that_finds_no_room_for_a_copy_says_so_each_time(small, mounts):
    """A tensor file that is changed while it is written is copied to a spool, which is in the store's filesystem."""
    mount = mounts(store=small.store)
    data = safetensors.torch.save({"a": torch.arange(1 << 20), "b": torch.arange(1 << 19)})
    fd = os.open(mount / "model.safetensors", os.O_WRONLY | os.O_CREAT)
    os.write(fd, data[:-1000])
    small.fill(leave=4 << 20)
    for _ in range(2):
        with pytest.raises(OSError) as e:
            os.pwrite(fd, b"x", 5000)
        assert e.value.errno == errno.ENOSPC
    with pytest.raises(OSError) as e:
        os.close(fd)
    assert e.value.errno == errno.ENOSPC


def test_without_room_for_a_snapshot_of_the_index_nothing_of_it_is_made(small, mounts):
    """What a full disk has left is for pins."""
    mount = mounts(store=small.store, options="snapshots=1")
    np.save(mount.key("w") / "full.npy", np.ones(10))
    deadline = time.monotonic() + 60
    while not metrics(mount)["ptio_index_snapshots_given_up_total"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert metrics(mount)["ptio_index_snapshots_total"] == 0
    assert not os.path.exists(os.path.join(small.store, "snapshots"))


def test_a_store_without_inodes_takes_what_is_removed_for_room(scratch, mounts):
    """The file of a new object, and the folder that it goes into; also right after a write that found no room."""
    disk = scratch / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=64", "tmpfs", str(disk)], check=True)
    try:
        mount = mounts(store=disk / "store")
        data = np.arange(1000, dtype=np.int32)
        count = 0
        with pytest.raises(OSError) as caught:
            while True:
                np.save(mount.key(f"k{count}") / "full.npy", data + count)
                count += 1
        assert caught.value.errno == errno.ENOSPC
        assert count > 4
        for i in range(4):
            (mount / f"k{i}" / "full").unlink()
        np.save(mount.key("new") / "full.npy", data - 1)
        assert np.array_equal(np.load(mount / "new" / "full.npy"), data - 1)
        for i in range(4, count):
            assert np.array_equal(np.load(mount / f"k{i}" / "full.npy"), data + i)
        mount.stop()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
