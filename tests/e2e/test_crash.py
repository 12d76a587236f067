"""The worst day: kill -9 of the driver at any moment, damaged stores, bounded memory."""
import errno
import os
import subprocess
import threading
import time

import numpy as np
import pytest
import torch

import clients
from clients import random_array
from conftest import PTIO
from harm import flip_on_disk, objects_of


def test_kill_9_at_any_moment_leaves_the_old_or_the_new_revision(mounts, scratch):
    mount = mounts()
    key = mount.key("w")
    torch.save(torch.full((64, 4096), 0.0), key / "full")
    step = 0.0
    for round_number in range(25):
        step += 1
        done = []

        def publish(value):
            try:
                for rank in range(2):
                    torch.save(torch.full((64, 4096), value), key / f"writer={rank}of2,dim=0,step={int(value)}" / "full")
                done.append(value)
            except (OSError, RuntimeError):
                pass

        thread = threading.Thread(target=publish, args=(step,))
        thread.start()
        time.sleep(0.003 * round_number % 0.05)
        mount.kill()
        thread.join()
        mount.start()
        values = torch.load(key / "full.pt")
        low, high = float(values.min()), float(values.max())
        assert low == high and low in (step - 1, step), (round_number, low, high)
        if done:
            assert low == step, "close() had returned 0"
        if low != step:         # the next round counts on it
            publish(step)
            assert done
    verify = subprocess.run([str(PTIO), "-s", str(mount.store), "verify"], capture_output=True, text=True)
    assert verify.returncode == 0, verify.stdout + verify.stderr
    mount.stop()
    subprocess.run([str(PTIO), "-s", str(mount.store), "gc", "--orphans-older-than", "0"], check=True, capture_output=True)
    files = [p for p in (scratch / "store" / "objects").rglob("*") if p.is_file()]
    assert len(files) == 2, files


def test_a_damaged_object_is_an_error_not_data(mounts, scratch):
    mount = mounts()
    x = random_array("uint8", (3 << 20,), 4)
    key = mount.key("w")
    clients.write_torch(x, key / "full", None)
    assert mount.stop() == 0
    path, = objects_of(scratch / "store")
    flip_on_disk(path, -(1 << 20) - 5)
    mount.start()
    with pytest.raises(OSError):
        (key / "full.bin").read_bytes()
    assert "/w/full.bin" in mount.errors()
    with open(key / "full.bin", "rb") as f:     # what the damage does not touch is served
        assert f.read(4096) == x.data[:4096]
    verify = subprocess.run([str(PTIO), "-s", str(mount.store), "verify"], capture_output=True, text=True)
    assert verify.returncode != 0 and "w" in verify.stdout + verify.stderr


@pytest.mark.slow
@pytest.mark.nosan
def test_memory_stays_bounded_with_a_sparse_file_of_20_gib(mounts, scratch):
    mount = mounts()
    total = 20 << 30
    source = scratch / "huge.npy"
    with open(source, "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "|u1", "fortran_order": False, "shape": (total,)})
        start = f.tell()
        f.seek(start + total - 4)
        f.write(b"last")
    key = mount.key("huge")
    subprocess.run(["cp", "--sparse=always", str(source), str(key / "full")], check=True)
    assert mount.memory_peak() < 256 << 20
    assert os.stat(key / "full.bin").st_size == total
    with open(key / "full.bin", "rb", buffering=0) as f:
        buffer = bytearray(4 << 20)
        read = 0
        while read < 2 << 30:                   # a long sequential part, then the rest by strides
            n = f.readinto(buffer)
            assert not any(buffer[:n:4096])
            read += n
        for at in range(2 << 30, total - (8 << 20), 512 << 20):
            f.seek(at)
            assert f.readinto(buffer) == len(buffer)
        f.seek(total - 4)
        assert f.read() == b"last"
    lo = total * 2 // 3
    with open(key / "tp=2of3,dim=0" / "shard.bin", "rb", buffering=0) as f:
        f.seek(total - lo - 4)
        assert f.read() == b"last"
    assert mount.memory_peak() < 256 << 20


def test_a_signal_unmounts_cleanly(mounts):
    import signal
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        mount = mounts(f"mnt{int(number)}", store=None)
        key = mount.key("w")
        torch.save(torch.ones(3), key / "full")
        mount.process.send_signal(number)
        assert mount.process.wait(timeout=30) == 0
        assert not os.path.ismount(mount.point)
        mount.process = None


def test_a_full_disk_is_enospc_and_the_old_revision_stays(mounts, scratch):
    small = scratch / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small)], check=True)
    try:
        mount = mounts(store=small / "store")
        key = mount.key("w")
        x = random_array("uint8", (4 << 20,), 1)
        clients.write_numpy(x, key / "full", None)
        big = random_array("uint8", (64 << 20,), 2)
        with pytest.raises(OSError) as caught:
            (key / "full").write_bytes(clients.file_bytes(big, "npy"))
        assert "space" in str(caught.value)
        assert clients.read_np_load(key / "full", x) == x
        clients.write_numpy(x, key / "full", None)
        assert mount.stop() == 0
    finally:
        subprocess.run(["umount", "-l", str(small)])


def test_a_root_that_cannot_be_read_is_an_error_where_the_store_is_local(mounts, monkeypatch):
    other = mounts()
    monkeypatch.setenv("PTIO_FAULTS", "meta.*:error=EIO:after=100")
    mount = mounts("second", options="entry_timeout=0")
    monkeypatch.delenv("PTIO_FAULTS")
    with pytest.raises(OSError) as failed:
        for i in range(200):
            other.key(f"k{i}")          # what the driver has kept of the index is of no use any more
            os.stat(mount.point)
    assert failed.value.errno == errno.EIO
