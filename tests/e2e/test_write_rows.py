"""Every row of the write table, by every client that writes, read back by others."""
import itertools
import os
import pathlib

import pytest

import clients
from clients import cut, random_array, shard_range

X = random_array("float32", (6, 10), 1)
HOWS = sorted(clients.WRITERS)


def write(how, array, path, scratch):
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    clients.WRITERS[how](array, path, scratch)


def check_full(base, want):
    for how in ("torch_weights_only", "load_file", "np_load", "bin_cp", "obj"):
        assert clients.READERS[how](base, want) == want, (base, how)


def commits(mnt):
    for line in (mnt / ".ptio" / "metrics").read_text().splitlines():
        if line.startswith("ptio_store_commits_total"):
            return int(float(line.split()[-1]))
    raise AssertionError("no ptio_store_commits_total")


@pytest.mark.parametrize("how", HOWS)
def test_full_stores_one_object(mnt, scratch, how):
    mnt.key("w")
    before = commits(mnt)
    write(how, X, mnt / "w" / "full", scratch)
    check_full(mnt / "w" / "full", X)
    assert commits(mnt) == before + 1
    assert os.listdir(mnt / "w") == ["full"]


@pytest.mark.parametrize("how,dim", itertools.product(HOWS, (0, 1)))
def test_tp_shards_make_the_tensor(mnt, scratch, how, dim):
    mnt.key("w")
    for rank in range(3):
        lo, hi = shard_range(X.shape[dim], rank, 3)
        write(how, cut(X, dim, lo, hi), mnt / "w" / f"tp={rank}of3,dim={dim}" / "shard", scratch)
    check_full(mnt / "w" / "full", X)
    for rank in range(2):
        lo, hi = shard_range(X.shape[1 - dim], rank, 2)
        want = cut(X, 1 - dim, lo, hi)
        check_full(mnt / "w" / f"tp={rank}of2,dim={1 - dim}" / "shard", want)
    assert commits(mnt) == 1


@pytest.mark.parametrize("how", HOWS)
def test_writers_of_the_full_tensor_store_their_slice_only(mnt, scratch, how):
    mnt.key("w")
    for rank in range(4):
        write(how, X, mnt / "w" / f"writer={rank}of4,dim=1" / "full", scratch)
    check_full(mnt / "w" / "full", X)
    check_full(mnt / "w" / "writer=1of4,dim=1" / "full", X)
    lo, hi = shard_range(10, 1, 4)
    check_full(mnt / "w" / "writer=1of4,dim=1" / "shard", cut(X, 1, lo, hi))
    check_full(mnt / "w" / "writer=1of4,dim=1" / "as_stored", cut(X, 1, lo, hi))


@pytest.mark.parametrize("scope", ("dp=1of2", "pp=0of4,stage=9", "ep=1of4,expert=11", "dp=0of2/ep=1of4,expert=5"))
def test_scoped_ranks_store_their_slice_of_the_full_tensor(mnt, scratch, scope):
    mnt.key("w")
    how = itertools.cycle(HOWS)
    for rank in range(2):
        path = mnt / "w" / scope / f"tp={rank}of2,dim=1" / "full"
        clients.WRITERS[next(how)](X, path, scratch)
    base = mnt / "w" / scope
    check_full(base / "full", X)
    check_full(base / "tp=0of1,dim=1" / "full", X)
    for rank in range(5):
        lo, hi = shard_range(6, rank, 5)
        check_full(base / f"tp={rank}of5,dim=0" / "shard", cut(X, 0, lo, hi))
    # the order of the components is free
    parts = scope.split("/") + ["tp=1of2,dim=1"]
    for order in itertools.permutations(parts):
        check_full(pathlib.Path(mnt / "w", *order) / "shard", cut(X, 1, 5, 10))


@pytest.mark.parametrize("view", ("full", "shard"))
def test_scope_alone_stores_any_tensor(mnt, scratch, view):
    mnt.key("w")
    clients.write_torch(X, mnt / "w" / "dp=1of2" / view, scratch)
    check_full(mnt / "w" / "dp=1of2" / "full", X)
    check_full(mnt / "w" / "dp=1" / "full", X)
    check_full(mnt / "w" / "full", X)
    assert not (mnt / "w" / "dp=0of2" / "full").exists()


def test_tp_shard_in_a_scope_is_the_callers_own(mnt, scratch):
    mnt.key("w")
    for rank in range(2):
        clients.write_numpy(cut(X, 0, 3 * rank, 3 * rank + 3), mnt / "w" / "dp=0of1" / f"tp={rank}of2,dim=0" / "shard", scratch)
    check_full(mnt / "w" / "dp=0of1" / "full", X)


