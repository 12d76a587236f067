"""ptio fsck: what it says of stores that are sound, and of such as are not."""
import pathlib
import subprocess

import numpy as np
import pytest
import safetensors.torch
import torch

import clients
from clients import random_array
from conftest import PTIO
from harm import flip_on_disk, objects_of

CLEAN, LEFT, FAILED, USAGE = 0, 4, 8, 16


def fsck(store, *args):
    done = subprocess.run([str(PTIO), "fsck", *args, str(store)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def fill(mnt, scratch):
    """Something of every kind; what each file below the mount is to hold."""
    sd = {"model.a.weight": torch.arange(4000.0).reshape(100, 40), "model.b": torch.ones(3, 3, dtype=torch.int64)}
    for i in range(20):
        clients.write_torch(random_array("float32", (50, 6), i), mnt.key(f"many/k{i}") / "full", scratch)
    whole = torch.arange(240.0).reshape(20, 12)
    for dim in range(2):
        for r in range(3):
            torch.save(whole, mnt.key(f"slices/d{dim}") / f"tp={r}of3,dim={dim}" / "full")
    for r in range(4):
        torch.save(whole, mnt.key("writers") / f"writer={r}of4,dim=0" / "full")
    torch.save(whole[:, :4], mnt.key("waits") / "tp=0of3,dim=1" / "shard")
    torch.save(whole, mnt.key("scoped") / "dp=1of2" / "ep=0of4,expert=2" / "full")
    safetensors.torch.save_file(sd, mnt.key("files") / "model.safetensors")
    torch.save({"one": torch.arange(2048.0)}, mnt / "files" / "one.pt")
    (mnt / "files" / "notes.txt").write_text("text")
    for r in range(2):
        torch.save({"lm_head.weight": torch.full((2, 2), float(r))}, mnt.key("dict") / f"tp={r}of2" / "sd.pt")


@pytest.fixture
def store(mounts, scratch):
    mnt = mounts()
    fill(mnt, scratch)
    assert mnt.stop() == 0
    return scratch / "store"


def test_a_sound_store_is_clean_also_beside_a_mount(store, mounts):
    for args in ((), ("--verify",)):
        status, text = fsck(store, *args)
        assert status == CLEAN and "clean" in text, text
    mnt = mounts()
    with open(mnt / "files" / "notes.txt", "w") as f:      # somebody writes
        f.write("more")
        torch.save(torch.ones(100, 100), mnt.key("new") / "full")
        torch.save(torch.zeros(100, 100), mnt.key("many/k3") / "full")
        status, text = fsck(store)
        assert status == CLEAN and "clean" in text, text
    assert torch.load(mnt / "new" / "full").sum() == 10000


def test_an_object_that_is_missing_cut_or_changed_is_named_with_its_key(store):
    safetensor = [p for p in objects_of(store) if p.suffix == ".safetensors"]
    mine = {k: [p for p in safetensor if f'"ptio.key":"{k}"'.encode() in p.read_bytes()] for k in ("many/k1", "many/k2", "slices/d1", "writers", "many/k5")}
    mine["many/k1"][0].unlink()
    with open(mine["many/k2"][0], "r+b") as f:
        f.truncate(4096)
    assert len(mine["slices/d1"]) == 3
    head = mine["slices/d1"][1].read_bytes()
    mine["slices/d1"][1].write_bytes(head.replace(b'"ptio.extent":"[20,4]"', b'"ptio.extent":"[4,20]"').replace(b'"shape":[20,4]', b'"shape":[4,20]'))
    mine["writers"][2].write_bytes(mine["writers"][2].read_bytes().replace(b'"ptio.dtype":"float32"', b'"ptio.dtype":"floatXX"'))
    flip_on_disk(mine["many/k5"][0], -1)
    status, text = fsck(store)
    lines = text.splitlines()
    assert status == LEFT
    for key, what in (("many/k1", "missing"), ("many/k2", "has 4096 bytes instead of"), ("slices/d1", ""), ("writers", "dtype")):
        assert [l for l in lines if l.startswith(key + ": ") and what in l and "object " in l], (key, text)
    assert "many/k5" not in text and "4 problems" in text
    status, text = fsck(store, "--verify")
    assert status == LEFT and "many/k5" in text


def test_objects_of_tensor_files_are_looked_at_too(store):
    blob = next(p for p in objects_of(store) if p.suffix == ".blob" and b"model.a.weight" in p.read_bytes()[8:200])
    data = blob.read_bytes()
    blob.unlink()
    status, text = fsck(store)
    assert status == LEFT and "files/model.safetensors" in text, text
    blob.write_bytes(data[:-1])
    status, text = fsck(store)
    assert status == LEFT and "files/model.safetensors" in text, text
    blob.write_bytes(data)
    assert fsck(store)[0] == CLEAN


def test_what_nothing_names_is_counted_and_no_problem(store):
    orphan = store / "objects" / "00"
    orphan.mkdir(exist_ok=True)
    (orphan / ("00" * 16 + ".blob")).write_bytes(b"x" * 5000)
    dead = store / "staging" / ("1" * 32)
    dead.mkdir()
    (dead / ("22" * 16 + ".blob")).write_bytes(b"y" * 100)
    status, text = fsck(store)
    assert status == CLEAN and "1 that nothing names" in text and "1 unfinished uploads (100 B)" in text, text
    assert (orphan / ("00" * 16 + ".blob")).exists() and dead.exists()


@pytest.mark.parametrize("harm", ("truncated", "zeroed", "flipped", "removed"))
def test_a_damaged_index_is_a_finding_and_stays_as_it_is(store, harm):
    index = store / "index.db"
    data = bytearray(index.read_bytes())
    assert not (store / "index.db-wal").exists()
    if harm == "removed":
        index.unlink()
    elif harm == "truncated":
        index.write_bytes(data[: len(data) // 2])
    elif harm == "zeroed":
        index.write_bytes(bytes(4096) + data[4096:])
    else:
        rng = np.random.default_rng(7)
        for page in rng.choice(np.arange(2, len(data) // 4096), 3, replace=False):
            data[int(page) * 4096 + 2000] ^= 4
        index.write_bytes(data)
    before = {p: p.read_bytes() for p in [index] if p.exists()}
    status, text = fsck(store)
    assert status == LEFT and "index" in text, text
    assert {p: p.read_bytes() for p in [index] if p.exists()} == before


def test_what_is_no_store_or_not_asked_rightly(scratch):
    assert fsck(scratch / "none")[0] == FAILED
    assert fsck("ptio://127.0.0.1:1")[0] == USAGE
    assert fsck(scratch, "--nonsense")[0] == USAGE
    assert not pathlib.Path(scratch / "none").exists()
