"""Names and attributes of a store on another machine: what has not changed is one round trip, and what another mount closed is opened at once all the same."""
import os
import shutil
import signal
import threading
import time

import numpy as np
import pytest

from conftest import metrics
from daemons import Daemon


@pytest.fixture
def two(mounts, daemon):
    options = f"secret_file={daemon.secret},timeout=20,entry_timeout=3600"
    return mounts("here", daemon.uri, options), mounts("there", daemon.uri, options)


def calls(mount):
    return metrics(mount)["ptio_net_calls_total"]


def used(mount, work):
    """Calls to the daemon, without those that reading the number takes."""
    before = calls(mount)
    own = calls(mount) - before
    before = calls(mount)
    work()
    return calls(mount) - before - own


def settles(mount, work, most):
    """What has been committed a moment ago makes the kernel ask once more, when this mount hears of it."""
    deadline = time.monotonic() + 20
    while used(mount, work) > most:
        assert time.monotonic() < deadline


def value(path):
    return int(np.load(path)[0])


def test_what_has_not_changed_is_one_round_trip_a_request_at_most(two):
    here, there = two
    for i in range(20):
        np.save(there.key(f"model/layer/w{i}") / "full.npy", np.full(5, i))
    paths = [here / f"model/layer/w{i}/full.npy" for i in range(20)]

    def stat_all():
        for path in paths:
            os.stat(path)

    def read_all():
        for i, path in enumerate(paths):
            with open(path, "rb") as f:
                assert np.frombuffer(f.read()[-40:], dtype=np.int64)[0] == i

    stat_all()
    read_all()
    settles(here, stat_all, 4)
    # Pin, bytes, unpin.
    settles(here, read_all, 3 * 20 + 4)


def test_a_listing_with_attributes_is_a_few_round_trips(two):
    here, there = two
    for i in range(300):
        (there / f"many/k{i}").mkdir(parents=True)

    def list_all():
        assert sum(e.is_dir() and e.stat().st_mode > 0 for e in os.scandir(here / "many")) == 300

    list_all()
    settles(here, list_all, 30)


def test_what_another_mount_closed_is_opened_at_once_with_everything_in_memory(two):
    here, there = two
    path = "model/layer/w/full.npy"
    here.key("model/layer/w")
    closed, over = 0, False

    def write():
        nonlocal closed, over
        for n in range(1, 150):
            np.save(there / path, np.full(5, n))
            closed = n
        over = True

    np.save(here / path, np.full(5, 0))
    os.stat(there / path)
    thread = threading.Thread(target=write)
    thread.start()
    last, seen = 0, 0
    while not over:
        least = closed
        n = value(here / path)
        assert n >= least and n >= last
        seen, last = seen + 1, n
    thread.join()
    assert seen and value(here / path) == 149


def test_mounts_that_write_in_turn_see_each_other(two):
    here, there = two
    for n in range(30):
        write, read = (here, there) if n % 2 else (there, here)
        np.save(write.key("w") / "full.npy", np.full(5, n))
        assert value(read / "w/full.npy") == n
        assert os.stat(read / "w/full.npy").st_size == os.stat(write / "w/full.npy").st_size


def test_directories_that_another_mount_moves_lead_where_they_are(two):
    here, there = two
    for name, n in (("a", 1), ("b", 2)):
        np.save(there.key(f"top/{name}/w") / "full.npy", np.full(5, n))
    for n in range(10):
        one, other = (1, 2) if n % 2 == 0 else (2, 1)
        assert value(here / "top/a/w/full.npy") == one and value(here / "top/b/w/full.npy") == other
        os.rename(there / "top/a", there / "top/c")
        with pytest.raises(FileNotFoundError):
            open(here / "top/a/w/full.npy", "rb")
        os.rename(there / "top/b", there / "top/a")
        os.rename(there / "top/c", there / "top/b")
    shutil.rmtree(there / "top/b")
    with pytest.raises(FileNotFoundError):
        open(here / "top/b/w/full.npy", "rb")
    # What only asks for attributes may be late until the mount has heard of it.
    deadline = time.monotonic() + 20
    while os.path.exists(here / "top/b/w/full.npy"):
        assert time.monotonic() < deadline
    assert sorted(os.listdir(here / "top")) == ["a"]


def test_a_new_daemon_is_not_taken_for_the_one_before(mounts, scratch):
    d = Daemon(scratch, scratch / "exported").start()
    options = f"secret_file={d.secret},timeout=20,entry_timeout=3600"
    here, there = mounts("here", d.uri, options), mounts("there", d.uri, options)
    for n in range(6):
        np.save(there.key("w") / "full.npy", np.full(5, n))
        assert value(here / "w/full.npy") == n
        d.stop(signal.SIGKILL)
        d.start()
    assert value(here / "w/full.npy") == 5
    for mount in (here, there):
        mount.stop()
    d.stop()
