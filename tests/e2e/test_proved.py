"""What has been verified once on this machine since it was booted, by whichever process, is not hashed again while its file is unchanged; what was changed is."""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

from conftest import PTIO, metrics
from daemons import Daemon
from harm import forget_verified
from test_cached import array, save
from test_open_wait import read
from test_stored import flip, passes, stored_file, write

MIB = 1 << 20


def hashed(mnt):
    m = metrics(mnt)
    return m["ptio_store_chunks_verified_total"] + m["ptio_cache_checked_bytes_total"]


def ptio(store, *args, **kwargs):
    return subprocess.run([PTIO, "-s", store, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)


@pytest.fixture
def store(mounts):
    """A store with a model and a key, its mount, and their bytes."""
    made = mounts("made")
    data = write(made, 1)
    a = array(2)
    save(made, "w", a)
    return made, data, a


def same(mnt, data, a):
    return read(mnt / "m/model.safetensors") == data and (np.load(mnt / "w/full.npy") == a).all()


def objects(mnt):
    return [p for p in pathlib.Path(mnt.store).glob("objects/*/*") if p.stat().st_size > MIB]


def test_what_one_mount_wrote_another_reads_without_hashing(mounts, store):
    made, data, a = store
    told = metrics(made)
    assert told["ptio_store_proofs_told_total"] == 2 and told["ptio_store_proofs_failed_total"] == 0
    again = mounts("again", store=made.store)
    assert same(again, data, a)
    assert hashed(again) == 0 and metrics(again)["ptio_store_objects_proved_total"] >= 2
    if passes(again):
        assert metrics(again)["ptio_fs_stored_opens_total"] == 1
    assert same(made, data, a) and hashed(made) == 0
    assert made.errors() == again.errors() == ""


@pytest.mark.parametrize("change", [False, True])
def test_what_came_to_a_daemon_a_mount_of_its_folder_does_not_hash_again(mounts, scratch, change):
    folder = scratch / "exported"
    daemon = Daemon(scratch, folder).start()
    try:
        far = mounts("far", daemon.uri, f"secret_file={daemon.secret}")
        data, a = write(far, 1), array(2)
        save(far, "w", a)
        assert same(far, data, a) and hashed(far) > 0           # who reads over the network hashes
        near = mounts("near", store=folder)
        if change:
            flip([p for p in objects(near) if p.suffix == ".blob"][0], MIB)
            with pytest.raises(OSError):
                read(near / "m/model.safetensors")
            assert "checksum" in near.errors()
        else:
            assert same(near, data, a) and hashed(near) == 0
            assert near.errors() == far.errors() == ""
    finally:
        daemon.stop()


@pytest.mark.parametrize("who", ["mount", "verify", "get", "whole"])
def test_whoever_has_verified_all_of_it_has_done_it_for_all(mounts, store, who, scratch):
    made, data, a = store
    forget_verified(made)
    if who in ("mount", "whole"):
        first = mounts("first", store=made.store, options="verify=whole" if who == "whole" else "")
        assert same(first, data, a)
        if who == "whole" and not passes(first):
            return                      # the kernel asks for less than a chunk at a time, and what is not read whole is not verified
        assert hashed(first) > 0
    elif who == "verify":
        assert ptio(made.store, "verify", "-q").returncode == 0
    else:
        for name, out in (("m/model.safetensors", "model"), ("w/full.npy", "w")):
            assert ptio(made.store, "get", "-o", str(scratch / out), name).returncode == 0
        assert (scratch / "model").read_bytes() == data
    again = mounts("again", store=made.store)
    assert same(again, data, a) and hashed(again) == 0
    assert again.errors() == ""


def test_a_mount_that_verifies_whole_trusts_itself_only(mounts, store):
    made, data, a = store
    again = mounts("again", store=made.store, options="verify=whole")
    assert same(again, data, a)
    assert hashed(again) > 0 and metrics(again)["ptio_store_objects_proved_total"] == 0


@pytest.mark.parametrize("times", ["new", "put back"])
def test_a_byte_damaged_between_two_mounts_is_found(mounts, store, times):
    made, data, a = store
    made.stop()
    for path in objects(made):
        st = path.stat()
        flip(path, 3 * MIB + 4097)
        if times == "put back":
            os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    again = mounts("again", store=made.store)
    for name in ("m/model.safetensors", "w/full.npy"):
        with pytest.raises(OSError) as e:
            read(again / name)
        assert e.value.errno == 5
    assert "does not match its checksum" in again.errors()
    assert metrics(again)["ptio_store_objects_proved_total"] == 0 and metrics(again)["ptio_fs_stored_opens_total"] == 0
    assert ptio(made.store, "verify").returncode == 1
    # put right, it is hashed once, and counts
    for path in objects(made):
        flip(path, 3 * MIB + 4097)
    for name, most in (("third", None), ("fourth", 0)):
        mnt = mounts(name, store=made.store)
        assert same(mnt, data, a)
        assert hashed(mnt) == most if most is not None else hashed(mnt) > 0


def test_verify_hashes_everything_however_much_is_known(store):
    made, data, a = store
    assert ptio(made.store, "verify").returncode == 0
    for path in objects(made):
        flip(path, MIB)
    after = ptio(made.store, "verify")
    assert after.returncode == 1 and after.stderr.count(b"does not match its checksum") >= 2


@pytest.mark.parametrize("way", ["cp", "tree"])
def test_of_a_copied_store_nothing_counts(mounts, store, scratch, way):
    made, data, a = store
    assert made.stop() == 0
    copy = scratch / "copy"
    if way == "cp":
        subprocess.run(["cp", "-a", made.store, copy], check=True)
    else:
        shutil.copytree(made.store, copy)
    mnt = mounts("again", store=copy)
    assert list(copy.glob("verified/*"))
    assert same(mnt, data, a) and hashed(mnt) > 0 and metrics(mnt)["ptio_store_objects_proved_total"] == 0
    flip([p for p in objects(mnt) if p.suffix == ".blob"][0], MIB)
    last = mounts("last", store=copy)
    with pytest.raises(OSError):
        read(last / "m/model.safetensors")


def test_a_store_of_before_is_verified_once_and_another_boot_counts_for_nothing(mounts, store):
    made, data, a = store
    for old in ("gone", "other boot"):
        if old == "gone":
            forget_verified(made)
        else:
            for path in list(pathlib.Path(made.store).glob("verified/*")):
                path.rename(path.with_name("00000000-0000-0000-0000-000000000000"))
        for name in ("first", "second"):
            mnt = mounts(f"{name} {old}", store=made.store)
            assert same(mnt, data, a)
            assert (hashed(mnt) > 0) == (name == "first")
            assert mnt.errors() == ""


def test_a_store_that_takes_no_notes_is_read_and_says_so(mounts, store):
    made, data, a = store
    forget_verified(made)
    (pathlib.Path(made.store) / "verified").write_text("in the way")
    for name in ("first", "second"):
        mnt = mounts(name, store=made.store)
        assert same(mnt, data, a) and hashed(mnt) > 0
        assert metrics(mnt)["ptio_store_proofs_failed_total"] >= 2 and mnt.errors() == ""
    assert ptio(made.store, "gc").returncode == 0
