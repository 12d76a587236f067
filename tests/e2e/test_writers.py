"""How real writers write: early flushes, duplicated descriptors, sparse copies, temporary names; and what is refused, with a reason."""
import json
import os
import subprocess
import threading

import numpy as np
import pytest
import torch

import clients
from clients import random_array

X = random_array("float32", (64, 32), 5)
OLD = random_array("float32", (64, 32), 6)


def metric(mnt, name):
    for line in (mnt / ".ptio" / "metrics").read_text().splitlines():
        if line.split(" ")[0].split("{")[0] == name:
            return float(line.split()[-1])
    raise AssertionError(name)


def revision(path):
    return int(os.getxattr(path, "user.ptio.revision"))


@pytest.fixture
def w(mnt, scratch):
    key = mnt.key("w")
    clients.write_numpy(OLD, key / "full", scratch)
    assert metric(mnt, "ptio_store_commits_total") == 1
    return key


def committed_once(mnt, w, want=X):
    assert clients.read_torch(w / "full", want) == want
    assert metric(mnt, "ptio_store_commits_total") == 2


def kept(mnt, w):
    assert clients.read_torch(w / "full", OLD) == OLD
    assert metric(mnt, "ptio_store_commits_total") == 1


def test_a_flush_before_the_first_write_commits_nothing(mnt, w, scratch):
    source = clients.source(X, "pt", scratch)
    subprocess.run(["sh", "-c", 'exec 3>"$2"; cat "$1" >&3', "sh", str(source), str(w / "full")], check=True)
    committed_once(mnt, w)


def test_duplicated_descriptors_commit_once(mnt, w):
    data = clients.file_bytes(X, "safetensors")
    fd = os.open(w / "full", os.O_WRONLY | os.O_TRUNC)
    for at in range(0, len(data), 1000):
        twin = os.dup(fd)
        os.write(twin, data[at:at + 1000])
        try:
            os.close(twin)
        except OSError:         # an early flush may say that the file is incomplete; the stream goes on
            pass
    os.close(fd)
    committed_once(mnt, w)


def test_a_forked_writer_commits_once(mnt, w):
    data = clients.file_bytes(X, "npy")
    with open(w / "full", "wb", buffering=0) as f:
        for at in range(0, len(data), 2048):
            subprocess.run(["true"], stdin=f)
            f.write(data[at:at + 2048])
    committed_once(mnt, w)


def test_sparse_copies_keep_their_zeros(mnt, w, scratch):
    zeros = clients.Array("float32", (1 << 20,), bytes(4 << 20))
    sparse = scratch / "sparse.npy"
    whole = clients.file_bytes(zeros, "npy")
    with open(sparse, "wb") as f:
        f.write(whole[:128])
        f.truncate(len(whole))
    for command in (["cp", "--sparse=always"], ["cp"], ["rsync", "-S", "--inplace"], ["dd", "conv=sparse", "bs=64k", "status=none"]):
        before = metric(mnt, "ptio_store_commits_total")
        argv = [*command, str(sparse), str(w / "full")] if command[0] != "dd" else [*command, f"if={sparse}", f"of={w / 'full'}"]
        subprocess.run(argv, check=True)
        assert clients.read_bin_cp(w / "full", zeros) == zeros, command
        assert metric(mnt, "ptio_store_commits_total") == before + 1, command


def test_truncate_up_before_the_data(mnt, w):
    data = clients.file_bytes(X, "safetensors")
    with open(w / "full", "wb", buffering=0) as f:
        f.truncate(len(data))
        for at in range(0, len(data), 4096):
            f.write(data[at:at + 4096])
    committed_once(mnt, w)


