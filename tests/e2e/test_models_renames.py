"""A file with one tensor that is renamed onto a view: the tensor's payload stays where it is, and the key refers to it."""
import os
import pathlib
import shutil
import subprocess
import time

import numpy as np
import pytest
import safetensors.torch
import torch

from conftest import PTIO

MIB = 1 << 20
X = torch.arange(4 * MIB, dtype=torch.float32).reshape(1024, 4096)     # 16 MiB


def objects(mount):
    """Bytes of each object of the store with a payload worth speaking of."""
    sizes = []
    for path in (pathlib.Path(mount.store) / "objects").rglob("*"):
        try:
            sizes.append(path.stat().st_size if path.is_file() else 0)
        except FileNotFoundError:
            pass
    return sorted(n for n in sizes if n >= MIB)


def collected(mount, count):
    """The store holds this many large objects once garbage is collected; what a file on its way holds is let go a moment after its close."""
    deadline = time.monotonic() + 60
    while True:
        subprocess.run([PTIO, "-s", mount.store, "gc"], check=True, capture_output=True)
        if len(objects(mount)) == count:
            return
        assert time.monotonic() < deadline, objects(mount)
        time.sleep(0.1)


def save(fmt, tensor, path):
    if fmt == "npy":
        np.save(path, tensor.numpy())
    elif fmt == "safetensors":
        safetensors.torch.save_file({"w": tensor}, path)
    elif fmt == "dict":
        torch.save({"w": tensor}, path)
    else:
        torch.save(tensor, path)


def one_copy(mount):
    found = objects(mount)
    assert len(found) == 1 and found[0] < 17 * MIB, found


@pytest.mark.parametrize("fmt,suffix", (("npy", ".npy"), ("safetensors", ".safetensors"), ("pt", ".pt"), ("dict", ".pt"), ("npy", "")))
def test_no_second_payload(mnt, fmt, suffix):
    save(fmt, X, mnt / f"tmp{suffix or '.npy'}")
    one_copy(mnt)
    os.replace(mnt / f"tmp{suffix or '.npy'}", mnt.key("w") / f"full{suffix}")
    one_copy(mnt)
    assert sorted(os.listdir(mnt.point)) == ["w"] and os.listdir(mnt / "w") == ["full"]
    assert torch.equal(torch.load(mnt / "w" / "full.pt"), X)
    assert torch.equal(torch.from_numpy(np.load(mnt / "w" / "tp=1of2,dim=1" / "shard.npy")), X[:, 2048:])
    verify = subprocess.run([PTIO, "-s", mnt.store, "verify"], capture_output=True, text=True)
    assert verify.returncode == 0 and "0 damaged" in verify.stdout, verify.stdout + verify.stderr
    st = os.stat(mnt / "w" / "full")
    assert st.st_blocks * 512 >= 16 * MIB
    shutil.rmtree(mnt / "w")
    collected(mnt, 0)


def test_a_file_that_is_renamed_while_it_is_open(mnt):
    """As save_file of safetensors 0.8 does, straight onto a view."""
    safetensors.torch.save_file({"w": X}, mnt.key("w") / "full.safetensors")
    assert torch.equal(torch.load(mnt / "w" / "full.pt"), X)
    one_copy(mnt)
    with open(mnt / "w" / "tmp", "xb", buffering=0) as f:
        f.write(safetensors.torch.save({"w": X * 2}))
        os.rename(mnt / "w" / "tmp", mnt / "w" / "full")
        os.fchmod(f.fileno(), 0o640)
        os.utime(f.fileno(), (1, 1))
        assert torch.equal(torch.load(mnt / "w" / "full.pt"), X * 2)
    assert os.stat(mnt / "w" / "full").st_mode & 0o777 == 0o640
    collected(mnt, 1)


def test_scopes_and_shards_are_renamed_too(mnt):
    for rank in range(2):
        np.save(mnt / "tmp.npy", X.chunk(2)[rank].numpy())
        os.replace(mnt / "tmp.npy", mnt.key("w") / f"tp={rank}of2,dim=0" / "shard.npy")
        np.save(mnt / "tmp.npy", X.numpy() + rank)
        os.replace(mnt / "tmp.npy", mnt.key("v") / f"dp={rank}of2" / "full")
    assert torch.equal(torch.load(mnt / "w" / "full"), X)
    for rank in range(2):
        assert torch.equal(torch.load(mnt / "w" / f"tp={rank}of2" / "as_stored"), X.chunk(2)[rank])
        assert torch.equal(torch.load(mnt / "v" / f"dp={rank}of2" / "full"), X + rank)
    assert len(objects(mnt)) == 4