def test_uneven_shards_are_joined_by_prefix_sums(mnt, scratch):
    mnt.key("w")
    cuts = [0, 1, 1, 7, 10]
    for rank in (2, 0, 3, 1):
        clients.write_safetensors(cut(X, 1, cuts[rank], cuts[rank + 1]), mnt / "w" / f"tp={rank}of4,dim=1" / "shard", scratch)
    check_full(mnt / "w" / "full", X)
    for rank in range(4):
        check_full(mnt / "w" / f"tp={rank}of4,dim=1" / "as_stored", cut(X, 1, cuts[rank], cuts[rank + 1]))


@pytest.mark.parametrize("path,array", (("as_stored", X), ("tp=0of2,dim=0/as_stored", X)))
def test_as_stored_cannot_be_written(mnt, scratch, path, array):
    mnt.key("w")
    with pytest.raises(PermissionError):
        (mnt / "w" / path).write_bytes(clients.file_bytes(array, "npy"))


@pytest.mark.parametrize("path", ("shard", "tp=0of2,dim=5/shard", "writer=0of2,dim=2/full", "tp=4of4,dim=0/shard", "TP=0of4/shard", "tp=01of4/shard",
                                  "writer=0of2/tp=0of2/full", "tp=0of2,dim=-1/shard"))
def test_nonsense_is_refused_with_a_reason(mnt, path):
    mnt.key("w")
    with pytest.raises(OSError):
        (mnt / "w" / path).write_bytes(clients.file_bytes(X, "npy"))
    assert not (mnt / "w" / "full").exists()


def test_a_bin_takes_dtype_and_shape_from_the_revision(mnt, scratch):
    mnt.key("w")
    clients.write_torch(X, mnt / "w" / "full", scratch)
    y = random_array("float32", (6, 10), 2)
    (mnt / "w" / "full.bin").write_bytes(y.data)
    check_full(mnt / "w" / "full", y)
    with pytest.raises(OSError):
        (mnt / "w" / "full.bin").write_bytes(y.data[:-4])
    check_full(mnt / "w" / "full", y)


def test_a_bin_takes_dtype_and_shape_from_xattrs(mnt):
    key = mnt.key("raw")
    os.setxattr(key, "user.ptio.dtype", b"bfloat16")
    os.setxattr(key, "user.ptio.shape", b"3,5")
    b = random_array("bfloat16", (3, 5), 3)
    (key / "full.bin").write_bytes(b.data)
    assert clients.read_load_file(key / "full", b) == b


def test_a_bin_of_unknown_type_says_what_to_set(mnt):
    mnt.key("raw")
    with pytest.raises(OSError):
        (mnt / "raw" / "full.bin").write_bytes(b"x" * 64)
    assert "user.ptio.dtype" in mnt.errors()


def test_o_excl_fails_for_what_is_there(mnt, scratch):
    mnt.key("w")
    clients.write_numpy(X, mnt / "w" / "full", scratch)
    with pytest.raises(FileExistsError):
        open(mnt / "w" / "full", "xb")


def test_an_obj_file_is_taken_at_the_path_of_its_layout(mnt, scratch):
    """Tensor objects that a real Mooncake store wrote, x = arange(24).reshape(4, 6)."""
    import numpy as np
    data = pathlib.Path(__file__).resolve().parent.parent / "data" / "mooncake"
    x = clients.from_numpy(np.arange(24, dtype="<f4").reshape(4, 6))
    places = {
        "a": {"full": "full.bin"},
        "b": {"full": "from.bin"},
        "c": {"tp=0of2,dim=0/shard": "tpd0_tp_0.bin", "tp=1of2,dim=0/shard": "tpd0_tp_1.bin"},
        "d": {"tp=0of2,dim=1/shard": "tpd1_tp_0.bin", "tp=1of2,dim=1/shard": "tpd1_tp_1.bin"},
        "e": {"dp=0of2/tp=0of2,dim=1/shard": "dptp__dp_0of2__tp_0of2_sd1.bin", "dp=0of2/tp=1of2,dim=1/shard": "dptp__dp_0of2__tp_1of2_sd1.bin"},
        "f": {"ep=1of4,expert=5/full": "ep__ep_1of4_eid5.bin"},
        "g": {"pp=1of4,stage=3/full": "pp__pp_1of4_sid3.bin"},
        "h": {"writer=0of2,dim=0/full": "wp__writer_0of2_sd0.bin", "writer=1of2,dim=0/full": "wp__writer_1of2_sd0.bin"},
    }
    for key, files in places.items():
        mnt.key(key)
        for path, name in files.items():
            (mnt / key / path).write_bytes((data / name).read_bytes())
        base = next(iter(files)) if key in "efg" else "full"
        base = base.rsplit("/", 2 if key == "e" else 1)[0] + "/full" if "/" in base else base
        assert clients.read_np_load(mnt / key / base, x) == x, key
        for path, name in files.items():
            if key in "fgh":    # full is the tensor without axes; the object as it is stored carries them
                path = path.replace("full", "as_stored")
            assert (mnt / key / (path + ".obj")).read_bytes() == (data / name).read_bytes(), (key, path)
