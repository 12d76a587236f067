"""Steps are published by mv and ln -sfn while others read; large directories are copied, moved and removed as on any filesystem."""
import multiprocessing
import os
import shutil
import time

import numpy as np
import pytest
import safetensors.numpy

from clients import run

MANY = 10_000


def step_files(directory, step):
    """A model directory of a step, in which every value is the step's number: files of tensors, a key, and an ordinary file."""
    for shard in range(2):
        safetensors.numpy.save_file({f"w{shard}.{i}": np.full((64, 16), step, "f4") for i in range(4)}, directory / f"model-{shard}.safetensors")
    (directory / "k").mkdir()
    with open(directory / "k" / "full", "wb") as f:
        np.save(f, np.full((32, 8), step, "f4"))
    (directory / "config.json").write_text(f'{{"step": {step}}}')


def values_of(directory):
    """Every number in a directory, by every way to it."""
    seen = set()
    for name in os.listdir(directory):
        if name.endswith(".safetensors"):
            for array in safetensors.numpy.load_file(f"{directory}/{name}").values():
                seen |= set(np.unique(array))
    for view in ("k/full.npy", "k/tp=1of2,dim=0/shard.npy", "w1.2/full.npy", "w0.1/tp=0of2,dim=1/shard.npy"):
        seen |= set(np.unique(np.load(f"{directory}/{view}")))
    for array in safetensors.numpy.load_file(f"{directory}/.all.safetensors").values():
        seen |= set(np.unique(array))
    for array in safetensors.numpy.load_file(f"{directory}/tp=1of2/model-1.safetensors").values():
        seen |= set(np.unique(array))
    return seen | {float(open(f"{directory}/config.json").read().split(":")[1].strip(" }"))}


def reader(point, stop, results, how):
    """Goes into `latest` again and again; what it finds inside must be one step, whole, and steps only go up."""
    last, rounds = 0, 0
    try:
        while not stop.is_set():
            if how == "cd":
                os.chdir(f"{point}/latest")
                seen = values_of(".")
                os.chdir("/")
            else:
                seen = values_of(f"{point}/{os.readlink(f'{point}/latest')}")
            assert len(seen) == 1, seen
            step, = seen
            assert step >= last, (step, last)
            last, rounds = step, rounds + 1
        results.put((rounds, None))
    except BaseException as e:
        results.put((rounds, f"{type(e).__name__}: {e}"))


def test_readers_of_latest_see_whole_steps_while_it_is_published(mnt):
    ctx = multiprocessing.get_context("fork")
    stop, results = ctx.Event(), ctx.Queue()

    def publish(step):
        tmp = mnt / f"step={step}.tmp"
        tmp.mkdir()
        step_files(tmp, step)
        run("mv", tmp, mnt / f"step={step}")
        run("ln", "-sfn", f"step={step}", mnt / "latest")

    publish(1)
    readers = [ctx.Process(target=reader, args=(str(mnt.point), stop, results, how)) for how in ("cd", "readlink", "cd")]
    for r in readers:
        r.start()
    step, deadline = 1, time.monotonic() + 20
    try:
        while step < 6 or time.monotonic() < deadline and step < 12:
            step += 1
            publish(step)
    finally:
        stop.set()
        ends = [results.get(timeout=120) for _ in readers]
        for r in readers:
            r.join()
    assert not [e for _, e in ends if e], ends
    assert all(rounds > 0 for rounds, _ in ends), ends
    assert values_of(mnt / "latest") == {step}
    assert sorted(os.listdir(mnt.point)) == sorted(["latest"] + [f"step={s}" for s in range(1, step + 1)])
    run("rm", "-r", *[mnt / f"step={s}" for s in range(1, step)])
    assert values_of(mnt / "latest") == {step}


def test_each_file_of_latest_is_whole_when_the_link_moves(mnt):
    """The path through the link is resolved anew by each open: each file is of one step."""
    for step in (1, 2):
        (mnt / f"step={step}").mkdir()
        step_files(mnt / f"step={step}", step)
    ctx = multiprocessing.get_context("fork")
    stop = ctx.Event()

    def swap():
        step = 1
        while not stop.is_set():
            os.symlink(f"step={step}", mnt / "latest.tmp")
            os.rename(mnt / "latest.tmp", mnt / "latest")
            step = 3 - step

    os.symlink("step=2", mnt / "latest")
    swapper = ctx.Process(target=swap)
    swapper.start()
    try:
        found = set()
        deadline = time.monotonic() + 60
        rounds = 0
        while (rounds < 30 or len(found) < 2) and time.monotonic() < deadline:
            seen = set()
            for array in safetensors.numpy.load_file(mnt / "latest" / "model-1.safetensors").values():
                seen |= set(np.unique(array))
            assert len(seen) == 1
            found |= seen
            rounds += 1
        assert found == {1.0, 2.0}
    finally:
        stop.set()
        swapper.join()


@pytest.mark.slow
@pytest.mark.nosan
@pytest.mark.once
def test_ten_thousand_keys_are_listed_and_removed(mnt):
    names = [f"layers.{i // 10}.w{i % 10}" for i in range(MANY)]
    safetensors.numpy.save_file({n: np.full((2, 2), i, "f4") for i, n in enumerate(names)}, mnt.key("d") / "writer=0of1" / "model.safetensors")
    assert len(os.listdir(mnt / "d")) == MANY + 1
    assert len(run("find", mnt / "d", "-mindepth", "1", "-maxdepth", "1", "-type", "d").split()) == MANY
    assert np.load(mnt / "d" / names[777] / "full.npy")[0, 0] == 777
    assert int(run("du", "-s", "--block-size=1", mnt / "d").split()[0]) >= MANY * 16
    run("mv", mnt / "d", mnt / "moved")
    run("rm", "-r", mnt / "moved")
    assert os.listdir(mnt.point) == []


