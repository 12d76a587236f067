"""One revision whole, old or new: readers across upserts, maps across writes, steps that never mix."""
import os
import pathlib
import random
import subprocess
import time

import numpy as np
import pytest
import torch

import clients
from clients import random_array

A = random_array("float32", (512, 1024), 1)      # 2 MiB
B = random_array("float32", (512, 1024), 2)


def test_an_open_file_keeps_its_revision_and_a_new_open_sees_the_next(mnt, scratch):
    key = mnt.key("w")
    clients.write_torch(A, key / "full", scratch)
    old = open(key / "full.bin", "rb", buffering=0)
    assert old.read(1000) == A.data[:1000]
    clients.write_torch(B, key / "full", scratch)
    assert clients.read_bin_cp(key / "full", B) == B
    assert old.read() == A.data[1000:]
    assert os.fstat(old.fileno()).st_size == len(A.data)
    old.close()


def test_a_revision_of_another_shape_and_dtype_replaces_the_old_one(mnt, scratch):
    key = mnt.key("w")
    clients.write_torch(A, key / "full", scratch)
    old = np.load(key / "full.npy", mmap_mode="r")
    small = random_array("int8", (3,), 3)
    clients.write_torch(small, key / "full", scratch)
    assert clients.read_np_load(key / "full", small) == small
    assert old.tobytes() == A.data


def test_a_mapped_reader_survives_cp_dd_and_torch_save_over_it(mnt, scratch):
    key = mnt.key("w")
    for over in (clients.write_cp, clients.write_dd, clients.write_torch, clients.write_cat, clients.write_rsync, clients.write_rename):
        clients.write_torch(A, key / "full", scratch)
        mapped = np.load(key / "full.npy", mmap_mode="r")
        tensor = torch.load(key / "full.pt", mmap=True)
        first = mapped[:10].tobytes()
        over(B, key / "full", scratch)
        # most pages are touched only now: a truncated node would be SIGBUS here
        assert mapped.tobytes() == A.data and first == A.data[:10 * 4096]
        assert clients.from_torch(tensor) == A
        assert clients.read_np_mmap(key / "full", B) == B
        del mapped, tensor


def test_truncating_a_view_that_is_read_changes_nothing(mnt, scratch):
    key = mnt.key("w")
    clients.write_torch(A, key / "full", scratch)
    mapped = np.load(key / "full.npy", mmap_mode="r")
    subprocess.run(["sh", "-c", ': > "$1"', "sh", str(key / "full.npy")])
    assert mapped.tobytes() == A.data
    assert clients.read_np_load(key / "full", A) == A


def reader(root, number, seconds, results):
    torch.set_num_threads(1)
    r = random.Random(number)
    end = time.monotonic() + seconds
    seen, count, last = set(), 0, -1.0
    try:
        while time.monotonic() < end:
            how = r.choice(("full.pt", "full.npy", "full.bin", "tp=1of2,dim=1/shard.npy", "tp=0of3,dim=0/shard.npy"))
            path = pathlib.Path(root) / how
            if how.endswith(".pt"):
                values = torch.load(path).numpy()
            elif how.endswith(".npy"):
                values = np.load(path, mmap_mode=r.choice((None, "r")))
            else:
                values = np.frombuffer(path.read_bytes(), "<f4")
            low, high = float(values.min()), float(values.max())
            assert low == high, f"a mix of steps {low} and {high} in {how}"
            assert low >= last, f"step {low} after {last}"
            last = low
            seen.add(low)
            count += 1
        results.put((count, len(seen), None))
    except BaseException as e:      # reported to the parent, which fails
        results.put((count, len(seen), repr(e)))


@pytest.mark.slow
@pytest.mark.alone
def test_no_reader_ever_sees_a_mix_while_writers_publish_for_a_minute(mnt, torch_processes, stress):
    root = mnt.key("policy/w")
    torch.save(torch.full((8, 4096), -1.0), root / "full")
    context, seconds = torch_processes, stress(60)
    results = context.Queue()
    readers = [context.Process(target=reader, args=(str(root), i, seconds, results)) for i in range(8)]
    stop = time.monotonic() + seconds
    for p in readers:
        p.start()
    steps, batch = 0, 0
    while time.monotonic() < stop - 2:
        writers = [context.Process(target=loop_writer, args=(r, str(root), steps, 12.0 if stop - time.monotonic() > 14 else 1.0, batch)) for r in range(4)]
        counts = [p.start() or p for p in writers]
        for p in counts:
            p.join()
            assert p.exitcode == 0
        steps += 100000
        batch += 1
    outcomes = [results.get(timeout=120) for _ in readers]
    for p in readers:
        p.join()
    assert [o[2] for o in outcomes] == [None] * 8, outcomes
    assert all(o[0] > seconds // 3 for o in outcomes), outcomes
    assert max(o[1] for o in outcomes) > max(1, seconds // 12), outcomes


def loop_writer(rank, root, first, seconds, seed):
    """Steps `first`, `first` + 1, ... at this writer's own pace: now and then late, past the others' next step."""
    r = random.Random(seed * 7 + rank)
    torch.set_num_threads(1)
    end = time.monotonic() + seconds
    step = first
    while time.monotonic() < end:
        if rank == 3 and r.random() < 0.15:
            time.sleep(0.3)
        tensor = torch.full((8, 4096), float(step))
        torch.save(tensor, pathlib.Path(root) / f"writer={rank}of4,dim=0,step={step}" / "full")
        step += 1


def test_a_late_writer_of_an_older_step_does_not_join_the_newer_set(mnt):
    root = mnt.key("w")
    for rank in (0, 1, 2):
        torch.save(torch.full((8, 8), 1.0), root / f"writer={rank}of4,dim=0,step=1" / "full")
    for rank in (0, 1, 2):
        torch.save(torch.full((8, 8), 2.0), root / f"writer={rank}of4,dim=0,step=2" / "full")
    assert not pathlib.Path(root / "full").exists() or os.getxattr(root / "full", "user.ptio.complete") == b"0"
    torch.save(torch.full((8, 8), 2.0), root / "writer=3of4,dim=0,step=2" / "full")
    assert float(torch.load(root / "full.pt").min()) == float(torch.load(root / "full.pt").max()) == 2.0
    torch.save(torch.full((8, 8), 1.0), root / "writer=3of4,dim=0,step=1" / "full")
    values = torch.load(root / "full.pt")
    assert float(values.min()) == float(values.max())


def test_an_incomplete_set_is_enodata_and_says_what_is_missing(mnt):
    import errno
    import json
    root = mnt.key("w")
    torch.save(torch.zeros(8, 8), root / "writer=2of4,dim=0" / "full")
    try:
        (root / "full.pt").read_bytes()
        raise AssertionError("read an incomplete set")
    except OSError as e:
        assert e.errno == errno.ENODATA
    assert os.getxattr(root / "full", "user.ptio.complete") == b"0"
    pending, = json.loads((root / ".ptio.json").read_text())["pending"]
    assert pending["missing"] == [0, 1, 3]
