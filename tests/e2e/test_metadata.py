"""Names and attributes: what has not changed costs the index nothing, and what has changed is seen at once."""
import os

import numpy as np


def metrics(mount):
    lines = (mount / ".ptio/metrics").read_text().splitlines()
    return {n: int(v) for n, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def queries(mount):
    return metrics(mount)["ptio_index_queries_total"]


def many(mount, count):
    x = np.arange(4, dtype=np.float32)
    for i in range(count):
        np.save(mount.key(f"many/t{i}") / "full.npy", x)


def test_looking_again_at_what_has_not_changed_asks_the_index_nothing(mnt):
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
