"""The odd files of the field: kept byte for byte whatever they are; those that are no tensor file are ordinary ones, and are refused with a reason where a tensor is wanted."""
import filecmp
import json
import os
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch

X = torch.arange(12.0).reshape(3, 4)


def st(header, data):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(header).to_bytes(8, "little") + header + data


def info(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def legacy(path):
    torch.save({"w": X}, path, _use_new_zipfile_serialization=False)


def npz(path):
    np.savez(path, a=X.numpy())


def foreign(path):
    torch.save({"w": X, "numpy": np.arange(3)}, path)


def script(path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))


def big_endian(path):
    np.save(path, X.numpy().astype(">f4"))


ORDINARY = {
    "metadata_tensor.safetensors": st({"__metadata__": info("U8", [4], 0, 4)}, bytes(4)),
    "metadata_of_numbers.safetensors": st({"__metadata__": {"n": 1}, "a": info("U8", [4], 0, 4)}, bytes(4)),
    "overlap.safetensors": st({"a": info("U8", [4], 0, 4), "b": info("U8", [4], 2, 6)}, bytes(6)),
    "shared.safetensors": st({"a": info("U8", [4], 0, 4), "b": info("U8", [4], 0, 4)}, bytes(4)),
    "hole.safetensors": st({"a": info("U8", [4], 0, 4), "b": info("U8", [4], 8, 12)}, bytes(12)),
    "hole_first.safetensors": st({"a": info("U8", [4], 8, 12)}, bytes(16)),
    "trailing.safetensors": st({"a": info("U8", [4], 0, 4)}, bytes(5)),
    "missing.safetensors": st({"a": info("U8", [4], 0, 4)}, bytes(3)),
    "alias_without_data.safetensors": st({"a": info("U8", [4], 0, 4), "tied": info("U8", [4], 4, 8)}, bytes(4)),
    "duplicate.safetensors": st(b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', bytes(4)),
    "wrong_size.safetensors": st({"a": info("F32", [4], 0, 4)}, bytes(4)),
    "overflow.safetensors": st({"a": info("F32", [2 ** 62, 8, 0], 0, 0)}, b""),
    "negative.safetensors": st({"a": info("U8", [-4], 0, 4)}, bytes(4)),
    "float_shape.safetensors": st({"a": info("U8", [4.0], 0, 4)}, bytes(4)),
    "unknown_dtype.safetensors": st({"a": info("Q4_K", [4], 0, 4)}, bytes(4)),
    "f6.safetensors": st({"a": info("F6_E2M3", [4], 0, 3)}, bytes(3)),
    "not_json.safetensors": st(b'{"a": nonsense}', bytes(4)),
    "only_metadata.safetensors": st({"__metadata__": {"format": "pt"}}, b""),
    "no_tensors.safetensors": st({}, b""),
    "claims_126_MB.safetensors": (126 << 20).to_bytes(8, "little") + b'{"a"' + bytes(1000),
    "claims_everything.safetensors": (2 ** 64 - 1).to_bytes(8, "little") + b'{"a"' + bytes(100),
    "cut_header.safetensors": st({"a": info("U8", [4], 0, 4)}, bytes(4))[:20],
    "gguf.gguf": b"GGUF" + (3).to_bytes(4, "little") + bytes(300),
    "legacy.pt": legacy, "archive.npz": npz, "foreign.pt": foreign, "script.pt": script, "big_endian.npy": big_endian,
}
# Names that are no tensors of a file, or things that may stand in a header without harm.
CONTAINERS = {
    "empty_metadata": st({"__metadata__": {}, "a": info("U8", [4], 0, 4)}, bytes(range(4))),
    "tied_in_metadata": st({"__metadata__": {"lm_head.weight": "a", "format": "pt"}, "a": info("U8", [4], 0, 4)}, bytes(range(4))),
    "odd_before_aligned": st({"b": info("U8", [3], 0, 3), "a": info("U8", [4], 3, 7)}, bytes(3) + bytes(range(4))),
    "any_order_and_spaces": st(b'   {"b" : {"data_offsets":[4,5],"shape":[],"dtype":"U8"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}   ', bytes(range(5))),
    "empty_tensors": st({"a": info("U8", [4], 0, 4), "none": info("F64", [0, 7], 4, 4)}, bytes(range(4))),
    "new_dtypes": st({"a": info("U8", [4], 0, 4), "e8": info("F8_E8M0", [2], 4, 6), "f4": info("F4", [4], 6, 8), "c": info("C64", [1], 8, 16)}, bytes(range(16))),
}


def make(name, path):
    what = ORDINARY[name]
    what(path) if callable(what) else path.write_bytes(what)


@pytest.mark.parametrize("name", ORDINARY)
def test_what_is_no_tensor_file_is_an_ordinary_one(mnt, scratch, name):
    make(name, scratch / name)
    shutil.copy(scratch / name, mnt.key("d") / name)
    assert filecmp.cmp(scratch / name, mnt / "d" / name, shallow=False)
    assert not json.loads((mnt / "d" / ".ptio.json").read_text()).get("files")
    assert not (mnt / "d" / "a").exists() and not (mnt / "d" / "w").exists() and os.listdir(mnt / "d") == [name]
    assert filecmp.cmp(scratch / name, mnt / "d" / "tp=0of2" / name, shallow=False)
    with open(mnt / "d" / name, "ab") as f:
        f.write(b"more")
    assert (mnt / "d" / name).read_bytes() == (scratch / name).read_bytes() + b"more"


@pytest.mark.parametrize("name", ("w.safetensors", "w.npy", "w.pt"))
def test_a_file_that_was_whole_and_goes_on_keeps_every_byte(mnt, scratch, name):
    """All of it is stored when its last byte has come; more, or the same places again, make it an ordinary file, which is looked at when it is closed."""
    tensor = torch.arange(300_000, dtype=torch.int32)
    if name == "w.safetensors":
        safetensors.torch.save_file({"a": tensor}, str(scratch / name))
    elif name == "w.npy":
        np.save(scratch / name, tensor.numpy())
    else:
        torch.save({"a": tensor}, scratch / name)
    want = bytearray((scratch / name).read_bytes())
    whole, path = len(want), mnt / name
    for then in ("append", "patch", "shorten", "lengthen"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        now = bytearray(want)
        assert os.write(fd, now[:-1]) == whole - 1 and os.write(fd, now[-1:]) == 1
        if then == "append":
            now += b"!?"
            assert os.write(fd, b"!") == 1 and os.write(fd, b"?") == 1
        elif then == "patch":
            now[whole // 2] ^= 255
            assert os.pwrite(fd, now[whole // 2:whole // 2 + 1], whole // 2) == 1
        elif then == "shorten":
            del now[-1:]
            os.ftruncate(fd, whole - 1)
        else:
            now += bytes(5)
            os.ftruncate(fd, whole + 5)
        assert os.pread(fd, len(now) + 1, 0) == now, then
        os.close(fd)
        assert path.read_bytes() == now, then


@pytest.mark.parametrize("name", [n for n in ORDINARY if n != "big_endian.npy"])
def test_where_a_tensor_is_wanted_it_is_refused_with_a_reason(mnt, scratch, name):
    make(name, scratch / name)
    key = mnt.key("k")
    torch.save(X, key / "full")
    with pytest.raises(OSError):
        shutil.copyfile(scratch / name, key / "full")
    assert "/k/full" in mnt.errors() and torch.equal(torch.load(key / "full"), X)
    shutil.copy(scratch / name, mnt / "tmp")
    with pytest.raises(OSError):
        os.replace(mnt / "tmp", key / "full")
    assert torch.equal(torch.load(key / "full"), X) and filecmp.cmp(scratch / name, mnt / "tmp", shallow=False)


def test_a_view_brings_bytes_into_order(mnt, scratch):
    make("big_endian.npy", scratch / "big_endian.npy")
    shutil.copyfile(scratch / "big_endian.npy", mnt.key("k") / "full")
    assert torch.equal(torch.load(mnt / "k" / "full"), X)


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_is_odd_but_right_is_a_tensor_file(mnt, name):
    (mnt.key("d") / "m.safetensors").write_bytes(CONTAINERS[name])
    assert (mnt / "d" / "m.safetensors").read_bytes() == CONTAINERS[name]
    assert torch.load(mnt / "d" / "a" / "full").tolist() == list(range(4))
    assert json.loads((mnt / "d" / ".ptio.json").read_text())["files"][0]["format"] == "safetensors"
    assert not (mnt / "d" / "lm_head.weight").exists()


@pytest.mark.slow
@pytest.mark.nosan
def test_a_header_of_126_MB(mnt, scratch):
    header = json.dumps({"a": info("U8", [4], 0, 4)}).encode()
    (scratch / "huge").write_bytes(st(header + b" " * ((126 << 20) - len(header)), bytes(4)))
    shutil.copy(scratch / "huge", mnt.key("d") / "huge.safetensors")
    assert filecmp.cmp(scratch / "huge", mnt / "d" / "huge.safetensors", shallow=False)
    assert not (mnt / "d" / "a").exists()


def test_eight_parts_of_one_checkpoint(mnt, scratch):
    """consolidated.00.pth to .07: the same names with different values, each file as it was."""
    for i in range(8):
        torch.save({"wq": X + i, "norm": X[0].clone()}, scratch / f"consolidated.{i:02}.pth")
        shutil.copy(scratch / f"consolidated.{i:02}.pth", mnt.key("m"))
    (mnt / "m" / "params.json").write_text("{}")
    for i in range(8):
        assert filecmp.cmp(scratch / f"consolidated.{i:02}.pth", mnt / "m" / f"consolidated.{i:02}.pth", shallow=False)
        assert torch.equal(torch.load(mnt / "m" / f"consolidated.{i:02}.pth")["wq"], X + i)
    assert not (mnt / "m" / "wq").exists()
    told = json.loads((mnt / "m" / ".ptio.json").read_text())["tensors"]
    assert len(told) == 16 and all("withheld" in t for t in told)


def test_nothing_is_found_twice_by_those_who_glob(mnt, scratch):
    """As serving engines do: every *.safetensors (else *.bin, *.pt) of the directory, less what an index does not name."""
    d = mnt.key("m")
    safetensors.torch.save_file({"a": X, "b": X + 1}, d / "model-00001-of-00002.safetensors")
    safetensors.torch.save_file({"c": X + 2}, d / "model-00002-of-00002.safetensors")
    torch.save(X + 3, d / "a" / "full")
    for directory in (d, d / "tp=0of2"):
        for pattern in ("*.safetensors", "**/*.safetensors"):
            names = [n for f in sorted(directory.glob(pattern)) for n in safetensors.torch.load_file(f)]
            assert names == ["a", "b", "c"], (directory, pattern)
        assert not list(directory.glob("*.bin")) and not list(directory.glob("*.pt"))
