"""A store of another user's that root mounts and mends: it stays all his, and what he has put in it leads root nowhere. And stores that have no objects."""
import os
import shutil
import subprocess

import pytest
import torch

from conftest import PTIO
from daemons import Daemon
from harm import objects_of
from test_fsck import CLEAN, FAILED, MENDED, fill, fsck

OWNER = 65534
ROOT = os.geteuid() == 0


@pytest.fixture
def store(scratch):
    path = scratch / "store"
    path.mkdir()
    if ROOT:
        os.chown(path, OWNER, OWNER)
    return path


def everything(path):
    return [path, *path.rglob("*")]


def assert_all_of_its_owner(store):
    want = (store.stat().st_uid, store.stat().st_gid)
    assert ROOT is False or want == (OWNER, OWNER)
    for path in everything(store):
        try:
            st = path.lstat()
        except FileNotFoundError:       # collected meanwhile
            continue
        assert (st.st_uid, st.st_gid) == want, path


def contents(path):
    return {p.relative_to(path): None if p.is_dir() else p.read_bytes() for p in path.rglob("*")}


def test_mount_writes_removals_collection_and_checks_leave_all_to_the_owner(store, mounts, scratch):
    mnt = mounts(options="snapshots=1")
    fill(mnt, scratch)
    torch.save(torch.ones(300, 300), mnt.key("large") / "full")
    os.unlink(mnt / "many" / "k1" / "full")
    torch.save(torch.zeros(50, 6), mnt / "many" / "k2" / "full")
    assert (torch.load(mnt / "writers" / "full") == torch.arange(240.0).reshape(20, 12)).all()
    assert_all_of_its_owner(store)
    assert mnt.stop() == 0
    assert (store / "snapshots").is_dir() and (store / "verified").is_dir()
    assert subprocess.run([PTIO, "-s", store, "gc"]).returncode == 0
    assert fsck(store, "--verify")[0] == CLEAN
    assert_all_of_its_owner(store)
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status & MENDED, text
    assert_all_of_its_owner(store)


def test_what_a_daemon_writes_is_the_owners(store, mounts, scratch):
    daemon = Daemon(scratch, store).start()
    try:
        mnt = mounts(store=daemon.uri, options=f"secret_file={daemon.secret}")
        torch.save(torch.ones(300, 300), mnt.key("w") / "full")
        assert mnt.stop() == 0
    finally:
        assert daemon.stop() == 0
    assert_all_of_its_owner(store)


def test_fsck_names_the_link_in_place_of_a_folder_of_objects(store, mounts, scratch):
    mnt = mounts()
    torch.save(torch.ones(300, 300), mnt.key("w") / "full")
    assert mnt.stop() == 0
    bucket = objects_of(store)[0].parent
    moved = scratch / "moved"
    shutil.move(bucket, moved)
    bucket.symlink_to(moved)
    before = contents(moved)
    status, text = fsck(store)
    assert status == FAILED and f"{bucket} is a symbolic link" in text and "missing" not in text, text
    done = subprocess.run([PTIO, "-s", store, "gc"], capture_output=True, text=True)
    assert done.returncode != 0 and f"{bucket} is a symbolic link" in done.stderr, done.stderr
    assert contents(moved) == before
    bucket.unlink()
    shutil.move(moved, bucket)
    assert fsck(store)[0] == CLEAN


@pytest.mark.parametrize("name", ["objects", "snapshots"])
def test_a_rebuild_follows_no_link(store, mounts, scratch, name):
    mnt = mounts(options="snapshots=1")
    torch.save(torch.ones(300, 300), mnt.key("w") / "full")
    assert mnt.stop() == 0
    moved = scratch / "moved"
    shutil.move(store / name, moved)
    (store / name).symlink_to(moved)
    (store / "index.db").unlink()
    before = contents(moved)
    status, text = fsck(store, "--rebuild")
    assert status == FAILED and f"{store / name} is a symbolic link" in text, text
    assert contents(moved) == before
    (store / name).unlink()
    shutil.move(moved, store / name)
    status, text = fsck(store, "--rebuild")
    assert status == MENDED, text
    assert (torch.load(mounts("again") / "w" / "full") == 1).all()


def test_what_is_put_aside_goes_by_no_link(store, mounts, scratch):
    mnt = mounts(options="snapshots=0")
    torch.save(torch.ones(300, 300), mnt.key("w") / "full")
    assert mnt.stop() == 0
    bad, = objects_of(store)
    data = bad.read_bytes()
    bad.chmod(0o600)
    bad.write_bytes(b"\xff" * 8 + data[8:])     # makes no sense as an object
    elsewhere = scratch / "elsewhere"
    elsewhere.mkdir()
    (store / "lost+found").symlink_to(elsewhere)
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status & MENDED and f"{store / 'lost+found'} is a symbolic link" in text, text
    assert bad.exists() and not os.listdir(elsewhere)


def test_a_store_whose_path_is_a_link_is_as_any_other(store, mounts, scratch):
    link = scratch / "link"
    link.symlink_to(store)
    mnt = mounts(store=link)
    torch.save(torch.ones(300, 300), mnt.key("w") / "full")
    assert mnt.stop() == 0
    assert fsck(link)[0] == CLEAN
    (store / "index.db").unlink()
    assert fsck(link, "--rebuild")[0] & MENDED
    assert (torch.load(mounts("again", store=link) / "w" / "full") == 1).all()


@pytest.mark.parametrize("snapshots", [0, 1])
@pytest.mark.parametrize("was", ["never", "removed"])
def test_a_store_without_objects_is_rebuilt(store, mounts, was, snapshots):
    mnt = mounts(options=f"snapshots={snapshots}")
    if was == "removed":
        torch.save(torch.ones(300, 300), mnt.key("w") / "full")
        os.unlink(mnt / "w" / "full")
    assert mnt.stop() == 0
    assert subprocess.run([PTIO, "-s", store, "gc"]).returncode == 0
    assert not objects_of(store)
    (store / "index.db").unlink()
    status, text = fsck(store, "--rebuild")
    assert status == MENDED and "0 tensors, 0 files, 0 parts" in text, text
    status, text = fsck(store)
    assert status == CLEAN, text
    mnt = mounts("again")
    assert not (mnt / "w" / "full").exists()
    torch.save(torch.ones(30, 30), mnt.key("w") / "full")
    assert (torch.load(mnt / "w" / "full") == 1).all()
