"""A file of tensors under its own name lies in the store as it reads: the kernel reads and maps the store's own file, from the first open on, once it has been verified."""
import json
import mmap
import os
import pathlib
import subprocess
import threading
import time

import numpy as np
import pytest
import safetensors.numpy

from conftest import PTIO
from harm import forget_verified
from test_cached import metrics, passes, warm
from test_open_wait import read, wait_for

MIB = 1 << 20


def model_bytes(seed, mib=12):
    rng = np.random.default_rng(seed)
    return safetensors.numpy.save({f"t{i}": rng.integers(0, 255, mib * MIB // 3 + i, dtype=np.uint8) for i in range(3)})


def write(mnt, seed, mib=12, name="m/model.safetensors"):
    data = model_bytes(seed, mib)
    (mnt / name).parent.mkdir(exist_ok=True)
    (mnt / name).write_bytes(data)
    return data


def stored_file(mnt, data):
    """The blob of the store that is this file."""
    found = [p for p in pathlib.Path(mnt.store).glob("objects/*/*.blob") if p.stat().st_size == len(data)]
    assert len(found) == 1
    return found[0]


def flip(path, off):
    with open(path, "r+b") as f:
        f.seek(off)
        byte = f.read(1)
        f.seek(off)
        f.write(bytes([byte[0] ^ 1]))


def collect(mnt):
    subprocess.run([PTIO, "-s", mnt.store, "gc", "--orphans-older-than=0"], check=True, stdout=subprocess.DEVNULL)


def descriptors(mnt):
    return [os.readlink(p) for p in pathlib.Path(f"/proc/{mnt.process.pid}/fd").iterdir() if p.is_symlink()]


@pytest.fixture
def again(mounts):
    """A mount that has read nothing yet, of a store with one model, which nobody has verified yet: (mount, its path, its bytes)."""
    made = mounts("made")
    data = write(made, 1)

    def make(name="again", **kwargs):
        forget_verified(made)
        mnt = mounts(name, store=made.store, **kwargs)
        return mnt, mnt / "m/model.safetensors", data
    return make


def test_the_first_open_is_passed_to_the_stored_file(again):
    mnt, path, data = again()
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        assert m[:] == data
    assert read(path) == data and os.path.getsize(path) == len(data)
    m = metrics(mnt)
    assert mnt.errors() == ""
    if not passes(mnt):
        assert m["ptio_fs_stored_opens_total"] == m["ptio_cache_checks_total"] == 0
        return
    assert m["ptio_fs_stored_opens_total"] == m["ptio_fs_passed_opens_total"] == 2
    assert m["ptio_cache_checks_total"] == 1 and m["ptio_cache_checked_bytes_total"] == len(data)       # each byte once
    assert m["ptio_fs_direct_opens_total"] == m["ptio_cache_checks_failed_total"] == 0
    assert m["ptio_cache_hits_total"] == m["ptio_cache_misses_total"] == 0        # nothing is in memory, nor was


def test_two_readers_at_once_have_it_verified_once(again):
    mnt, path, data = again()
    got, barrier = [], threading.Barrier(2)

    def one():
        barrier.wait()
        got.append(read(path) == data)

    threads = [threading.Thread(target=one) for _ in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert got == [True, True]
    if passes(mnt):
        m = metrics(mnt)
        assert m["ptio_cache_checked_bytes_total"] == len(data) and m["ptio_fs_stored_opens_total"] == 2


@pytest.mark.parametrize("options, checks", [("verify=off", 0), ("verify=whole", 1), ("cache_size=0", 1), ("serve=cache", 1), ("entry_timeout=0", 1)])
def test_options(again, options, checks):
    mnt, path, data = again(options=options)
    for _ in range(3):
        assert read(path) == data
    m = metrics(mnt)
    assert m["ptio_fs_stored_opens_total"] + m["ptio_cache_hits_total"] == (3 if passes(mnt) else 0)
    assert m["ptio_cache_checks_total"] == (checks if passes(mnt) else 0)
    if passes(mnt):
        assert m["ptio_fs_stored_opens_total"] >= 1
    assert mnt.errors() == ""


def test_streaming_mounts_pass_nothing(again):
    mnt, path, data = again(options="serve=stream")
    assert read(path) == data and metrics(mnt)["ptio_fs_passed_opens_total"] == 0


def test_a_damaged_byte_is_never_passed_through(again):
    mnt, path, data = again()
    flip(stored_file(mnt, data), 7 * MIB + 5)
    for _ in range(2):
        with pytest.raises(OSError) as e:
            read(path)
        assert e.value.errno == 5
    assert "does not match its checksum" in mnt.errors()
    m = metrics(mnt)
    assert m["ptio_fs_passed_opens_total"] == 0 and m["ptio_cache_checks_total"] == 0
    assert m["ptio_cache_checks_failed_total"] >= passes(mnt)
    # what is sound can be read all the same
    with open(path, "rb", buffering=0) as f:
        assert os.pread(f.fileno(), MIB, MIB) == data[MIB:2 * MIB]


@pytest.mark.parametrize("keep", [False, True])
def test_a_byte_that_is_damaged_after_it_was_verified_is_found_by_the_next_open(again, keep):
    mnt, path, data = again(options="cache_size=0")     # no copy that is still good
    assert read(path) == data
    held = open(path, "rb") if keep else None
    flip(stored_file(mnt, data), 3 * MIB)
    passed = metrics(mnt)["ptio_fs_passed_opens_total"]
    if passes(mnt):
        with pytest.raises(OSError) as e:
            read(path)
        assert e.value.errno == 5 or keep
        assert metrics(mnt)["ptio_fs_passed_opens_total"] == passed
    flip(stored_file(mnt, data), 3 * MIB)
    if held:
        held.close()
    assert read(path) == data
    if passes(mnt):
        assert metrics(mnt)["ptio_fs_passed_opens_total"] == passed + 1


def test_a_file_that_was_cut_short_is_an_error(again):
    mnt, path, data = again()
    blob = stored_file(mnt, data)
    os.truncate(blob, len(data) - 100)
    with pytest.raises(OSError) as e:
        read(path)
    assert e.value.errno == 5 and "cut short" in mnt.errors()
    assert metrics(mnt)["ptio_fs_passed_opens_total"] == 0


def test_another_file_in_its_place_is_verified(again):
    mnt, path, data = again(options="cache_size=0")
    assert read(path) == data
    blob = stored_file(mnt, data)
    copy = blob.with_suffix(".new")
    copy.write_bytes(data)
    os.rename(copy, blob)
    assert read(path) == data
    m = metrics(mnt)
    assert m["ptio_cache_checks_total"] <= 2 * passes(mnt)
    assert mnt.errors() == ""


def test_a_map_outlives_close_overwriting_and_collection(again):
    mnt, path, data = again()
    f = open(path, "rb")
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
    f.close()
    new = write(mnt, 2, 15)
    collect(mnt)
    if passes(mnt):
        assert m[:] == data
    m.close()
    assert read(path) == new and read(path) == new
    os.unlink(path)
    collect(mnt)
    assert mnt.errors() == ""


def test_what_is_open_is_not_collected_and_goes_when_it_is_closed(again):
    mnt, path, data = again()
    f = open(path, "rb", buffering=0)
    blob = stored_file(mnt, data)
    os.unlink(path)
    collect(mnt)
    assert f.read() == data
    assert blob.exists() or not passes(mnt)
    f.close()

    def gone():
        collect(mnt)
        return not blob.exists()
    wait_for(gone)
    assert mnt.errors() == ""


def test_a_reader_keeps_its_state_and_the_file_can_be_written(again):
    mnt, path, data = again()
    with open(path, "rb", buffering=0) as f:
        assert f.read(MIB) == data[:MIB]
        with open(path, "r+b") as w:
            w.seek(5 * MIB)
            w.write(b"changed")
        want = data[:5 * MIB] + b"changed" + data[5 * MIB + 7:]
        if passes(mnt):
            assert f.read() == data[MIB:]
        assert read(path) == want
    assert read(path) == want
    assert mnt.errors() == ""


def test_a_map_keeps_its_state_also_while_somebody_reads_on_who_came_during_a_change(again):
    mnt, path, data = again()
    with open(path, "r+b", buffering=0) as w:
        early = open(path, "rb", buffering=0)           # of the ordinary file
        w.seek(5 * MIB)
        w.write(b"zz")
    one, two = (data[:5 * MIB] + new + data[5 * MIB + 2:] for new in (b"zz", b"yy"))
    wait_for(lambda: read(path) == one and (not passes(mnt) or metrics(mnt)["ptio_fs_stored_opens_total"]))
    f = open(path, "rb")
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
    with open(path, "r+b", buffering=0) as w:
        w.seek(5 * MIB)
        w.write(b"yy")
    if passes(mnt):
        assert m[:] == one
    assert read(path) == two and early.read() == two    # which sees what is written, as before
    m.close()
    f.close()
    early.close()
    assert mnt.errors() == ""


def test_o_direct_opens_may_read_anything(again):
    mnt, path, data = again()
    assert read(path) == data
    with open(path, "rb") as held:
        for _ in range(2):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
            assert os.pread(fd, 1000, 12345) == data[12345:13345]       # whatever the store's filesystem wants
            buf = mmap.mmap(-1, 4 * MIB)
            assert os.preadv(fd, [buf], 4 * MIB) == 4 * MIB and buf[:] == data[4 * MIB:8 * MIB]
            os.close(fd)
        assert held.read() == data
    assert mnt.errors() == ""


def test_descriptors_do_not_pile_up(mounts):
    made = mounts("made")
    want = [write(made, s, 6, f"m{s}/model.safetensors") for s in range(12)]
    mnt = mounts("again", store=made.store)
    for _ in range(3):
        for s, data in enumerate(want):
            assert read(mnt / f"m{s}/model.safetensors") == data
    for s in range(12):
        os.unlink(mnt / f"m{s}/model.safetensors")

    def none_removed():
        collect(mnt)
        return not [d for d in descriptors(mnt) if ".blob" in d and "deleted" in d]
    deadline = time.monotonic() + 60
    while [d for d in descriptors(mnt) if d.endswith(".blob")]:
        none_removed()
        (mnt / "m0").stat()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert mnt.errors() == ""


def test_a_killed_driver_leaves_the_kernel_nothing(again):
    mnt, path, data = again()
    f = open(path, "rb")
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
    assert m[:100] == data[:100]
    passed = passes(mnt)
    mnt.kill()
    if passed:                      # else a map that the driver has to fill is SIGBUS
        assert m[-100:] == data[-100:]
    m.close()
    f.close()
    mnt.start()
    collect(mnt)
    assert read(path) == data
    os.unlink(path)
    collect(mnt)
    assert not list(pathlib.Path(mnt.store).glob("objects/*/*.blob"))


def test_a_copy_in_memory_takes_over_when_the_store_s_file_is_closed(again):
    mnt, path, data = again()
    if not passes(mnt):
        return
    with open(path, "rb") as held:
        for _ in range(3):
            assert read(path) == data
        wait_for(lambda: metrics(mnt)["ptio_cache_fills_total"] == 1)
        before = metrics(mnt)
        assert read(path) == data                       # one file a node at a time
        after = metrics(mnt)
        assert after["ptio_fs_stored_opens_total"] == before["ptio_fs_stored_opens_total"] + 1
        assert held.read() == data
    before = metrics(mnt)
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        assert m[:] == data
    after = metrics(mnt)
    assert after["ptio_fs_passed_opens_total"] == before["ptio_fs_passed_opens_total"] + 1
    assert after["ptio_fs_stored_opens_total"] == before["ptio_fs_stored_opens_total"]
    assert after["ptio_cache_checks_total"] == 1


def test_a_copy_in_memory_is_read_when_the_store_s_file_was_changed_while_it_is_open(again):
    mnt, path, data = again()
    if not passes(mnt):
        return
    with open(path, "rb"):
        assert read(path) == data
        wait_for(lambda: metrics(mnt)["ptio_cache_fills_total"] == 1)
        stored = metrics(mnt)["ptio_fs_stored_opens_total"]
        flip(stored_file(mnt, data), 3 * MIB)
        for _ in range(3):
            assert read(path) == data
        assert metrics(mnt)["ptio_fs_stored_opens_total"] == stored
    assert read(path) == data and mnt.errors() == ""


def test_no_damaged_byte_is_kept_however_far_verifying_and_copying_are(again):
    mnt, path, data = again(options="open_wait=0")
    blob = stored_file(mnt, data)

    def sound():
        try:
            return read(path) == data
        except OSError as e:
            return e.errno == 5

    assert read(path) == data
    with open(path, "rb"), open(path, "rb"):
        time.sleep(0.05)                                # verified by now, mostly, so that the next is passed through
        with open(path, "rb"), open(path, "rb"):        # the second of which has it copied
            flip(blob, 3 * MIB)
            assert [sound() for _ in range(3)] == [True] * 3
    assert [sound() for _ in range(3)] == [True] * 3


def test_who_opens_what_was_read_before_it_was_damaged_is_not_given_that(again):
    """Chunks count as verified as long as the file is open, but not for an open after the file has been changed."""
    mnt, path, data = again(options="serve=stream")
    with open(path, "rb", buffering=0) as held:
        assert held.read() == data
        flip(stored_file(mnt, data), 3 * MIB)
        if json.loads((mnt / ".ptio/status.json").read_text())["direct_io"]:
            with pytest.raises(OSError) as e:
                read(path)
            assert e.value.errno == 5
        else:
            assert read(path) == data       # the kernel has kept what was right
        flip(stored_file(mnt, data), 3 * MIB)
        assert read(path) == data


@pytest.mark.parametrize("harm", ["flip", "cut"])
@pytest.mark.parametrize("place", ["same", "other"])
def test_a_good_file_that_is_put_back_is_read(again, harm, place):
    mnt, path, data = again()
    blob = stored_file(mnt, data)
    flip(blob, 3 * MIB) if harm == "flip" else os.truncate(blob, 3 * MIB)
    for _ in range(2):
        with pytest.raises(OSError):
            read(path)
    if place == "other":
        copy = blob.with_suffix(".new")
        copy.write_bytes(data)
        os.rename(copy, blob)
    else:
        blob.write_bytes(data)
    assert read(path) == data and read(path) == data


def test_a_pipe_in_a_file_s_place_is_an_error(again):
    mnt, path, data = again()
    blob = stored_file(mnt, data)
    blob.unlink()
    os.mkfifo(blob)
    with pytest.raises(OSError) as e:
        read(path)
    assert e.value.errno == 5 and "not a file" in mnt.errors()


def test_a_copy_is_not_made_while_somebody_loads_the_file(again):
    mnt, path, data = again()
    rests = 0
    for n in range(40):                                 # until the thread that gets what the processors have left comes to it in time
        name = path.parent / f"model{n}.safetensors"
        name.write_bytes(data)
        with open(name, "rb"), open(name, "rb"):        # as loaders do, for its header and for its bytes
            pass
        if passes(mnt):
            wait_for(lambda: metrics(mnt)["ptio_cache_fills_total"] == n + 1)
        rests += metrics(mnt)["ptio_cache_rests_total"]
        assert read(name) == data
        if n >= 4 and (rests or not passes(mnt)):
            break
    assert bool(rests) == bool(passes(mnt))


def test_no_copy_is_made_of_what_is_large_or_read_once(again):
    mnt, path, data = again(options="cache_size=20M")
    for _ in range(4):
        assert read(path) == data
    mnt2, path2, _ = again("once")
    assert read(path2) == data
    time.sleep(0.3)
    for m in (mnt, mnt2):
        if passes(m):
            assert metrics(m)["ptio_cache_fills_total"] == metrics(m)["ptio_cache_filling"] == 0
