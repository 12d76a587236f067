"""What is done to a store's files under a mount: nothing is said to be stored that is not, and why is told."""
import errno
import shutil

import numpy as np
import pytest

OLD = np.arange(3 << 18, dtype=np.int32).reshape(1024, -1)


def refused(fn):
    with pytest.raises(OSError) as caught:
        fn()
    assert caught.value.errno == errno.EIO


@pytest.fixture
def stored(mounts):
    mount = mounts()
    np.save(mount.key("k") / "full.npy", OLD)
    (mount / "plain").write_bytes(b"plain")
    return mount


@pytest.mark.parametrize("name", ["index.db", "index.db-wal"])
def test_what_an_index_without_a_name_would_take_is_refused(stored, scratch, name):
    """Until it was: close() returned 0, and all of it was gone with the mount."""
    (scratch / "store" / name).rename(scratch / "away")
    refused(lambda: np.save(stored / "k" / "full.npy", OLD + 1))
    refused(lambda: (stored / "new").mkdir())
    refused(lambda: (stored / "plain").unlink())
    refused(lambda: (stored / "other").write_bytes(b"other"))
    assert "removed, moved or replaced" in stored.errors()
    assert np.array_equal(np.load(stored / "k" / "full.npy"), OLD)
    (scratch / "away").rename(scratch / "store" / name)
    np.save(stored / "k" / "full.npy", OLD + 2)
    stored.stop()
    stored.start()
    assert np.array_equal(np.load(stored / "k" / "full.npy"), OLD + 2)


@pytest.mark.parametrize("name", ["objects", "staging"])
def test_a_folder_of_the_store_that_is_gone_is_no_missing_directory_of_the_writer(stored, scratch, name):
    """ENOENT would send him to look for a directory of his own."""
    shutil.rmtree(scratch / "store" / name)
    refused(lambda: np.save(stored / "k" / "full.npy", OLD + 1))
    assert "objects/ or staging/" in stored.errors()


def test_a_mount_of_a_store_that_was_moved_goes_on_with_that_and_no_other(stored, mounts, scratch):
    (scratch / "store").rename(scratch / "moved")
    other = mounts(name="other", store=scratch / "store")
    np.save(other.key("k") / "full.npy", OLD + 7)
    np.save(stored / "k" / "full.npy", OLD + 1)
    assert np.array_equal(np.load(stored / "k" / "full.npy"), OLD + 1)
    assert np.array_equal(np.load(other / "k" / "full.npy"), OLD + 7)
    stored.stop()
    stored.store = str(scratch / "moved")
    stored.start()
    assert np.array_equal(np.load(stored / "k" / "full.npy"), OLD + 1)
