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
