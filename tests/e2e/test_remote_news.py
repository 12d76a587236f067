"""What the kernel keeps of a store on another machine: views as well as directories, and it hears of others' commits, and of a daemon that died."""
import os
import signal
import time

import numpy as np
import pytest

from conftest import metrics
from daemons import Daemon


@pytest.fixture
def two(mounts, daemon):
    options = f"secret_file={daemon.secret},timeout=20,entry_timeout=3600"
    return mounts("here", daemon.uri, options), mounts("there", daemon.uri, options)


def fill(mount, count=20):
    for i in range(count):
        np.save(mount.key(f"model/layer/w{i}") / "full.npy", np.full(5, i))
    return [f"model/layer/w{i}/full.npy" for i in range(count)]


def stat_all(mount, names):
    for name in names:
        os.stat(mount / name)


def read_all(mount, names):
    for i, name in enumerate(names):
        with open(mount / name, "rb") as f:
            assert np.frombuffer(f.read()[-40:], dtype=np.int64)[0] == i


REQUESTS = ("lookup", "getattr", "open", "read")


def cost(mount, work):
    """Calls to the daemon, and requests of the kernel, without those that reading the numbers takes."""
    def numbers():
        m = metrics(mount)
        return [m["ptio_net_calls_total"]] + [m[f'ptio_fs_operations_total{{op="{op}"}}'] for op in REQUESTS]

    before, again = numbers(), numbers()
    work()
    return [c - b - (b - a) for a, b, c in zip(before, again, numbers())]


def settles_at(mount, work, wanted):
    """What others committed a moment ago makes the kernel ask for everything once more, when this mount hears of it."""
    deadline = time.monotonic() + 20
    while not wanted(cost(mount, work)):
        assert time.monotonic() < deadline, cost(mount, work)


def test_what_has_been_looked_at_is_looked_at_again_without_a_request(two):
    here, there = two
    names = fill(there)
    stat_all(here, names)
    read_all(here, names)
    settles_at(here, lambda: stat_all(here, names), lambda c: not any(c))
    # Opening takes the pin, whose answer tells that nothing has changed; unpinning nobody waits for. The bytes are the kernel's, too.
    settles_at(here, lambda: read_all(here, names), lambda c: c[0] <= 2 * len(names) and c[1] == c[2] == c[4] == 0)


def test_commits_of_this_mount_make_nothing_else_be_asked_for(two):
    here, _ = two
    names = fill(here)
    stat_all(here, names)
    settles_at(here, lambda: stat_all(here, names), lambda c: not any(c))
    for n in range(10):
        np.save(here.key("aside") / "full.npy", np.full(5, n))
    # Until it has heard of these, and of nothing for a while.
    heard = metrics(here)["ptio_net_watches_total"]
    while metrics(here)["ptio_net_watches_total"] < heard + 2:
        assert cost(here, lambda: stat_all(here, names))[1:] == [0] * len(REQUESTS)


def test_stat_follows_what_another_mount_commits(two):
    here, there = two
    name = fill(there, 1)[0]
    for n in range(6, 40):
        before = os.stat(here / name)
        np.save(there / name, np.full(n, 1))
        wanted = os.stat(there / name).st_size
        deadline = time.monotonic() + 20
        while os.stat(here / name).st_size != wanted:
            assert time.monotonic() < deadline, n
        assert before.st_size != wanted


def test_opens_follow_at_once_however_much_the_kernel_keeps(two):
    here, there = two
    name = fill(there, 1)[0]
    for n in range(60):
        np.save(there / name, np.full(5, n))
        assert np.load(here / name)[0] == n
        assert np.load(here / name)[0] == n
    os.unlink(there / name)
    with pytest.raises(FileNotFoundError):
        open(here / name, "rb")


def test_what_the_kernel_keeps_ends_with_the_daemon(mounts, scratch):
    d = Daemon(scratch, scratch / "exported").start()
    options = f"secret_file={d.secret},timeout=2,entry_timeout=3600"
    here, there = mounts("here", d.uri, options), mounts("there", d.uri, options)
    name = fill(there, 1)[0]
    for how in (signal.SIGKILL, signal.SIGSTOP):
        for n in range(3):
            np.load(here / name)
        settles_at(here, lambda: os.stat(here / name), lambda c: not any(c))
        d.process.send_signal(how)
        deadline = time.monotonic() + 30
        with pytest.raises(OSError):
            while time.monotonic() < deadline:
                os.stat(here / name)
        if how == signal.SIGKILL:
            d.stop()
            d.start()
        else:
            d.process.send_signal(signal.SIGCONT)
        while True:
            try:
                np.save(there / name, np.full(9, 9))
                assert np.load(here / name)[0] == 9 and os.stat(here / name).st_size == os.stat(there / name).st_size
                break
            except OSError:
                assert time.monotonic() < deadline
    for mount in (here, there):
        mount.stop()
    d.stop()


def test_a_commit_while_the_daemon_was_away_from_one_mount_is_seen(mounts, scratch):
    """Made by way of the folder itself, while no daemon runs: nobody tells it but the next daemon's answers."""
    d = Daemon(scratch, scratch / "exported").start()
    here = mounts("here", d.uri, f"secret_file={d.secret},timeout=20,entry_timeout=3600")
    name = fill(here, 1)[0]
    before = os.stat(here / name).st_size
    d.stop(signal.SIGKILL)
    local = mounts("local", scratch / "exported")
    np.save(local / name, np.full(77, 7))
    local.stop()
    d.start()
    deadline = time.monotonic() + 30
    while os.stat(here / name).st_size == before:
        assert time.monotonic() < deadline
    assert np.load(here / name).size == 77
    here.stop()
    d.stop()
