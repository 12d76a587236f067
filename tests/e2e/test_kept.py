"""Names and attributes that the kernel keeps: what it need not ask for, and that nothing opened is ever what another mount has replaced."""
import contextlib
import ctypes
import errno
import mmap
import multiprocessing
import os
import threading
import time

import numpy as np
import pytest
import safetensors.numpy

import conftest
from conftest import metrics
from test_metadata import ops

LONG = "entry_timeout=3600"


def value(path):
    return int(np.load(path)[0])


def put(path, n, size=3):
    np.save(path, np.full(size, n))


def soon(claim):
    """What another mount did is noticed by itself; how soon is not tested."""
    deadline = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def pair(mounts):
    return mounts("one", options=LONG), mounts("two")


def test_what_is_known_takes_no_look_up(mounts):
    mnt = mounts(options=LONG)
    for n in range(40):
        mnt.key(f"many/t{n}")
        put(mnt / f"many/t{n}/full.npy", n)
    paths = [mnt / f"many/t{n}/{v}" for n in range(40) for v in ("full.npy", "tp=0of1,dim=0/full.npy")]
    for _ in range(2):
        for p in paths:
            os.stat(p)
            value(p)
    before = metrics(mnt)
    for _ in range(10):
        for p in paths:
            os.stat(p)
    names = ("lookup", "getattr", "open", "read", "release", "xattr", "flush")
    count = lambda m, n: m[f'ptio_fs_operations_total{{op="{n}"}}']
    after = metrics(mnt)
    assert sum(count(after, n) - count(before, n) for n in ("lookup", "getattr")) < 10
    before = after
    for p in paths:
        value(p)
    after = metrics(mnt)
    assert {n: (count(after, n) - count(before, n)) // len(paths) for n in names} == dict.fromkeys(names, 0) | {"open": 1, "release": 1}
    plain = mounts("plain", options="entry_timeout=0")
    for _ in range(3):
        before = ops(plain, "lookup")
        os.stat(plain / "many/t0/full.npy")
        assert ops(plain, "lookup") - before >= 3


@pytest.mark.parametrize("view", ["k/w/full.npy", "k/w/tp=0of1,dim=0/full.npy"])
def test_an_open_after_another_mounts_commit_finds_the_new_revision(pair, view):
    one, two = pair
    two.key("k/w")
    put(two / "k/w/full.npy", 0)
    for n in range(1, 300):
        os.stat(one / view)
        assert value(one / view) == n - 1
        put(two / "k/w/full.npy", n, 3 + n % 5)
        assert value(one / view) == n
        assert os.stat(one / view).st_size == os.stat(two / view).st_size


def test_an_open_file_stays_what_it_was_and_stat_by_path_follows(pair):
    one, two = pair
    two.key("w")
    put(two / "w/full.npy", 1, 100)
    with open(one / "w/full.npy", "rb") as old:
        was = os.fstat(old.fileno())
        whole = np.load(one / "w/full.npy", mmap_mode="r")
        for n in range(2, 12):
            put(two / "w/full.npy", n, 100 * n)
            soon(lambda: os.stat(one / "w/full.npy").st_size == 100 * n * 8 + 128)
            now = os.fstat(old.fileno())
            assert (now.st_size, now.st_mtime_ns) == (was.st_size, was.st_mtime_ns)
            assert os.lseek(old.fileno(), 0, os.SEEK_END) == was.st_size
            assert os.stat(old.fileno()).st_size == was.st_size
            assert whole[0] == 1 and len(whole) == 100
            assert os.stat(one / "w/full.npy").st_size == 100 * n * 8 + 128
            assert int(os.getxattr(one / "w/full.npy", "user.ptio.revision")) == int(os.getxattr(two / "w/full.npy", "user.ptio.revision"))
        old.seek(0)
        assert len(old.read()) == was.st_size


def test_what_is_open_is_found_again_by_its_descriptor(pair):
    """Also where the kernel sees a path: /dev/stdin is one."""
    one, two = pair
    two.key("w")
    put(two / "w/full.npy", 1, 100)
    for n in range(2, 6):
        with open(one / "w/full.npy", "rb") as old:
            was = os.fstat(old.fileno()).st_size
            put(two / "w/full.npy", n, 100 * n)
            again = f"/proc/self/fd/{old.fileno()}"
            for _ in range(2):
                assert value(again) == n - 1
                assert os.stat(again).st_size == was
                assert value(one / "w/full.npy") == n
        named = os.open(one / "w/full.npy", os.O_PATH)
        was = os.fstat(named).st_size
        put(two / "w/full.npy", n, 100)
        assert value(one / "w/full.npy") == n
        assert os.fstat(named).st_size == was
        os.close(named)


@contextlib.contextmanager
def unseen():
    """This process is not to be looked at by others, unless they may look at all."""
    libc, dumpable = ctypes.CDLL(None), 4
    assert libc.prctl(dumpable, 0, 0, 0, 0) == 0
    try:
        yield
    finally:
        assert libc.prctl(dumpable, 1, 0, 0, 0) == 0


@pytest.mark.parametrize("warm_first", [False, True])
def test_callers_of_whom_proc_does_not_tell_keep_what_they_have_open(mounts, scratch, monkeypatch, warm_first):
    two = mounts("two")
    program = scratch / "unseeing"
    program.write_text(f'#!/bin/sh\nexec unshare --pid --fork --kill-child {conftest.PTIOFS} "$@"\n')
    program.chmod(0o755)
    if os.geteuid() == 0:
        monkeypatch.setattr(conftest, "PTIOFS", program)
    one = mounts("one", store=two.store, options=LONG)
    two.key("w")
    put(two / "w/full.npy", 0, 100)
    with unseen():
        for n in range(1, 6):
            if warm_first:
                warm(one, "w/full.npy")
            with open(one / "w/full.npy", "rb") as old:
                was = os.fstat(old.fileno()).st_size
                put(two / "w/full.npy", n, 100 * n + 100)
                soon(lambda: os.stat(one / "w/full.npy").st_size == (100 * n + 100) * 8 + 128)
                assert os.fstat(old.fileno()).st_size == was
                assert os.getxattr(old.fileno(), "user.ptio.revision")
                assert value(one / "w/full.npy") == n
                assert os.fstat(old.fileno()).st_size == was


def test_what_a_change_of_attributes_answered_is_asked_for_once_more(mounts):
    """Older kernels take it for right even where they were told in between to forget it."""
    mnt = mounts(options=LONG)
    key = mnt.key("w")
    put(key / "full.npy", 1)
    for p in (key / "full.npy", key, key / "tp=0of1,dim=0"):
        fd = os.open(p, os.O_RDONLY)
        for n in range(3):
            os.fchmod(fd, 0o700 + n)
            counts = [ops(mnt, "getattr")]
            for _ in range(3):
                os.fstat(fd)
                counts.append(ops(mnt, "getattr"))
            own = counts[3] - counts[2]
            assert counts[1] - counts[0] > own and counts[2] - counts[1] == own
        os.close(fd)


def test_what_this_mount_commits_shows_at_once_under_every_spelling(mounts):
    mnt = mounts(options=LONG)
    key = mnt.key("w")
    spelled = ("full.npy", "tp=0of1,dim=0/full.npy", "full.bin", "as_stored.npy")
    for n in range(50):
        put(key / "full.npy", n, 10 + n)
        size = (10 + n) * 8
        assert [os.stat(key / s).st_size for s in spelled] == [size + 128, size + 128, size, size + 128]
        os.chmod(key / "full.npy", 0o600 + n % 8)
        assert {os.stat(key / s).st_mode & 0o777 for s in spelled} == {0o600 + n % 8}
        assert value(key / spelled[1]) == n
    os.rename(mnt / "w", mnt / "v")
    assert value(mnt / "v/full.npy") == 49 and not (mnt / "w/full.npy").exists()
    os.stat(mnt / "v/tp=0of1,dim=0/full.npy")
    os.unlink(mnt / "v/full.npy")
    for s in spelled:
        assert not (mnt / "v" / s).exists(), s
        with pytest.raises(FileNotFoundError):
            open(mnt / "v" / s, "rb")


def test_model_files_do_not_make_the_kernel_forget_tensors_beside_them(mounts):
    mnt = mounts(options=LONG)
    paths = [mnt / f"m/t{n}/full.npy" for n in range(40)]
    for n, p in enumerate(paths):
        mnt.key(f"m/t{n}")
        put(p, n)
    for _ in range(2):
        for p in paths:
            os.stat(p)
    before = ops(mnt, "lookup", "getattr")
    safetensors.numpy.save_file({"w": np.zeros(3)}, mnt / "m/model.safetensors")
    wrote = ops(mnt, "lookup", "getattr") - before
    for p in paths:
        os.stat(p)
    assert ops(mnt, "lookup", "getattr") - before - wrote < 10


def test_a_plan_that_changes_how_a_view_is_cut_shows_at_once(mounts):
    mnt = mounts(options=LONG)
    mnt.key("m/t")
    np.save(mnt / "m/t/full.npy", np.zeros((3, 5), np.uint8))
    shard = mnt / "m/t/tp=0of2/shard.bin"
    size = [os.stat(mnt / f"m/t/tp=0of2,dim={d}/shard.bin").st_size for d in range(2)]
    assert size[0] != size[1]
    for n in range(20):
        (mnt / "m/tp_plan.json").write_text('{"t": "dim=%d"}' % (n % 2))
        for _ in range(2):
            assert os.stat(shard).st_size == size[n % 2]


def warm(mount, *paths):
    for p in paths:
        os.stat(mount / p)
        value(mount / p)


def test_what_another_mount_removes_renames_or_replaces_is_found_where_it_is(pair):
    one, two = pair
    views = ("full.npy", "tp=0of1,dim=0/full.npy", "full.npy")
    for n in range(25):
        for at in ("a/b/w", "a/c/w"):
            two.key(at)
        put(two / "a/b/w/full.npy", 1)
        put(two / "a/c/w/full.npy", 2)
        warm(one, *(f"a/{d}/w/{v}" for d in "bc" for v in views))
        view = views[n % 3]
        os.rename(two / "a/b", two / "a/d")
        os.rename(two / "a/c", two / "a/b")
        os.rename(two / "a/d", two / "a/c")
        for v in (view, *views):
            assert [value(one / f"a/{d}/w/{v}") for d in "bc"] == [2, 1]
        os.unlink(two / "a/b/w/full.npy")
        with pytest.raises(FileNotFoundError):
            open(one / f"a/b/w/{view}", "rb")
        os.rename(two / "a/c/w", two / "a/c/x")
        with pytest.raises(FileNotFoundError):
            open(one / f"a/c/w/{view}", "rb")
        assert value(one / f"a/c/x/{view}") == 1
        soon(lambda: not (one / f"a/c/w/{view}").exists() and not (one / f"a/b/w/{view}").exists())
        os.unlink(two / "a/c/x/full.npy")
        for d in ("a/b/w", "a/c/x", "a/b", "a/c", "a"):
            os.rmdir(two / d)
        with pytest.raises(FileNotFoundError):
            open(one / f"a/b/w/{view}", "rb")


def test_a_view_is_written_where_its_path_leads_now(pair):
    one, two = pair
    for n in range(25):
        for d in "bc":
            two.key(f"a/{d}")
            put(two / f"a/{d}/full.npy", 1)
        warm(one, "a/b/full.npy", "a/b/tp=0of1,dim=0/full.npy")
        os.rename(two / "a/b", two / "a/d")
        os.rename(two / "a/c", two / "a/b")
        put(one / "a/b/full.npy", 7, 50)
        assert (value(two / "a/b/full.npy"), value(two / "a/d/full.npy")) == (7, 1)
        # and what is gone is made, or is not there
        warm(one, "a/b/full.npy")
        os.unlink(two / "a/b/full.npy")
        with pytest.raises(FileNotFoundError):
            os.open(one / "a/b/full.npy", os.O_RDWR)
        put(one / "a/b/full.npy", 8)
        assert value(two / "a/b/full.npy") == 8
        warm(one, "a/b/full.npy")
        put(two / "a/b/full.npy", 9)
        os.chmod(one / "a/b/full.npy", 0o640)
        assert os.stat(two / "a/b/full.npy").st_mode & 0o777 == 0o640 and value(two / "a/b/full.npy") == 9
        for d in "bd":
            os.unlink(two / f"a/{d}/full.npy")
            os.rmdir(two / f"a/{d}")


def test_a_view_below_a_working_directory_that_another_mount_moved_is_read(pair):
    one, two = pair
    two.key("k/q/w")
    put(two / "k/q/w/full.npy", 5)
    fd = os.open(one / "k/q", os.O_RDONLY)
    for n in range(10):
        os.rename(two / ("k" if n % 2 == 0 else "moved"), two / ("moved" if n % 2 == 0 else "k"))
        for view in ("w/full.npy", "w/tp=0of1,dim=0/full.npy"):
            with os.fdopen(os.open(view, os.O_RDONLY, dir_fd=fd), "rb") as f:
                assert int(np.load(f)[0]) == 5
            os.stat(view, dir_fd=fd)
        os.fchdir(fd)
        os.stat(fd)
        os.chdir("/")
        with pytest.raises(FileNotFoundError):
            open(one / ("k" if n % 2 == 0 else "moved") / "q/w/full.npy", "rb")
    os.close(fd)


def test_a_call_with_the_arguments_of_one_that_was_sent_back_is_sent_back_too(pair):
    """From the same place, with the same buffer: all that tells calls of a thread from each other."""
    one, two = pair
    two.key("top/a0/k")
    put(two / "top/a0/k/full.npy", 7)
    libc = ctypes.CDLL(None, use_errno=True)
    names = [ctypes.create_string_buffer(bytes(one / f"top/a{n}/k/full.npy")) for n in range(2)]

    def opens(n):
        fd = libc.open(names[n], os.O_RDONLY)
        return os.close(fd) is None if fd >= 0 else ctypes.get_errno()

    assert opens(0) is True
    for n in range(100):
        os.rename(two / f"top/a{n % 2}", two / f"top/a{(n + 1) % 2}")
        assert [opens(n % 2), opens((n + 1) % 2)] == [errno.ENOENT, True], n


def test_what_must_not_be_there_is_asked_for_also_where_it_is_known(mounts):
    mnt = mounts(options=LONG)
    key = mnt.key("w")
    put(key / "full.npy", 1)
    for p in ("full.npy", "full", "tp=0of1,dim=0/full", "tp=0of1,dim=0"):
        os.stat(key / p)
    with pytest.raises(FileExistsError):
        os.open(key / "full.npy", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.makedirs(key / "tp=0of1,dim=0", exist_ok=True)
    os.mkdir(key / "pp=0of1")
    os.stat(key / "pp=0of1")
    with pytest.raises(FileExistsError):
        os.mkdir(key / "pp=0of1")
    os.rmdir(key / "pp=0of1")
    os.stat(key / "pp=0of1")
    os.mkdir(key / "pp=0of1")


def test_a_directory_another_mount_changed_shows_by_itself(pair):
    one, two = pair
    two.key("k/w")
    put(two / "k/w/full.npy", 1)
    for n in range(10):
        for p in ("k", "k/w", "k/w/tp=0of1,dim=0", "k/w/full.npy"):
            os.stat(one / p)
        os.chmod(two / "k/w", 0o700 + n % 8)
        os.chmod(two / "k/w/full.npy", 0o600 + n % 8)
        soon(lambda: os.stat(one / "k/w").st_mode & 0o777 == 0o700 + n % 8)
        soon(lambda: os.stat(one / "k/w/tp=0of1,dim=0").st_mode & 0o777 == 0o700 + n % 8)
        soon(lambda: os.stat(one / "k/w/full.npy").st_mode & 0o777 == 0o600 + n % 8)


def committer(path, count, done):
    for n in range(1, count + 1):
        put(path, n)
        done.value = n


def test_no_old_revision_and_no_error_while_another_mount_commits(pair):
    one, two = pair
    two.key("w")
    put(two / "w/full.npy", 0)
    done = multiprocessing.Value("q", 0)
    writer = multiprocessing.Process(target=committer, args=(str(two / "w/full.npy"), 2000, done))
    seen, wrong = set(), []

    def read(path):
        while done.value < 2000 and not wrong:
            closed = done.value
            try:
                with open(path, "rb") as f:
                    size = os.fstat(f.fileno()).st_size
                    f.seek(0)
                    got = int(np.load(f)[0])
                os.stat(path)
                os.getxattr(path, "user.ptio.revision")
            except Exception as e:
                wrong.append(repr(e))
                return
            if got < closed or size != 152:
                wrong.append((got, closed, size))
            seen.add(got)

    writer.start()
    threads = [threading.Thread(target=read, args=(one / p,)) for p in ("w/full.npy", "w/tp=0of1,dim=0/full.npy")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    writer.join()
    assert not wrong and len(seen) > 10


def large_committer(path, count, done):
    a = np.zeros((5 << 20) // 8)
    for n in range(1, count + 1):
        a[:] = n
        np.save(path, a)
        done.value = n


def test_no_old_revision_and_no_error_of_large_views_while_another_mount_commits(pair):
    """They are read into memory, and found by another node from then on."""
    one, two = pair
    two.key("w")
    np.save(two / "w/full.npy", np.zeros((5 << 20) // 8))
    count, done = 60, multiprocessing.Value("q", 0)
    writer = multiprocessing.Process(target=large_committer, args=(str(two / "w/full.npy"), count, done))
    seen, wrong = set(), []

    def read(path, maps):
        while done.value < count and not wrong:
            closed = done.value
            try:
                with open(path, "rb") as f:
                    size = os.fstat(f.fileno()).st_size
                    data = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) if maps else f.read()
                    got = np.frombuffer(data, dtype=np.float64, offset=128)
                    if os.stat(f"/proc/self/fd/{f.fileno()}").st_size != size or got.min() != got.max() or got[0] < closed:
                        wrong.append((got.min(), got.max(), closed, size))
                    seen.add(int(got[0]))
                os.stat(path)
                os.getxattr(path, "user.ptio.revision")
            except Exception as e:
                wrong.append(repr(e))

    writer.start()
    threads = [threading.Thread(target=read, args=(one / p, maps)) for p in ("w/full.npy", "w/tp=0of1,dim=0/full.npy") for maps in (False, True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    writer.join()
    assert not wrong and len(seen) > 3


def test_what_one_call_was_held_for_is_not_what_the_next_one_opens(pair):
    """Who was sent back finds what its look-up found, but only in that call: afterwards others' look-ups let the kernel keep that entry."""
    one, two = pair
    two.key("k")
    for n in range(10):
        put(two / "k/full.npy", 3 * n)
        assert value(one / "k/full.npy") == 3 * n
        put(two / "k/full.npy", 3 * n + 1)
        os.getxattr(one / "k/full.npy", "user.ptio.revision")
        other = threading.Thread(target=os.stat, args=(one / "k/full.npy",))
        other.start()
        other.join()
        if n % 2:
            (two / "k/full").unlink()
            with pytest.raises(FileNotFoundError):
                value(one / "k/full.npy")
        else:
            put(two / "k/full.npy", 3 * n + 2)
            assert value(one / "k/full.npy") == 3 * n + 2


def test_a_call_that_looks_like_the_one_before_is_not_taken_for_it(pair):
    """One thread opens one path again and again, and is sent back for the directories that move: each time for that call alone."""
    one, two = pair
    for name, n in (("a", 1), ("b", 2)):
        put(two.key(f"top/{name}/w") / "full.npy", n)
    for n in range(10):
        first, second = (1, 2) if n % 2 == 0 else (2, 1)
        assert value(one / "top/a/w/full.npy") == first and value(one / "top/b/w/full.npy") == second
        os.rename(two / "top/a", two / "top/c")
        with pytest.raises(FileNotFoundError):
            value(one / "top/a/w/full.npy")
        os.rename(two / "top/b", two / "top/a")
        os.rename(two / "top/c", two / "top/b")


def test_an_open_directory_that_another_mount_removes_is_empty(pair):
    one, two = pair
    two.key("gone/k")
    fd = os.open(one / "gone/k", os.O_RDONLY)
    try:
        (two / "gone/k").rmdir()
        soon(lambda: not (one / "gone/k").exists())
        assert os.path.isdir(fd)        # as opendir(3) asks
        assert os.listdir(fd) == []
    finally:
        os.close(fd)


def test_a_call_that_was_sent_back_may_meet_another_move_and_does_not_fail(pair):
    """The kernel begins a call anew once only; readers have threads, whose calls are not to be taken for others."""
    one, two = pair
    two.key("top/a0/k")
    put(two / "top/a0/k/full.npy", 7)
    stop, failed = threading.Event(), []

    def read():
        n = 0
        while not stop.is_set():
            try:
                assert value(one / f"top/a{n % 2}/k/full.npy") == 7
                assert os.listdir(one / f"top/a{n % 2}/k") == ["full"]
            except FileNotFoundError:
                pass
            except Exception as e:      # noqa: BLE001
                failed.append(repr(e))
            n += 1

    readers = [threading.Thread(target=read) for _ in range(3)]
    for r in readers:
        r.start()
    try:
        for n in range(400):
            os.rename(two / f"top/a{n % 2}", two / f"top/a{(n + 1) % 2}")
            assert value(one / f"top/a{(n + 1) % 2}/k/full.npy") == 7
    finally:
        stop.set()
        for r in readers:
            r.join()
    assert not failed