@pytest.mark.parametrize("view", ("writer=1of4,dim=0/full", "tp=1of4,dim=1/full", "dp=0of2/tp=1of4,dim=0/full"))
def test_where_only_a_slice_is_stored_the_file_stays_and_mv_copies(mnt, view):
    np.save(mnt / "tmp.npy", X.numpy())
    mnt.key("w")
    with pytest.raises(OSError) as failed:
        os.replace(mnt / "tmp.npy", mnt / "w" / view)
    assert failed.value.errno == 18 and (mnt / "tmp.npy").exists()
    subprocess.run(["mv", mnt / "tmp.npy", mnt / "w" / view], check=True)
    assert not (mnt / "tmp.npy").exists()
    collected(mnt, 1)
    assert objects(mnt)[0] < 5 * MIB


def test_what_is_no_whole_object_is_copied(mnt):
    odd = {"strided.pt": X.t(), "view.pt": X[1:3], "two.pt": None}
    torch.save(odd["strided.pt"], mnt / "strided.pt")
    torch.save(odd["view.pt"], mnt / "view.pt")
    torch.save({"a": X, "b": X + 1}, mnt / "two.pt")
    for name in ("strided", "view"):
        os.replace(mnt / f"{name}.pt", mnt.key(name[0]) / "full")
        assert torch.equal(torch.load(mnt / name[0] / "full"), odd[f"{name}.pt"])
    with pytest.raises(OSError) as failed:
        os.replace(mnt / "two.pt", mnt.key("t") / "full")
    assert failed.value.errno == 22 and set(torch.load(mnt / "two.pt")) == {"a", "b"}


def test_files_readers_and_older_revisions_keep_what_they_have(mnt):
    np.save(mnt / "a.npy", X.numpy())
    with open(mnt / "a.npy", "rb") as file:
        os.replace(mnt / "a.npy", mnt.key("w") / "full")
        with open(mnt / "w" / "full.npy", "rb") as first:
            np.save(mnt / "b.npy", X.numpy() + 1)
            os.replace(mnt / "b.npy", mnt / "w" / "full")
            assert np.array_equal(np.load(first), X.numpy()) and np.array_equal(np.load(file), X.numpy())
        assert np.array_equal(np.load(mnt / "w" / "full.npy"), X.numpy() + 1)
    collected(mnt, 1)


@pytest.mark.parametrize("action", ("crash", "crash-after", "error=EIO"))
@pytest.mark.parametrize("after", range(4))
def test_a_rename_that_is_cut_off_loses_nothing(mounts, monkeypatch, action, after):
    X = torch.arange(MIB // 2, dtype=torch.float32)
    mount = mounts()
    np.save(mount / "tmp.npy", X.numpy())
    np.save(mount.key("w") / "full.npy", X.numpy() * 2)
    assert mount.stop() == 0
    monkeypatch.setenv("PTIO_FAULTS", f"meta.commit:{action}:after={after}:times=1")
    renamed = False
    try:
        mount.start()
        os.replace(mount / "tmp.npy", mount / "w" / "full.npy")
        renamed = True
    except (OSError, RuntimeError):
        pass
    monkeypatch.delenv("PTIO_FAULTS")
    try:
        mount.kill()
    except subprocess.CalledProcessError:
        pass        # it ended before it had mounted
    mount.start()
    now = np.load(mount / "w" / "full.npy")
    assert np.array_equal(now, X.numpy()) or (not renamed and np.array_equal(now, X.numpy() * 2))
    if (mount / "tmp.npy").exists():
        assert np.array_equal(np.load(mount / "tmp.npy"), X.numpy())
    else:
        assert np.array_equal(now, X.numpy())
    verify = subprocess.run([PTIO, "-s", mount.store, "verify"], capture_output=True, text=True)
    assert verify.returncode == 0, verify.stdout + verify.stderr
    shutil.rmtree(mount / "w")
    (mount / "tmp.npy").unlink(missing_ok=True)
    collected(mount, 0)
