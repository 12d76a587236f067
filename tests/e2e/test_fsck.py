"""ptio fsck: what it says of stores that are sound, and of such as are not; and what it makes of these."""
import json
import os
import pathlib
import signal
import subprocess
import time

import numpy as np
import pytest
import safetensors.torch
import torch

import clients
from clients import random_array
from conftest import PTIO
from daemons import PTIOD, Daemon
from harm import flip_on_disk, objects_of

CLEAN, MENDED, LEFT, FAILED, USAGE = 0, 1, 4, 8, 16


def fsck(store, *args, faults=""):
    done = subprocess.run([str(PTIO), "fsck", *args, str(store)], capture_output=True, text=True, env={**os.environ, "PTIO_FAULTS": faults})
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
    blob = next(p for p in objects_of(store) if p.suffix == ".blob" and p.stat().st_size > 10000 and b"model.a.weight" in p.read_bytes()[8:200])
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


def is_clean(store):
    status, text = fsck(store, "--verify")
    assert status == CLEAN, text


def contents(mnt):
    """Bytes of every file and view that a mount lists, by path."""
    got = {}
    for at, _, names in os.walk(mnt.point):
        for name in names:
            path = pathlib.Path(at) / name
            if ".ptio" not in str(path.relative_to(mnt.point)):
                got[str(path.relative_to(mnt.point))] = path.read_bytes()
    return got


def snapshots(store):
    return sorted((store / "snapshots").glob("index-*.db"))