@pytest.mark.parametrize("fmt", ("pt", "safetensors", "npy", "obj"))
@pytest.mark.parametrize("closed", (True, False))
def test_a_temporary_name_is_renamed_onto_the_view(mnt, w, closed, fmt):
    data = clients.file_bytes(X, fmt) if fmt != "obj" else None
    if fmt == "obj":
        clients.write_numpy(X, mnt.key("other") / "full", None)
        data = (mnt / "other" / "full.obj").read_bytes()
    before = metric(mnt, "ptio_store_commits_total")
    temp = w / ".tmpAb12Cd"
    f = open(temp, "xb", buffering=0)
    f.truncate(len(data))
    f.write(data)
    if closed:
        f.close()
    os.rename(temp, w / "full")
    assert clients.read_torch(w / "full", X) == X
    if not closed:
        os.fchmod(f.fileno(), 0o640)
        os.utime(f.fileno(), (1, 1))
        f.close()
    assert not temp.exists()
    assert clients.read_torch(w / "full", X) == X
    assert metric(mnt, "ptio_store_commits_total") == before + 1


def test_cp_preserves_times_and_modes(mnt, w, scratch):
    source = clients.source(X, "pt", scratch)
    os.chmod(source, 0o640)
    os.utime(source, (1_000_000_000, 1_000_000_000))
    subprocess.run(["cp", "-p", str(source), str(w / "full")], check=True)
    st = os.stat(w / "full")
    assert (st.st_mode & 0o777, int(st.st_mtime)) == (0o640, 1_000_000_000)
    committed_once(mnt, w)


def test_threads_that_write_parts_of_one_file_at_once_give_its_bytes(mnt):
    data = np.random.default_rng(3).bytes((6 << 20) + 12345)
    path, step = mnt / "parts.bin", 700_001
    bad = []

    def write(first):
        fd = os.open(path, os.O_WRONLY)
        for off in range(first * step, len(data), 2 * step):
            if os.pwrite(fd, data[off:off + step], off) != len(data[off:off + step]):
                bad.append(off)
        os.close(fd)

    for _ in range(50):
        with open(path, "wb") as f:
            f.truncate(len(data))       # the kernel lets one at a time make a file longer
            threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]
            [t.start() for t in threads]
            [t.join() for t in threads]
        assert not bad and path.read_bytes() == data
        if not json.loads((mnt / ".ptio/status.json").read_text())["direct_io"] or metric(mnt, "ptio_fs_overlapped_writes_total") >= 1:
            break
    else:
        raise AssertionError("no two writes were under way at once")
    assert mnt.errors() == ""


def test_out_of_order_writes_are_refused_with_a_reason(mnt, w):
    fd = os.open(w / "full", os.O_WRONLY | os.O_TRUNC)
    data = clients.file_bytes(X, "npy")
    os.pwrite(fd, data[:1000], 0)
    with pytest.raises(OSError):
        os.pwrite(fd, data[:1000], 500)
        os.close(fd)
    try:
        os.close(fd)
    except OSError:
        pass
    kept(mnt, w)
    assert "front to back" in mnt.errors()


@pytest.mark.parametrize("fmt", ("pt", "safetensors", "npy"))
@pytest.mark.parametrize("lost", (1, 100, 4000))
def test_a_truncated_file_is_an_error_and_leaves_the_old_revision(mnt, w, fmt, lost):
    data = clients.file_bytes(X, fmt)[:-lost]
    with pytest.raises(OSError):
        (w / "full").write_bytes(data)
    kept(mnt, w)
    assert "/w/full" in mnt.errors()


@pytest.mark.parametrize("fmt", ("pt", "safetensors", "npy"))
def test_trailing_bytes_are_an_error(mnt, w, fmt):
    with pytest.raises(OSError):
        (w / "full").write_bytes(clients.file_bytes(X, fmt) + b"x")
    kept(mnt, w)


def test_malformed_files_are_errors_that_name_what_is_wrong(mnt, w):
    import pickle
    bad = {
        "GGUF": b"GGUF" + bytes(2000),
        "legacy": b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + bytes(2000),
        "dtype": None,
    }
    header = b'{"t":{"dtype":"Q4","shape":[2],"data_offsets":[0,1]}}'
    bad["dtype"] = len(header).to_bytes(8, "little") + header + b"\0"
    for what, data in bad.items():
        with pytest.raises(OSError):
            (w / "full").write_bytes(data)
    text = mnt.errors()
    assert "GGUF" in text and "old format" in text and "Q4" in text
    with pytest.raises(OSError):
        (w / "full").write_bytes(pickle.dumps(np.zeros(1000)))
    kept(mnt, w)


