"""Shapes, dtypes, sizes and names at the edges of what is allowed."""
import os
import subprocess

import numpy as np
import pytest
import torch

import clients
from clients import cut, random_array, shard_range

ALL = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
       "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"]
SHAPES = [(), (1,), (7,), (0,), (0, 3), (3, 0, 2), (5, 3), (1, 1, 1, 1), (2, 3, 4, 5, 6), (2,) * 10]


def can(how, dtype):
    if dtype == "float4_e2m1fn_x2" and how in ("get_slice", "np_load", "np_mmap", "obj"):
        return False            # safetensors' own get_slice does not know that torch counts pairs
    if how in ("np_load", "np_mmap"):
        return dtype in clients.NUMPY or dtype in clients.NPY_VOID
    if how in ("load_file", "get_slice"):
        return dtype != "complex128"
    if how == "obj":
        return dtype in clients.OBJ_CODES
    return True


def same(got, want):
    return (got.dtype, tuple(got.shape), got.data) == (want.dtype, tuple(want.shape), want.data)


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_and_shape_comes_back_by_every_client(mnt, dtype):
    for index, shape in enumerate(SHAPES):
        if dtype == "float4_e2m1fn_x2" and shape == ():
            continue            # two values in no dimension: neither safetensors nor ptio has a shape for it
        x = random_array(dtype, shape, index)
        key = mnt.key(f"{dtype}/{index}")
        clients.write_torch(x, key / "full", None)
        for how, read in clients.READERS.items():
            if not can(how, dtype) or (how == "obj" and len(shape) > 8):
                continue
            assert same(read(key / "full", x), x), (dtype, shape, how)


@pytest.mark.parametrize("dtype", [d for d in ALL if d != "complex128"])
def test_every_dtype_is_split_and_joined(mnt, dtype):
    x = random_array(dtype, (6, 5), 9)
    key = mnt.key(dtype)
    for rank in range(4):
        clients.write_safetensors(x, key / f"writer={rank}of4,dim=0" / "full", None)
    assert same(clients.read_torch(key / "full", x), x)
    for rank in range(3):
        lo, hi = shard_range(6, rank, 3)
        assert same(clients.read_torch(key / f"tp={rank}of3,dim=0" / "shard", x), cut(x, 0, lo, hi))


def test_a_format_that_cannot_hold_a_dtype_says_so(mnt):
    key = mnt.key("w")
    clients.write_torch(random_array("complex128", (3,)), key / "full", None)
    with pytest.raises(OSError):
        open(key / "full.safetensors", "rb").read()
    clients.write_torch(random_array("float4_e2m1fn_x2", (3, 5)), key / "full", None)
    with pytest.raises(OSError):
        open(key / "full.npy", "rb").read()


def test_an_fp4_split_that_would_cut_a_byte_is_refused(mnt):
    key = mnt.key("w")
    clients.write_torch(random_array("float4_e2m1fn_x2", (2, 3)), key / "full", None)     # six logical columns
    with pytest.raises(OSError):
        open(key / "tp=0of4,dim=1" / "shard.pt", "rb").read()
    assert same(clients.read_torch(key / "tp=1of3,dim=1" / "shard", None),
                cut(random_array("float4_e2m1fn_x2", (2, 3)), 1, 1, 2))


def test_more_ranks_than_rows_gives_empty_shards(mnt):
    x = random_array("float32", (3, 4))
    key = mnt.key("w")
    clients.write_torch(x, key / "full", None)
    for split in ("balanced", "chunk"):
        parts = [clients.read_torch(key / f"tp={r}of8,dim=0,split={split}" / "shard", None) for r in range(8)]
        assert b"".join(p.data for p in parts) == x.data
        assert [p.shape[0] for p in parts] == [hi - lo for lo, hi in (shard_range(3, r, 8, split) for r in range(8))]
    for r in range(8):
        clients.write_torch(x, mnt.key("v") / f"writer={r}of8,dim=0" / "full", None)
    assert clients.read_torch(mnt / "v" / "full", x) == x


def test_torch_chunk_and_balanced_cut_37_by_4_as_documented(mnt):
    x = random_array("float32", (37, 2))
    key = mnt.key("w")
    clients.write_torch(x, key / "full", None)
    chunk = [clients.read_torch(key / f"tp={r}of4,dim=0,split=chunk" / "shard", None).shape[0] for r in range(4)]
    assert chunk == [len(c) for c in torch.chunk(torch.zeros(37), 4)] == [10, 10, 10, 7]
    assert [clients.read_torch(key / f"tp={r}of4,dim=0" / "shard", None).shape[0] for r in range(4)] == [9, 9, 9, 10]