def wait_for_snapshots(store, count):
    deadline = time.monotonic() + 60
    while len(snapshots(store)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def damage(store, how):
    index = store / "index.db"
    data = bytearray(index.read_bytes())
    if how == "removed":
        index.unlink()
    elif how == "truncated":
        index.write_bytes(data[: len(data) // 3])
    elif how == "zeroed":
        index.write_bytes(bytes(4096) + data[4096:])
    elif how == "flipped":
        for page in np.random.default_rng(3).choice(np.arange(1, len(data) // 4096), 5, replace=False):
            data[int(page) * 4096 + 1000] ^= 16
        index.write_bytes(data)
    elif how == "empty":
        index.write_bytes(b"")


HOW = ("removed", "truncated", "zeroed", "flipped", "empty")


@pytest.mark.parametrize("how", HOW)
def test_with_a_snapshot_everything_is_back_under_its_name(store, mounts, how):
    mnt = mounts()
    before = contents(mnt)
    assert len(before) > 30 and mnt.stop() == 0 and len(snapshots(store)) == 1
    objects = {p: p.read_bytes() for p in objects_of(store)}
    damage(store, how)
    refused = subprocess.run([str(PTIO), "-s", str(store), "ls"], capture_output=True, text=True)
    assert refused.returncode == 1 and "ptio fsck --rebuild" in refused.stderr
    status, text = fsck(store, "--rebuild", "--dry-run")
    assert status == CLEAN and "nothing was changed" in text and not list(store.glob("index.damaged*")), text
    status, text = fsck(store, "--rebuild")
    assert status == MENDED, text
    assert len(list(store.glob("index.damaged-*"))) == (how != "removed")
    assert {p: p.read_bytes() for p in objects_of(store)} == objects
    is_clean(store)
    mnt = mounts()
    assert contents(mnt) == before
    torch.save(torch.ones(5), mnt.key("after") / "full")
    assert torch.load(mnt / "after" / "full").sum() == 5


def test_without_a_snapshot_everything_is_found_again(mounts, scratch):
    mnt = mounts(options="snapshots=0")
    fill(mnt, scratch)
    before = contents(mnt)
    store = scratch / "store"
    assert mnt.stop() == 0 and not (store / "snapshots").exists()
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED and "no sound snapshot" in text, text
    is_clean(store)
    mnt = mounts()
    lost = mnt / "lost+found"
    assert os.listdir(mnt.point) == ["lost+found"]
    got = contents(mnt)
    # Tensors have their keys and cuts; files the bytes, under names of their own.
    for name in (n for n in before if n.split("/")[0] in ("many", "slices", "writers", "scoped", "dict") and not n.endswith("sd.pt")):
        assert got["lost+found/" + name] == before[name], name
    files = {v for n, v in got.items() if n.startswith("lost+found/files/")}
    described = {v for v in files if v[:8] == b"ptioCNT1"}          # what is in files of ranks beside their tensors
    assert len(described) == 2 and files - described == {before["files/model.safetensors"], before["files/one.pt"], before["files/notes.txt"]}
    assert [n for n in got if "waits/part-0-of-3-" in n]
    # And they get their names again.
    os.rename(lost / "many", mnt / "many")
    model = next(p for p in (lost / "files").iterdir() if p.read_bytes() == before["files/model.safetensors"])
    mnt.key("m")
    os.rename(model, mnt / "m" / "model.safetensors")
    assert torch.equal(torch.load(mnt / "m" / "model.a.weight" / "full"), torch.arange(4000.0).reshape(100, 40))
    assert {n: v for n, v in contents(mnt).items() if n.startswith("many/")} == {n: v for n, v in before.items() if n.startswith("many/")}


def test_what_came_went_and_changed_after_the_snapshot(mounts, scratch):
    """Deleted names stay deleted; what is new is below lost+found/, also what replaced something."""
    store = scratch / "store"
    mnt = mounts(options="snapshots=604800")
    fill(mnt, scratch)
    assert mnt.stop() == 0 and len(snapshots(store)) == 1
    mnt = mounts(options="snapshots=604800")
    before = contents(mnt)
    for name in ("many/k0", "slices/d0"):
        subprocess.run(["rm", "-r", str(mnt / name)], check=True)
    (mnt / "files" / "model.safetensors").unlink()
    new = torch.full((7, 3), 5.0)
    torch.save(new, mnt / "many" / "k1" / "full")
    for r in range(2):
        torch.save(new, mnt.key("made") / f"tp={r}of2,dim=1" / "full")
    safetensors.torch.save_file({"x": new, "y": new + 1}, mnt.key("late") / "late.safetensors")
    late = (mnt / "late" / "late.safetensors").read_bytes()
    (mnt / "late" / "words").write_text("words")
    assert mnt.stop() == 0
    assert subprocess.run([str(PTIO), "-s", str(store), "gc", "--orphans-older-than=0"]).returncode == 0
    damage(store, "zeroed")
    status, text = fsck(store, "--rebuild")
    assert status == MENDED and "many/k0: dropped" in text and "found lost+found/made" in text, text
    is_clean(store)
    mnt = mounts()
    got = contents(mnt)
    for gone in ("many/k0", "slices/d0", "files/model.safetensors", "late", "made"):
        assert not (mnt / gone).exists(), gone
    for name in ("many/k1", "made"):
        assert torch.equal(torch.load(mnt / "lost+found" / name / "full"), new)
    files = [v for n, v in got.items() if n.startswith("lost+found/files/")]
    assert late in files and b"words" in files
    for name in (n for n in before if n.startswith(("many/k7/", "slices/d1/", "writers/", "files/one", "dict/"))):
        assert got[name] == before[name], name


def collected(store):
    assert subprocess.run([str(PTIO), "-s", str(store), "gc", "--orphans-older-than=0"]).returncode == 0
    return {p.name for p in objects_of(store)}


def test_what_is_left_of_a_tensor_or_file_keeps_its_name(store, mounts):
    """A rebuild never lets the collector have what it could not make whole."""
    collected(store)
    objects = objects_of(store)
    shards = [p for p in objects if p.suffix == ".safetensors" and b'"ptio.key":"slices/d1"' in p.read_bytes()]
    cut = next(p for p in objects if p.suffix == ".safetensors" and b'"ptio.key":"many/k2"' in p.read_bytes())
    model = next(p for p in objects if p.suffix == ".blob" and p.stat().st_size > 10000 and b"model.a.weight" in p.read_bytes()[8:200])
    notes = next(p for p in objects if p.suffix == ".blob" and p.read_bytes() == b"text")
    described = [p for p in objects if p.suffix == ".blob" and p.read_bytes()[:8] == b"ptioCNT1" and b"model.a.weight" in p.read_bytes()]
    assert len(shards) == 3 and len(described) == 1
    shards[1].unlink()
    described[0].unlink()
    for path, to in ((cut, cut.stat().st_size - 8), (notes, 2)):
        os.truncate(path, to)
    kept = {p.name for p in objects} - {shards[1].name, described[0].name}
    damage(store, "zeroed")
    status, text = fsck(store, "--rebuild")
    assert status == MENDED | LEFT, text
    for key, what in (("slices/d1", "of its 3 objects 1 are gone"), ("many/k2", "1 cut short"), ("files/model.safetensors", "of its 2 objects 1 are gone"), ("files/notes.txt", "1 cut short")):
        assert [line for line in text.splitlines() if line.startswith(key + ": kept as it is") and what in line], (key, text)
    assert "dropped" not in text and collected(store) == kept and model.name in kept
    mnt = mounts(options="serve=stream")
    with open(mnt / "slices" / "d1" / "full", "rb") as f, pytest.raises(OSError):
        f.read()
    assert (mnt / "slices" / "d1" / "tp=0of3,dim=1" / "shard").stat().st_size


def test_what_describes_a_file_that_is_not_whole_is_kept(store, mounts):
    collected(store)
    objects = objects_of(store)
    model = next(p for p in objects if p.suffix == ".blob" and p.stat().st_size > 10000 and b"model.a.weight" in p.read_bytes()[8:200])
    described = [p.read_bytes() for p in objects if p.suffix == ".blob" and p.read_bytes()[:8] == b"ptioCNT1"]
    damaged = [d for d in described if b"model.a.weight" in d]
    of_ranks = [d for d in described if b"lm_head.weight" in d]
    flip_on_disk(model, -1)
    (store / "index.db").unlink()
    for old in snapshots(store):
        old.unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED | LEFT, text
    assert collected(store) == {p.name for p in objects}
    files = {v for n, v in contents(mounts()).items() if n.startswith("lost+found/files/")}
    assert len(damaged) == 1 and of_ranks and files >= {*damaged, *of_ranks, model.read_bytes()}


def test_an_older_snapshot_serves_when_the_newest_is_damaged_too(store, mounts):
    mnt = mounts(options="snapshots=1")
    torch.save(torch.ones(4), mnt.key("second") / "full")
    wait_for_snapshots(store, 2)
    assert mnt.stop() == 0
    newest = snapshots(store)[-1]
    flip_on_disk(newest, 4096 * 3 + 100)
    damage(store, "truncated")
    status, text = fsck(store, "--rebuild")
    assert status == MENDED and newest.name + ": " in text, text
    assert fsck(store)[0] == CLEAN
    mnt = mounts()
    assert torch.load(mnt / "many" / "k3" / "full").shape == (50, 6)
    assert list(mnt.point.rglob("second"))


def test_parts_that_could_be_of_two_writes_are_never_mixed(mounts, scratch):
    store = scratch / "store"
    mnt = mounts(options="snapshots=0,gc=off")
    for value in (1.0, 2.0):
        for r in range(2):
            torch.save(torch.full((4, 4), value), mnt.key("w") / f"tp={r}of2,dim=0" / "full")
    assert mnt.stop() == 0
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED and "4 parts of sets" in text, text
    mnt = mounts()
    parts = sorted(os.listdir(mnt / "lost+found" / "w"))
    assert len(parts) == 4 and all(p.startswith("part-") for p in parts)
    values = sorted(torch.load(mnt / "lost+found" / "w" / p / "full")[0, 0].item() for p in parts)
    assert values == [1, 1, 2, 2]


def test_an_index_without_its_log_is_behind_its_snapshot(mounts, scratch):
    store = scratch / "store"
    mnt = mounts(options="snapshots=1")
    for i in range(3):
        torch.save(torch.full((4, 4), float(i)), mnt.key(f"k{i}") / "full")
    wait_for_snapshots(store, 1)
    mnt.kill()
    log = store / "index.db-wal"
    assert log.stat().st_size > 0
    log.unlink()
    (store / "index.db-shm").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED, text
    mnt = mounts()
    found = [mnt / f"k{i}" if (mnt / f"k{i}").exists() else mnt / "lost+found" / f"k{i}" for i in range(3)]
    assert [torch.load(p / "full")[0, 0].item() for p in found] == [0, 1, 2]


def test_nobody_may_have_the_store_open_and_a_sound_one_is_left_alone(store, mounts):
    status, text = fsck(store, "--rebuild")
    assert status == CLEAN and "not rebuilt" in text, text
    assert not list(store.glob("index.damaged-*"))
    mnt = mounts()
    status, text = fsck(store, "--rebuild")
    assert status == FAILED and f"process {mnt.process.pid} (ptiofs)" in text, text
    (store / "index.db").rename(store.parent / "taken")
    status, text = fsck(store, "--rebuild")
    assert status == FAILED and f"process {mnt.process.pid} (ptiofs)" in text, text
    (store.parent / "taken").rename(store / "index.db")


def test_killed_at_any_point_it_is_run_again(mounts, scratch):
    store = scratch / "store"
    mnt = mounts(options="snapshots=0")
    fill(mnt, scratch)
    before = contents(mnt)
    assert mnt.stop() == 0
    damage(store, "truncated")
    objects = {p: p.read_bytes() for p in objects_of(store)}
    for after in (0, 1, 3, 10, 20, 40):
        for crash in ("crash", "crash-after"):
            assert fsck(store, "--rebuild", faults=f"meta.commit:{crash}:after={after}")[0] == -signal.SIGKILL
    # Between the steps of the exchange: the old index is aside, its log is not.
    (store / "index.db").rename(store / "index.damaged-20260101T000000Z")
    (store / "index.db-wal").write_bytes(b"old log")
    assert subprocess.run([str(PTIO), "-s", str(store), "ls"], capture_output=True).returncode == 1
    assert {p: p.read_bytes() for p in objects_of(store)} == objects
    status, text = fsck(store, "--rebuild")
    assert status == MENDED, text
    assert not list(store.glob("index.db-rebuild*")) and [p.read_bytes() for p in store.glob("index.damaged-*-wal")] == [b"old log"]
    is_clean(store)
    mnt = mounts()
    got = contents(mnt)
    assert all(got["lost+found/" + n] == before[n] for n in before if n.startswith(("many/", "slices/", "writers/")))


def test_objects_that_make_no_sense_are_named_and_kept(store, mounts):
    bad = store / "objects" / "ab" / ("ab" * 16 + ".safetensors")
    bad.parent.mkdir(exist_ok=True)
    bad.write_bytes(b"\x08" + bytes(7) + b"nonsense" + bytes(5000))
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED | LEFT and "ab" * 16 in text, text
    assert (store / "lost+found" / bad.name).stat().st_size == 5016
    is_clean(store)


def with_header(path, **fields):
    """The object says something else of itself."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header["__metadata__"].update({"ptio." + name: value for name, value in fields.items()})
    path.chmod(0o600)
    path.write_bytes(data[:8] + json.dumps(header).encode().ljust(size) + data[8 + size:])


def test_an_object_whose_numbers_are_beyond_all_bounds_stops_nothing(mounts, scratch):
    store = scratch / "store"
    mnt = mounts(options="snapshots=0")
    torch.save(torch.arange(12.0), mnt.key("good") / "full")
    before = set(objects_of(store))
    for shape in ("[4611686018427387904,4]", "[1152921504606846976,4]"):
        torch.save(torch.ones(3, 4), mnt.key("bad" + shape[1:3]) / "full")
        bad, = set(objects_of(store)) - before
        with_header(bad, global_shape=shape)
        before.add(bad)
    assert mnt.stop() == 0
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED | LEFT and text.count("it is kept as") == 2, text
    assert (torch.load(mounts() / "lost+found" / "good" / "full") == torch.arange(12.0)).all()


def test_the_new_index_is_theirs_whose_store_it_is(store):
    if os.geteuid() == 0:
        for path in (store, *store.rglob("*")):
            os.chown(path, 65534, 65534)
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED, text
    got, want = (store / "index.db").stat(), store.stat()
    assert (got.st_uid, got.st_gid) == (want.st_uid, want.st_gid)


def test_a_set_whose_key_is_too_long_below_lost_and_found_stays_a_set(mounts, scratch):
    store = scratch / "store"
    mnt = mounts(options="snapshots=0")
    whole = torch.arange(240.0).reshape(20, 12)
    key = "/".join(["k" * 203] * 5)
    for r in range(4):
        torch.save(whole, mnt.key(key) / f"tp={r}of4,dim=0" / "full")
    assert mnt.stop() == 0
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED and "1 tensors, 0 files, 0 parts" in text, text
    objects = mounts() / "lost+found" / "objects"
    name, = os.listdir(objects)
    assert (torch.load(objects / name / "full") == whole).all()


def test_a_tensor_written_again_and_again_is_found_as_it_was_last(mounts, scratch):
    store = scratch / "store"
    mnt = mounts(options="snapshots=0,gc=off")
    for i in range(4):
        for path in (mnt.key("whole") / "full", mnt.key("one") / "tp=0of1,dim=0" / "full"):
            torch.save(torch.full((30, 2), float(i)), path)
    assert mnt.stop() == 0
    for p in objects_of(store):             # the clock of files ticks more slowly than this writes
        value = np.frombuffer(p.read_bytes()[-4:], np.float32)[0]
        os.utime(p, (10**9 + int(value), 10**9 + int(value)))
    (store / "index.db").unlink()
    assert fsck(store, "--rebuild")[0] == MENDED
    is_clean(store)
    mnt = mounts()
    for key in ("whole", "one"):
        assert torch.load(mnt / "lost+found" / key / "full").unique().tolist() == [3]


def test_a_tensor_file_whose_bytes_are_damaged_is_no_tensor_file(store):
    blob = next(p for p in objects_of(store) if p.suffix == ".blob" and p.stat().st_size > 10000 and b"model.a.weight" in p.read_bytes()[8:200])
    flip_on_disk(blob, -1)
    (store / "index.db").unlink()
    for old in snapshots(store):
        old.unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED | LEFT and "damaged: they are not what its checksum says" in text, text
    is_clean(store)


def test_a_second_rebuild_does_not_mix_what_it_finds_with_what_the_first_found(mounts, scratch):
    store = scratch / "store"
    mnt = mounts(options="snapshots=0")
    torch.save(torch.ones(3), mnt.key("a") / "full")
    assert mnt.stop() == 0
    (store / "index.db").unlink()
    assert fsck(store, "--rebuild")[0] == MENDED
    mnt = mounts()                          # makes a snapshot
    torch.save(torch.zeros(9), mnt.key("b") / "full")
    assert mnt.stop() == 0
    mnt = mounts(options="snapshots=0")
    torch.save(torch.full((2,), 7.0), mnt.key("a") / "full")
    assert mnt.stop() == 0
    (store / "index.db").unlink()
    assert fsck(store, "--rebuild")[0] == MENDED
    mnt = mounts()
    assert torch.equal(torch.load(mnt / "lost+found" / "a" / "full"), torch.ones(3))
    again, = (p for p in (mnt / "lost+found").iterdir() if p.name.endswith("Z"))
    assert torch.equal(torch.load(again / "a" / "full"), torch.full((2,), 7.0))
    assert torch.equal(torch.load(mnt / "b" / "full"), torch.zeros(9))


def test_two_thousand_keys_are_found_again(mounts, scratch):
    store = scratch / "store"
    mnt = mounts(options="snapshots=0")
    tensors = {f"model.layers.{i}.mlp.up_proj.weight": torch.arange(float(i), float(i) + 6).reshape(2, 3) for i in range(2000)}
    safetensors.torch.save_file(tensors, mnt.key("m") / "tp=0of1" / "model.safetensors")
    assert mnt.stop() == 0
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED and "2000 tensors" in text, text[-2000:]
    is_clean(store)
    mnt = mounts()
    got = safetensors.torch.load_file(mnt / "lost+found" / "m" / ".all.safetensors")
    assert len(got) == 2000 and all(torch.equal(got[k], v) for k, v in tensors.items())


def test_a_daemon_makes_snapshots_and_says_what_to_do_about_a_damaged_index(mounts, scratch):
    store = scratch / "exported"
    daemon = Daemon(scratch, store, "--snapshots", "1").start()
    try:
        mnt = mounts(store=daemon.uri, options=f"secret_file={daemon.secret}")
        torch.save(torch.ones(9), mnt.key("k") / "full")
        wait_for_snapshots(store, 1)
        before = contents(mnt)
        assert mnt.stop() == 0
        status, text = fsck(store, "--rebuild")
        assert status == FAILED and "(ptiod)" in text, text
    finally:
        daemon.stop()
    damage(store, "zeroed")
    refused = subprocess.run([str(PTIOD), str(store), "--insecure", "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "ptio fsck --rebuild" in refused.stderr
    assert fsck(store, "--rebuild")[0] == MENDED
    assert contents(mounts("direct", store=store)) == before