class Evil:
    def __reduce__(self):
        return (os.system, ("touch /tmp/ptio-was-executed",))


def test_a_pickle_with_foreign_globals_is_refused_and_never_run(mnt, w, scratch):
    path = scratch / "evil.pt"
    torch.save({"w": torch.zeros(500), "x": Evil()}, path)
    with pytest.raises(OSError):
        (w / "full").write_bytes(path.read_bytes())
    assert "system" in mnt.errors()
    assert not os.path.exists("/tmp/ptio-was-executed")
    kept(mnt, w)


def test_two_tensors_in_one_view_are_refused(mnt, w, scratch):
    torch.save({"a": torch.zeros(5000), "b": torch.ones(5000)}, scratch / "two.pt")
    with pytest.raises(OSError):
        (w / "full").write_bytes((scratch / "two.pt").read_bytes())
    kept(mnt, w)
    assert "2 tensors" in mnt.errors()


def test_views_of_storages_and_strides_are_stored_by_value(mnt, w, scratch):
    base = torch.arange(4000, dtype=torch.float32)
    cases = {
        "offset": base[100:200],
        "transpose": base[:3600].view(60, 60).t(),
        "step": base[::3],
        "channels_last": base[:3200].view(2, 10, 16, 10).contiguous(memory_format=torch.channels_last),
        "expanded": base[:7].expand(5, 7),
        "parameter": torch.nn.Parameter(base[:12].view(3, 4)),
        "empty": base[:0].view(0, 3),
    }
    for name, tensor in cases.items():
        torch.save(tensor, w / "full")
        want = clients.from_torch(tensor)
        assert clients.read_bin_cp(w / "full", want) == want, name
        torch.save(tensor, mnt.key("s" + name) / "writer=0of1,dim=0" / "full")
        assert clients.read_torch(mnt / ("s" + name) / "full", want) == want, name


def test_fortran_and_big_endian_arrays_are_stored_by_value(mnt, w):
    a = np.arange(60, dtype="<i4").reshape(3, 4, 5)
    for array in (np.asfortranarray(a), a.astype(">i4"), np.asfortranarray(a.astype(">i4")), a[::-1], a.T):
        with open(w / "full", "wb") as f:
            np.save(f, array)
        assert np.array_equal(np.load(w / "full.npy"), array)


def test_writers_of_one_key_at_once_leave_one_of_them_whole(mnt, w, scratch):
    arrays = [random_array("float32", (64, 32), 100 + i) for i in range(6)]

    def go(a):
        for _ in range(10):
            clients.write_torch(a, w / "full", scratch)

    threads = [threading.Thread(target=go, args=(a,)) for a in arrays]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert clients.read_torch(w / "full", X) in arrays


@pytest.mark.parametrize("shape", ((3,), (1,), (0,), (2, 2), (128,)))
def test_a_small_tensor_is_written_over_and_over(mnt, shape):
    """Its payload is shorter than what tells one format from another."""
    key = mnt.key("small")
    for step in range(3):
        x = random_array("float32", shape, step)
        for write in (clients.write_torch, clients.write_numpy, clients.write_safetensors):
            write(x, key / "full", None)
            assert clients.read_torch(key / "full", x) == x


def test_plain_bytes_are_no_tensor_unless_the_name_says_bin(mnt, w):
    with pytest.raises(OSError):
        (w / "full").write_bytes(bytes(len(OLD.data)))
    kept(mnt, w)


def test_the_file_xattr_says_why(mnt, w):
    with pytest.raises(OSError):
        (w / "full").write_bytes(b"GGUF" + bytes(600))
    assert b"GGUF" in os.getxattr(w / "full", "user.ptio.error")
