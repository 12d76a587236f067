"""Names and attributes: what has not changed costs the index nothing, and what has changed is seen at once."""
import ctypes
import itertools
import os
import random
import subprocess
import threading
import time

import numpy as np
import pytest
from conftest import Mount, metrics


def queries(mount):
    return metrics(mount)["ptio_index_queries_total"]


def many(mount, count):
    x = np.arange(4, dtype=np.float32)
    for i in range(count):
        np.save(mount.key(f"many/t{i}") / "full.npy", x)


def test_looking_again_at_what_has_not_changed_asks_the_index_nothing(mounts):
    mnt = mounts(options="entry_timeout=0")
    many(mnt, 50)
    for _ in range(2):
        for i in range(50):
            os.stat(mnt / f"many/t{i}/full.npy")
    before = metrics(mnt)
    for _ in range(40):
        for i in range(50):
            os.stat(mnt / f"many/t{i}/full.npy")
    after = metrics(mnt)
    assert after["ptio_index_queries_total"] - before["ptio_index_queries_total"] < 20
    assert after["ptio_index_hits_total"] > before["ptio_index_hits_total"]


def test_looking_again_asks_nothing_after_the_mount_itself_wrote_elsewhere(mnt):
    many(mnt, 50)
    for i in range(50):
        os.stat(mnt / f"many/t{i}/full.npy")
    np.save(mnt.key("other") / "full.npy", np.zeros(3))
    before = queries(mnt)
    for i in range(50):
        os.stat(mnt / f"many/t{i}/full.npy")
    assert queries(mnt) - before < 20


def asked(mount):
    """Records that were looked for, in memory or in the index."""
    m = metrics(mount)
    return m["ptio_index_queries_total"] + m["ptio_index_hits_total"]


def test_a_directory_that_was_listed_is_not_looked_up_once_more_to_find_that_it_is_still_there(mounts):
    n = 200
    mnt = mounts("one")
    many(mnt, n)
    mnt.stop()
    mnt = mounts("two")
    assert sum(e.stat().st_mode > 0 for e in os.scandir(mnt / "many")) == n
    before = asked(mnt)
    for i in range(n):
        assert os.stat(mnt / f"many/t{i}/full.npy").st_size
    # of each view the revision, and the name of its key (two records); a check of its directory would be two more
    assert asked(mnt) - before < 4 * n


def test_what_was_looked_at_is_opened_without_being_looked_up_once_more(mnt):
    n = 4500
    many(mnt, n)
    paths = [mnt / f"many/t{i}/full.npy" for i in range(n)]
    for p in paths:
        os.stat(p)
    before = asked(mnt)
    for p in paths:
        assert p.read_bytes()
    # what tells that the revision which it has pinned is still the one
    assert asked(mnt) - before < 2 * n


def test_what_another_mount_closed_is_opened_here_every_time(mounts):
    one, two = mounts("one"), mounts("two")
    one.key("w")
    for n in range(30):
        np.save(two / "w/full.npy", np.full(5, n))
        assert np.load(one / "w/full.npy")[0] == n
        assert os.stat(one / "w/full.npy").st_size == os.stat(two / "w/full.npy").st_size
        with open(two / "w/full.npy", "wb") as f:
            np.save(f, np.full((5, 7), n))
        assert np.load(one / "w/full.npy").shape == (5, 7)


def test_names_that_are_not_there_do_not_make_a_large_directory_be_read_again(mnt):
    for i in range(1500):
        os.mkdir(mnt.key("many") / f"t{i}")
    assert not (mnt / "many/absent").exists()
    before = queries(mnt)
    for i in range(100):
        os.mkdir(mnt / f"many/u{i}")            # looks whether the name is there, and then changes the directory
    # A handful a directory that is made; reading the directory is four at a time, of 512 names each.
    assert queries(mnt) - before < 100 * 16


def test_a_tensor_file_written_through_another_mount_has_its_tensors_at_once(mounts):
    one, two = mounts("one"), mounts("two")
    one.key("m")
    for n in range(5):
        assert not (one / f"m/w{n}").exists()
        np.save(two / f"m/w{n}.npy", np.full(3, n))
        assert np.load(one / f"m/w{n}/full.npy")[0] == n
        os.rename(two / f"m/w{n}.npy", two / f"m/v{n}.npy")
        assert not (one / f"m/w{n}").exists() and np.load(one / f"m/v{n}/full.npy")[0] == n
        os.unlink(two / f"m/v{n}.npy")
        assert not (one / f"m/v{n}").exists()