NAMES = ["plain", "a.b.c", "with space", "ünïcødé-张量", "100%", "%41", "full-ish", "weights.npy.bak", "-dash", "a:b", "q'uo\"te", "tab\tname"]


@pytest.mark.parametrize("name", NAMES)
def test_keys_of_all_sorts_are_files_like_any_other(mnt, name):
    x = random_array("int16", (3,), len(name))
    shown = name.replace("%", "%25")
    key = mnt.key(f"models/{shown}")
    clients.write_torch(x, key / "full", None)
    assert clients.read_torch(key / "full", x) == x
    assert os.getxattr(key / "full", "user.ptio.key").decode() == f"models/{name}"
    assert shown in os.listdir(mnt / "models")


@pytest.mark.parametrize("name,shown", (("full", "%66ull"), ("tp=0of2", "%74p=0of2"), (".ptio", "%2Eptio"), ("shard.npy", "%73hard.npy"),
                                        ("writer=0of2,dim=0", "%77riter=0of2,dim=0"), (".ptio.json", "%2Eptio.json")))
def test_reserved_names_are_percent_encoded_keys(mnt, name, shown):
    x = random_array("int16", (4,), 1)
    key = mnt.key(f"deep/{shown}")
    clients.write_torch(x, key / "full", None)
    assert clients.read_torch(key / "full", x) == x
    assert os.getxattr(key / "full", "user.ptio.key").decode() == f"deep/{name}"
    assert os.listdir(mnt / "deep") == [shown]


@pytest.mark.parametrize("name", ("%66oo", "a%2", "%zz", "%2fx", "%00", "%25%66ull"))
def test_encodings_that_are_not_the_one_are_refused(mnt, name):
    with pytest.raises(OSError):
        os.mkdir(mnt / name)


def test_a_key_of_1024_bytes(mnt):
    x = random_array("uint8", (5,), 2)
    parts = ["k" * 255, "l" * 255, "m" * 255, "n" * 255]
    with pytest.raises(OSError):        # 4 * 255 + 3 + 2 = 1025: one too many
        mnt.key("/".join(parts) + "/o")
    parts[3] = "n" * 254
    key = mnt.key("/".join(parts) + "/o")
    clients.write_numpy(x, key / "full", None)
    assert clients.read_np_load(key / "full", x) == x
    with pytest.raises(OSError):
        os.mkdir(mnt / ("z" * 256))


@pytest.mark.slow
def test_more_than_4_gib_sparse(mnt, scratch):
    """5 GiB and 3 bytes, with marks on either side of 4 GiB, sliced on the way in."""
    total = (5 << 30) + 3
    source = scratch / "big.npy"
    header = np.lib.format
    with open(source, "wb") as f:
        header.write_array_header_1_0(f, {"descr": "|u1", "fortran_order": False, "shape": (total,)})
        start = f.tell()
        for at, mark in ((0, b"first"), ((4 << 30) - 2, b"seam"), (total - 4, b"last")):
            f.seek(start + at)
            f.write(mark)
    key = mnt.key("big")
    for rank in range(2):
        subprocess.run(["cp", "--sparse=always", str(source), str(key / f"writer={rank}of2,dim=0" / "full")], check=True)
    got = np.load(key / "full.npy", mmap_mode="r")
    assert got.shape == (total,)
    assert bytes(got[:6]) == b"first\0" and bytes(got[(4 << 30) - 3:(4 << 30) + 3]) == b"\0seam\0" and bytes(got[-5:]) == b"\0last"
    tensor = torch.load(key / "full.pt", mmap=True)
    assert bytes(tensor[(4 << 30) - 2:(4 << 30) + 2].numpy()) == b"seam"
    lo, hi = shard_range(total, 2, 3)
    part = np.load(key / "tp=2of3,dim=0" / "shard.npy", mmap_mode="r")
    assert part.shape == (hi - lo,) and bytes(part[-4:]) == b"last"
    with open(key / "full.bin", "rb") as f:
        f.seek((4 << 30) - 2)
        assert f.read(4) == b"seam"


def test_eight_dims_in_obj_and_sixty_four_natively(mnt):
    x = random_array("uint8", (1,) * 63 + (3,))
    key = mnt.key("w")
    clients.write_safetensors(x, key / "full", None)
    assert clients.read_torch(key / "full", x) == x
    with pytest.raises(OSError):
        open(key / "full.obj", "rb").read()