@pytest.mark.slow
@pytest.mark.nosan
def test_a_file_of_ten_thousand_tensors_is_copied_and_removed(mnt, scratch):
    safetensors.numpy.save_file({f"layers.{i}.weight": np.full((4, 4), i, "f4") for i in range(MANY)}, scratch / "m.safetensors")
    shutil.copy(scratch / "m.safetensors", mnt.key("d"))
    run("cp", "-r", mnt / "d", mnt / "copy")
    run("cmp", scratch / "m.safetensors", mnt / "copy" / "m.safetensors")
    assert len(safetensors.numpy.load_file(mnt / "copy" / "tp=0of2" / "m.safetensors")) == MANY
    run("rm", "-r", mnt / "d", mnt / "copy")
    assert os.listdir(mnt.point) == []
    deadline = time.monotonic() + 120
    while sum(len(f) for _, _, f in os.walk(os.path.join(mnt.store, "objects"))) > MANY // 10:
        assert time.monotonic() < deadline, "the objects of removed files are still there"
        time.sleep(0.3)


@pytest.fixture
def mixed(mnt):
    """Keys of every sort, files of tensors, ordinary files, links and directories."""
    d = mnt.key("src")
    step_files(d, 3)
    for rank in range(2):
        with open(mnt.key("src/sub/set") / f"writer={rank}of2,dim=0" / "full", "wb") as f:
            np.save(f, np.arange(24, dtype="f4").reshape(4, 6))
        with open(mnt.key("src/sub/shards") / f"tp={rank}of2,dim=1" / "shard", "wb") as f:
            np.save(f, np.arange(24, dtype="f4").reshape(4, 6)[:, 3 * rank:3 * rank + 3])
        with open(mnt.key("src/scopes") / f"dp={rank}of2" / "full", "wb") as f:
            np.save(f, np.full(5, rank, "f4"))
    (d / "empty").mkdir()
    (d / "run.sh").write_text("#!/bin/sh\n")
    os.chmod(d / "run.sh", 0o750)
    os.utime(d / "run.sh", (1e9, 1e9))
    os.symlink("run.sh", d / "link")
    return d


def same_tree(a, b):
    run("diff", "-r", "--no-dereference", a, b)
    for d in (p for p in (a, b) if (p / ".ptio.json").exists()):       # on the mount
        assert np.array_equal(np.load(d / "sub/set/full.npy"), np.arange(24, dtype="f4").reshape(4, 6))
        assert np.array_equal(np.load(d / "sub/shards/full.npy"), np.arange(24, dtype="f4").reshape(4, 6))
        assert (np.load(d / "scopes/dp=1of2/full.npy") == 1).all() and (np.load(d / "k/full.npy") == 3).all()
    assert sorted(run("find", ".", cwd=a).split()) == sorted(run("find", ".", cwd=b).split())


@pytest.mark.parametrize("how", ("cp -r", "cp -a", "tar", "copytree") + (("rsync",) if shutil.which("rsync") else ()))
def test_a_tree_with_everything_is_copied(mnt, mixed, how):
    there = mnt / "there"
    if how.startswith("cp"):
        run(*how.split(), mixed, there)
    elif how == "tar":
        run("sh", "-c", f"mkdir {there} && tar -C {mixed} -c . | tar -C {there} -x")
    elif how == "copytree":
        shutil.copytree(mixed, there, symlinks=True)
    else:
        run("rsync", "-a", f"{mixed}/", there)
    same_tree(mixed, there)
    if how != "cp -r":
        st = os.stat(there / "run.sh")
        assert (st.st_mode & 0o777, st.st_mtime) == (0o750, 1e9)


def test_a_tree_with_everything_moves_and_goes(mnt, mixed, scratch):
    run("cp", "-r", mixed, scratch / "want")
    (mnt / "a").mkdir()
    run("mv", mixed, mnt / "a" / "b")
    same_tree(scratch / "want", mnt / "a" / "b")
    run("mv", mnt / "a" / "b" / "sub" / "set", mnt / "set")
    run("mv", mnt / "set", mnt / "a" / "b" / "sub")
    run("mv", mnt / "a" / "b" / "model-0.safetensors", mnt / "a" / "b" / "sub")
    run("mv", mnt / "a" / "b" / "sub" / "model-0.safetensors", mnt / "a" / "b")
    same_tree(scratch / "want", mnt / "a" / "b")
    run("cp", "-r", mnt / "a" / "b", mnt / "again")
    run("rm", "-r", mnt / "a", mnt / "again")
    assert os.listdir(mnt.point) == []


def test_git_takes_a_model_directory(mnt, mixed):
    run("git", "init", "-q", ".", cwd=mixed)
    run("git", "add", "-A", cwd=mixed)
    run("git", "-c", "user.email=a@b", "-c", "user.name=n", "commit", "-qm", "x", cwd=mixed)
    assert run("git", "status", "--porcelain", cwd=mixed) == ""
    listed = run("git", "ls-files", cwd=mixed).split()
    assert "sub/shards/tp=1of2,dim=1/shard" in listed and "k/full" in listed and not [n for n in listed if ".ptio" in n or ".all" in n]
    run("git", "fsck", cwd=mixed)
