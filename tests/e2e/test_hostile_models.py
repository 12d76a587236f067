"""A model file that is replaced as programs do it: a temporary name, then rename."""
import errno
import multiprocessing
import os
import time

import numpy as np
import pytest
import safetensors.numpy

from conftest import metrics, wait_until


def model(value):
    return safetensors.numpy.save({"a": np.full((64, 64), value, "float32"), "b": np.full(300, value, "int32")})


def test_a_hidden_file_on_its_way_hides_no_tensor_of_the_one_it_replaces(mnt):
    folder = mnt.key("model")
    (folder / "m.safetensors").write_bytes(model(1))
    (folder / ".m.safetensors.Xy12").write_bytes(model(2))
    assert (np.load(folder / "a" / "full.npy") == 1).all()
    assert set(safetensors.numpy.load((folder / ".all.safetensors").read_bytes())) == {"a", "b"}
    assert (folder / ".m.safetensors.Xy12").read_bytes() == model(2)
    os.rename(folder / ".m.safetensors.Xy12", folder / "m.safetensors")
    assert (np.load(folder / "a" / "full.npy") == 2).all()
    # one that is not hidden is another model file, and withholds them
    (folder / "other.safetensors").write_bytes(model(3))
    assert not (folder / "a" / "full.npy").exists()


def replacer(folder, number, seconds):
    end = time.monotonic() + seconds
    value = number
    while time.monotonic() < end:
        value += 10
        temporary = folder / f".m.{number}"
        temporary.write_bytes(model(value))
        os.rename(temporary, folder / "m.safetensors")


def replace_until(folder, stop):
    while not stop.wait(0.2):
        (folder / ".m").write_bytes(model(1))
        os.rename(folder / ".m", folder / "m.safetensors")


def reader(folder, names, seconds, results):
    end = time.monotonic() + seconds
    problems = []
    while time.monotonic() < end and not problems:
        for name in names:
            try:
                tensors = safetensors.numpy.load((folder / name).read_bytes())
                if set(tensors) != {"a", "b"} or len({float(v) for t in tensors.values() for v in np.unique(t)}) != 1:
                    problems.append((name, "a mix", tensors))
            except OSError as e:
                problems.append((name, str(e)))
    results.put(problems)


@pytest.mark.slow
def test_a_model_that_is_replaced_all_the_time_is_read_whole_and_never_as_a_stale_handle(mounts, stress):
    folders = [mounts("one").key("model"), mounts("two").key("model")]
    (folders[0] / "m.safetensors").write_bytes(model(1))
    results = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=replacer, args=(folders[n % 2], n, stress(20))) for n in range(3)]
    workers += [multiprocessing.Process(target=reader, args=(folders[n % 2], ("tp=0of2/m.safetensors", ".all.safetensors"), stress(20), results)) for n in range(4)]
    for w in workers:
        w.start()
    found = [results.get(timeout=120) for _ in range(4)]
    for w in workers:
        w.join()
        assert w.exitcode == 0
    assert found == [[]] * 4


def test_who_comes_by_a_removed_files_inode_is_never_given_bytes_of_its_record(mnt):
    """O_PATH is a look-up without an open, as of a program that is held up between the two."""
    path = mnt / "m.safetensors"
    path.write_bytes(model(1))
    inode = os.open(path, os.O_PATH)
    first = os.open(path, os.O_RDONLY)
    os.unlink(path)
    assert os.fstat(first).st_nlink == 0
    assert os.pread(first, 1 << 20, 0) == model(1)
    os.close(first)
    wait_until(lambda: metrics(mnt)["ptio_fs_open_files"] == 0)         # the kernel tells the last close later
    with pytest.raises(OSError) as e:
        os.open(f"/proc/self/fd/{inode}", os.O_RDONLY)
    assert e.value.errno == errno.ESTALE
    os.close(inode)


@pytest.mark.slow
def test_a_files_own_name_that_is_replaced_all_the_time_is_never_a_stale_handle(mounts, stress):
    """As an ordinary file, which small ones are, and from cache_min on as a file of which each state has a node."""
    for place, options in (("small", ""), ("large", "cache_min=4096")):
        mount = mounts(place, options=options)
        folder = mount.key(place)
        (folder / "m.safetensors").write_bytes(model(1))
        results = multiprocessing.Queue()
        workers = [multiprocessing.Process(target=replacer, args=(folder, n, stress(10))) for n in range(3)]
        workers += [multiprocessing.Process(target=reader, args=(folder, ("m.safetensors",), stress(10), results)) for _ in range(4)]
        for w in workers:
            w.start()
        found = [results.get(timeout=120) for _ in range(4)]
        for w in workers:
            w.join()
            assert w.exitcode == 0
        assert found == [[]] * 4, place
        wait_until(lambda: metrics(mount)["ptio_fs_open_files"] == 0, place)


@pytest.mark.slow
def test_a_file_that_another_mount_replaces_is_there_all_the_time(mounts, monkeypatch, stress):
    """Between the look-up of a name and its attributes the file may be gone: replaced, not removed."""
    writer = mounts("writer")
    (writer / "m.safetensors").write_bytes(model(1))
    monkeypatch.setenv("PTIO_FAULTS", "meta.get:delay_ms=10")
    slow = mounts("slow", options="entry_timeout=0")
    monkeypatch.delenv("PTIO_FAULTS")
    stop = multiprocessing.Event()
    worker = multiprocessing.Process(target=replace_until, args=(writer.point, stop))
    worker.start()
    try:
        for _ in range(stress(150)):
            assert os.stat(slow / "m.safetensors").st_size == len(model(1))
    finally:
        stop.set()
        worker.join()
