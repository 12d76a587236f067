"""Two mounts of one store at once: what one closes, the other sees."""
import os

import clients
from clients import random_array

X = random_array("float32", (16, 16), 1)


def test_what_another_mount_publishes_is_seen_by_the_thread_that_has_unlinked_the_name(mounts, scratch):
    one, two = mounts("one"), mounts("two")
    key = one.key("w")
    clients.write_numpy(X, key / "full", scratch)
    os.unlink(key / "full")
    assert not (key / "full").exists()
    clients.write_numpy(X, two / "w" / "full", scratch)
    assert (key / "full").read_bytes() == (two / "w" / "full").read_bytes()


def test_what_is_published_under_other_names_is_seen_by_the_thread_that_has_unlinked_the_name(mnt, scratch):
    key = mnt.key("w")
    clients.write_numpy(X, key / "full.npy", scratch)
    os.unlink(key / "full.npy")
    assert not (key / "full.npy").exists()
    for rank in range(2):
        clients.write_numpy(X, mnt.key(f"w/writer={rank}of2,dim=0") / "full", scratch)
    assert clients.read_np_load(key / "full", X) == X


def test_an_ordinary_file_is_seen_as_another_mount_closed_it_also_while_it_is_open_here(mounts):
    one, two = mounts("one"), mounts("two")
    (one / "config.json").write_text("first")
    with open(one / "config.json") as held:
        (one / "config.json").write_text("second")
        (two / "config.json").write_text("third")
        assert (one / "config.json").read_text() == "third"
        (two / "config.json").write_text("fourth")
        assert (one / "config.json").read_text() == "fourth"
        held.seek(0)
        assert held.read() == "fourth"


def test_an_ordinary_file_that_another_mount_rewrote_with_the_old_size_and_time_is_read_anew(mounts):
    one, two = mounts("one"), mounts("two")
    (one / "f").write_text("aaaa")
    os.utime(one / "f", ns=(10**9, 10**9))
    assert (one / "f").read_text() == "aaaa"
    (two / "f").write_text("bbbb")
    os.utime(two / "f", ns=(10**9, 10**9))
    assert os.stat(one / "f").st_mtime_ns == 10**9
    assert (one / "f").read_text() == "bbbb"