@pytest.mark.nosan                       # whose allocator has its own ideas
def test_all_threads_of_the_driver_share_one_heap(mnt):
    many(mnt, 100)

    def work():
        for i in range(100):
            assert (mnt / f"many/t{i}/full.npy").read_bytes()

    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    # A heap of a thread's own lies in an address range of 64 MiB, of which what it has not grown to yet cannot be touched.
    ranges = []
    with open(f"/proc/{mnt.process.pid}/maps") as maps:
        for line in maps:
            where, mode, _, _, inode = line.split()[:5]
            first, end = (int(x, 16) for x in where.split("-"))
            if mode == "---p" and inode == "0" and end % (64 << 20) == 0 and end - first > 32 << 20:
                ranges.append(line)
    assert not ranges


NAMES = 20000


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store with NAMES keys in one directory, made once."""
    path = tmp_path_factory.mktemp("large")
    mount = Mount(path / "store", path / "mnt").start()
    for i in range(NAMES):
        os.makedirs(mount / f"many/t{i}")
    assert mount.stop() == 0
    return path / "store"


class Dir:
    """A directory stream of libc, which can seek."""

    class Entry(ctypes.Structure):
        _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("reclen", ctypes.c_ushort), ("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]

    libc = ctypes.CDLL(None, use_errno=True)
    libc.opendir.restype = ctypes.c_void_p
    libc.opendir.argtypes = [ctypes.c_char_p]
    libc.readdir.restype = ctypes.POINTER(Entry)
    for name in ("readdir", "closedir", "rewinddir", "telldir"):
        getattr(libc, name).argtypes = [ctypes.c_void_p]
    libc.telldir.restype = ctypes.c_long
    libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]

    def __init__(self, path):
        self.d = self.libc.opendir(os.fsencode(path))
        assert self.d

    def read(self):
        e = self.libc.readdir(self.d)
        return e.contents.name.decode() if e else None

    def tell(self):
        return self.libc.telldir(self.d)

    def seek(self, off):
        self.libc.seekdir(self.d, off)

    def rewind(self):
        self.libc.rewinddir(self.d)

    def rest(self):
        return list(iter(self.read, None))

    def close(self):
        self.libc.closedir(self.d)


def test_a_large_directory_lists_every_name_once_while_others_change_it(mounts, large):
    one, two = mounts("one", store=large), mounts("two", store=large)
    stop = threading.Event()

    def change():
        for n in itertools.count():
            if stop.is_set():
                return
            os.mkdir(two / f"many/new{n}")
            os.rename(two / f"many/new{n}", two / f"many/a{n}")
            if n % 2:
                os.rmdir(two / f"many/a{n}")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(5):
            names = os.listdir(one / "many")
            assert len(names) == len(set(names))
            assert sum(n[0] == "t" for n in names) == NAMES
    finally:
        stop.set()
        thread.join()
    for name in os.listdir(two / "many"):
        if name[0] != "t":
            os.rmdir(two / "many" / name)


def test_a_directory_stream_can_seek_and_rewind(mounts, large):
    mnt = mounts("mnt", store=large)
    d = Dir(mnt / "many")
    at, names = [], []
    while True:
        at.append(d.tell())
        name = d.read()
        if name is None:
            break
        names.append(name)
    assert sorted(names) == sorted(os.listdir(mnt / "many") + [".", ".."]) and len(names) == NAMES + 2
    for i in random.Random(1).sample(range(NAMES), 40) + [0, 1, 2, 511, 512, 513, 514, NAMES + 1]:
        d.seek(at[i])
        assert [d.read() for _ in range(3)] == (names[i:i + 3] + [None] * 3)[:3]
    os.mkdir(mnt / "many/late")
    d.rewind()
    assert "late" in d.rest()
    os.rmdir(mnt / "many/late")
    d.rewind()
    assert d.rest() == names
    d.close()


@pytest.mark.nosan                       # its allocator keeps what is freed
def test_an_open_directory_takes_little_memory(mounts, large):
    mnt = mounts("mnt", store=large)
    os.listdir(mnt / "many")
    before = mnt.memory_peak()
    streams = [Dir(mnt / "many") for _ in range(60)]
    for d in streams:
        assert len(d.rest()) == NAMES + 2
    assert mnt.memory_peak() - before < 60 * NAMES * 8      # a name alone takes more
    for d in streams:
        d.close()


def ops(mount, *names):
    m = metrics(mount)
    return sum(m[f'ptio_fs_operations_total{{op="{n}"}}'] for n in names)


def shown(directory):
    out = {}
    for e in os.scandir(directory):
        s = e.stat(follow_symlinks=False)
        out[e.name] = (s.st_mode, s.st_ino, s.st_uid, s.st_gid, s.st_size, s.st_mtime_ns)
    return out


def test_listing_with_attributes_takes_no_look_up_an_entry(mounts, large):
    mnt, plain = mounts("mnt", store=large), mounts("plain", store=large, options="entry_timeout=0")
    (mnt / "many/file").write_text("x")
    os.symlink("t1", mnt / "many/link")
    before = ops(mnt, "lookup", "getattr")
    result = shown(mnt / "many")
    assert len(result) == NAMES + 2
    assert ops(mnt, "lookup", "getattr") - before < NAMES // 10
    assert result == shown(plain / "many")
    os.unlink(mnt / "many/file")
    os.unlink(mnt / "many/link")


def test_directories_that_are_closed_at_once_are_read_ahead_without_harm(mounts, large):
    mnt = mounts("mnt", store=large)
    names, failed = sorted(os.listdir(mnt / "many")), []

    def some():
        for i in range(60):
            with os.scandir(mnt / "many") as entries:
                for e in itertools.islice(entries, i % 3 * 300 + 1):
                    e.stat()

    def all_of_it():
        for _ in range(6):
            with os.scandir(mnt / "many") as entries:
                if sorted(e.name for e in entries if e.stat()) != names:
                    failed.append("another listing")

    threads = [threading.Thread(target=f) for f in (some, some, some, all_of_it)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed
    assert metrics(mnt)["ptio_fs_errors_total"] == 0


def test_ls_asks_for_security_attributes_once_and_not_for_each_entry(mnt):
    many(mnt, 40)
    before = metrics(mnt)['ptio_fs_operations_total{op="xattr"}']
    assert len(subprocess.run(["ls", "-l", mnt / "many"], check=True, capture_output=True).stdout.splitlines()) == 41
    assert metrics(mnt)['ptio_fs_operations_total{op="xattr"}'] - before < 5


def test_a_directory_that_another_mount_replaces_is_entered_where_it_is_now(mounts):
    one, two = mounts("one", options="entry_timeout=3600"), mounts("two")
    for name in ("a", "b"):
        os.makedirs(two / f"models/{name}/w")
        (two / f"models/{name}/note").write_text(name)
        np.save(two / f"models/{name}/w/full.npy", np.full(3, ord(name)))
    names = ["a", "b"]
    libc = ctypes.CDLL(None, use_errno=True)
    for n in range(40):
        for name, holds in zip(("a", "b"), names):
            got = (one / f"models/{name}/note").read_text()
            assert got == holds, (n, name, metrics(one)["ptio_fs_stale_directories_total"])
            assert np.load(one / f"models/{name}/w/full.npy")[0] == ord(holds)
            assert sorted(os.listdir(one / f"models/{name}")) == ["note", "w"]
        if n % 2:       # a and b change places
            rc = libc.syscall(316, -100, os.fsencode(two / "models/a"), -100, os.fsencode(two / "models/b"), 2)      # renameat2, RENAME_EXCHANGE
            assert rc == 0, os.strerror(ctypes.get_errno())
        else:
            os.rename(two / "models/a", two / "models/c")
            os.rename(two / "models/b", two / "models/a")
            os.rename(two / "models/c", two / "models/b")
        names.reverse()
    for d in ("w/full.npy", "w", "note"):
        (os.rmdir if d == "w" else os.unlink)(two / f"models/b/{d}")
    os.rmdir(two / "models/b")
    for path in ("note", "w/full.npy"):
        with pytest.raises(FileNotFoundError):
            open(one / f"models/b/{path}")
    for call in (os.listdir, lambda p: os.mkdir(p / "x"), lambda p: open(p / "x", "w"), lambda p: os.unlink(p / "note"), lambda p: os.symlink("x", p / "y"),
                 lambda p: os.rmdir(p / "w"), lambda p: os.rename(p / "note", p / "z"), lambda p: os.rename(one / "models/a/note", p / "z")):
        with pytest.raises(FileNotFoundError):
            call(one / "models/b")
    assert metrics(one)["ptio_fs_stale_directories_total"] > 0


def test_attributes_are_changed_of_the_directory_that_is_there_now(mounts):
    one, two = mounts("one", options="entry_timeout=3600"), mounts("two", options="entry_timeout=0")

    def state(p):
        s = os.stat(p)
        return s.st_mode & 0o777, s.st_mtime_ns, {n: os.getxattr(p, n) for n in os.listxattr(p) if n.startswith("user.")}

    changes = (lambda p: os.chmod(p, 0o700), lambda p: os.utime(p, ns=(5, 5)), lambda p: os.setxattr(p, "user.ptio.dtype", b"int8"),
               lambda p: os.setxattr(p, "user.more", b"y"), lambda p: os.removexattr(p, "user.one"))
    for n, change in enumerate(changes):
        a, b = f"d{n}/a", f"d{n}/b"
        os.makedirs(two / a)
        os.setxattr(two / a, "user.one", b"old")
        os.stat(one / a)
        os.rename(two / a, two / b)
        os.mkdir(two / a)
        os.setxattr(two / a, "user.one", b"new")
        there, moved = state(two / a), state(two / b)
        change(one / a)
        after = state(two / a)
        assert state(two / b) == moved and after != there, n
        # And what is there no more is not changed.
        os.stat(one / a)
        os.rename(two / a, two / f"d{n}/c")
        with pytest.raises(FileNotFoundError):
            change(one / a)
        assert state(two / f"d{n}/c") == after, n
    os.makedirs(two / "x/a")
    os.setxattr(two / "x/a", "user.one", b"old")
    os.stat(one / "x/a")
    os.rename(two / "x/a", two / "x/b")
    os.mkdir(two / "x/a")
    os.setxattr(two / "x/a", "user.two", b"new")
    assert os.getxattr(one / "x/a", "user.two") == b"new"
    assert "user.one" not in os.listxattr(one / "x/a")


def test_attributes_of_an_open_directory_that_another_mount_moved_are_changed(mounts):
    one, two = mounts("one", options="entry_timeout=3600"), mounts("two", options="entry_timeout=0")
    calls = (lambda fd: os.fchmod(fd, 0o710), lambda fd: os.utime(fd, ns=(7, 7)), lambda fd: os.setxattr(fd, "user.x", b"1"),
             lambda fd: os.getxattr(fd, "user.x"), lambda fd: os.fchown(fd, os.getuid(), os.getgid()), lambda fd: os.removexattr(fd, "user.x"))
    os.mkdir(one / "k0")
    fd = os.open(one / "k0", os.O_RDONLY)
    for n, call in enumerate(calls):
        os.stat(one / f"k{n}")
        os.rename(two / f"k{n}", two / f"k{n + 1}")
        os.mkdir(two / f"k{n}")
        call(fd)
    os.close(fd)
    last = os.stat(two / f"k{len(calls)}")
    assert last.st_mode & 0o777 == 0o710 and last.st_mtime_ns == 7


def test_a_working_directory_that_another_mount_moved_goes_on_working(mounts):
    one, two = mounts("one", options="entry_timeout=3600"), mounts("two")
    one.key("k/below")
    (one / "k/below/f").write_text("1")
    fd = os.open(one / "k/below", os.O_RDONLY)
    for n in range(6):
        os.rename(two / ("k" if n % 2 == 0 else "moved"), two / ("moved" if n % 2 == 0 else "k"))
        with os.fdopen(os.open("f", os.O_RDONLY, dir_fd=fd)) as f:
            assert f.read() == "1"
        os.mkdir(f"d{n}", dir_fd=fd)
        assert f"d{n}" in os.listdir(fd)
        os.rename(f"d{n}", f"e{n}", src_dir_fd=fd, dst_dir_fd=fd)
        os.rmdir(f"e{n}", dir_fd=fd)
        with os.fdopen(os.open("g", os.O_RDWR | os.O_CREAT, dir_fd=fd), "w") as f:
            f.write("2")
        os.unlink("g", dir_fd=fd)
    os.close(fd)


def works_in(here):
    """What programs do with names below a directory that they work in (None) or have open."""
    at = {} if here is None else {"dir_fd": here}
    os.stat("s/f", **at)
    os.close(os.open("s", os.O_RDONLY, **at))
    with os.fdopen(os.open("s/f", os.O_RDONLY, **at)) as f:
        assert f.read() == "f"
    os.close(os.open("s/u/n", os.O_WRONLY | os.O_CREAT, **at))
    os.mkdir("s/d", **at)
    os.mkdir("d", **at)
    os.symlink("x", "s/l", **at)
    os.symlink("x", "l", **at)
    with pytest.raises(FileExistsError):
        os.mkdir("s/d", **at)
    os.close(os.open("n", os.O_WRONLY | os.O_CREAT, **at))
    for name in ("s/u/n", "s/l", "l", "n"):
        os.unlink(name, **at)
    for name in ("s/d", "d"):
        os.rmdir(name, **at)
    walk = [d for d, *_ in (os.walk(".", onerror=lambda e: pytest.fail(str(e))) if here is None else os.fwalk(".", dir_fd=here, onerror=lambda e: pytest.fail(str(e))))]
    assert walk == [".", "./s", "./s/u"]


@pytest.mark.parametrize("timeout", ["3600", "0.05"])
@pytest.mark.parametrize("how", ["cwd", "fd"])
def test_below_a_directory_whose_parent_another_mount_moved_all_goes_on_working(mounts, how, timeout):
    one, two = mounts("one", options=f"entry_timeout={timeout}"), mounts("two")
    os.makedirs(two / "k/q/s/u")
    (two / "k/q/s/f").write_text("f")
    before, here = os.open(".", os.O_RDONLY), None
    try:
        if how == "cwd":
            os.chdir(one / "k/q")
        else:
            here = os.open(one / "k/q", os.O_RDONLY)
        works_in(here)
        for n in range(4):
            os.rename(two / ("k" if n % 2 == 0 else "moved"), two / ("moved" if n % 2 == 0 else "k"))
            works_in(here)
            # and the same thread finds nothing under the old name
            with pytest.raises(FileNotFoundError):
                os.stat(one / ("k" if n % 2 == 0 else "moved") / "q/s/f")
            works_in(here)
        for command in ("find .", "ls -R .", "cp -r s t", "rm -r t"):
            os.rename(two / "k", two / "moved")
            got = subprocess.run(command.split(), capture_output=True, text=True, preexec_fn=None if here is None else lambda: os.fchdir(here))
            assert not got.stderr and got.returncode == 0, command
            os.rename(two / "moved", two / "k")
    finally:
        os.fchdir(before)
        os.close(before)
        if here is not None:
            os.close(here)


def test_a_tensor_file_is_loaded_by_a_relative_path_after_the_directory_was_published(mounts):
    torch = pytest.importorskip("torch")
    one, two = mounts("one"), mounts("two")
    os.makedirs(two / "run/step.tmp/rank0")
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(one / "run/step.tmp")
        torch.save(torch.zeros(3), "rank0/x.pt")
        os.rename(two / "run/step.tmp", two / "run/step")
        assert torch.equal(torch.load("rank0/x.pt"), torch.zeros(3))
        torch.save(torch.ones(2), "rank0/y.pt")
        assert torch.equal(torch.load("rank0/y.pt"), torch.ones(2))
    finally:
        os.fchdir(before)
        os.close(before)


def test_what_this_mount_changes_in_a_directory_shows_at_once(mounts):
    mnt = mounts("mnt", options="entry_timeout=3600")
    key = mnt.key("m/w")
    last = 0
    for n in range(20):
        np.save(key / "full.npy", np.full(3, n))
        now = os.stat(key).st_mtime_ns
        assert now > last
        last = now
        parent = os.stat(mnt / "m").st_mtime_ns
        os.mkdir(mnt / f"m/x{n}")
        assert os.stat(mnt / "m").st_mtime_ns > parent
        os.chmod(mnt / f"m/x{n}", 0o700)
        assert os.stat(mnt / f"m/x{n}").st_mode & 0o777 == 0o700
        os.rename(mnt / f"m/x{n}", mnt / f"m/y{n}")
        assert not (mnt / f"m/x{n}").exists() and (mnt / f"m/y{n}").is_dir()
        os.rmdir(mnt / f"m/y{n}")
        assert not (mnt / f"m/y{n}").exists()


def test_what_another_mount_changes_of_a_directory_itself_shows_within_the_timeout(mounts):
    one, two = mounts("one", options="entry_timeout=0.2"), mounts("two")
    one.key("k")
    os.stat(one / "k")
    os.chmod(two / "k", 0o711)
    deadline = time.monotonic() + 60
    while os.stat(one / "k").st_mode & 0o777 != 0o711:
        assert time.monotonic() < deadline
    os.rmdir(two / "k")
    while (one / "k").exists():
        assert time.monotonic() < deadline
