"""Served files against the real torch, safetensors and numpy, byte for byte where there is one right answer; and files that these write
against ptio's parsers. No mount: tests/integ/format_tool is the format layer on the command line.
"""
import io
import itertools
import subprocess
import zipfile

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

import clients
from conftest import BUILD

pytestmark = pytest.mark.once

TOOL = BUILD / "tests" / "integ" / "format_tool"
DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"]
SHAPES = [(), (1,), (0,), (0, 3), (3, 0, 2), (5,), (2, 3), (1, 1, 1, 1), (4, 1, 7), (10, 20, 3), (2,) * 10, (200, 200)]


def random_tensor(dtype, shape, seed=0):
    """Shape as torch counts it; every bit pattern but for bool."""
    return clients.to_torch(clients.random_array(dtype, shape, seed))


def payload(t):
    return clients.from_torch(t).data


def ptio_shape(t):
    shape = list(t.shape)
    if t.dtype == torch.float4_e2m1fn_x2:
        shape[-1] *= 2
    return "[" + ",".join(map(str, shape)) + "]"


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and payload(a) == payload(b)


@pytest.fixture
def serve(tmp_path):
    def run(fmt, tensors, as_dict=True, crc=False):
        """tensors: a list of (name, torch tensor)."""
        (tmp_path / "spec").write_bytes("".join("%s\t%s\t%s\x1e" % (str(t.dtype).removeprefix("torch."), ptio_shape(t), n) for n, t in tensors).encode())
        with open(tmp_path / "payloads", "wb") as f:
            for _, t in tensors:
                f.write(payload(t))
        argv = [TOOL, "serve", fmt, "dict" if as_dict else "bare", "crc" if crc else "nocrc", tmp_path / "spec", tmp_path / "payloads"]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
    return run


def parse(data, fmt="auto", hint="-", piece=4096):
    """{name: (dtype, shape text, bytes)}"""
    p = subprocess.run([TOOL, "parse", fmt, hint, str(piece)], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.returncode == 0, p.stderr.decode()
    lines = [line.split("\t") for line in p.stdout.decode().splitlines()]
    return {name: (dtype, shape, bytes.fromhex(data)) for dtype, shape, name, data in lines}


def can(dtype, shape):
    return dtype != "float4_e2m1fn_x2" or (shape and shape[-1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_served_pt_is_loaded_by_torch(serve, tmp_path, dtype):
    for shape, crc in itertools.product(SHAPES, (False, True)):
        if not can(dtype, shape):
            continue
        t = random_tensor(dtype, shape)
        data = serve("pt", [("x", t)], as_dict=False, crc=crc)
        path = tmp_path / "x.pt"
        path.write_bytes(data)
        for options in ({}, {"weights_only": True}, {"weights_only": False}, {"mmap": True}):
            assert same(torch.load(path, **options), t)
        assert same(torch.load(io.BytesIO(data)), t)
        if crc:
            assert zipfile.ZipFile(path).testzip() is None


def test_served_state_dict_is_loaded_by_torch(serve, tmp_path):
    tensors = [("%s.%d.\u00e9\U0001f600 '\"" % (d, i), random_tensor(d, s, i)) for i, (d, s) in enumerate(itertools.product(DTYPES, SHAPES)) if can(d, s)]
    path = tmp_path / "m.pt"
    path.write_bytes(serve("pt", tensors))
    for options in ({"weights_only": True}, {"mmap": True}):
        got = torch.load(path, **options)
        assert list(got) == [n for n, _ in tensors]
        assert all(same(got[n], t) for n, t in tensors)


def test_70000_served_tensors_are_loaded(serve, tmp_path):
    tensors = [("t%d" % i, torch.tensor([i], dtype=torch.int32)) for i in range(70000)]
    path = tmp_path / "m.pt"
    path.write_bytes(serve("pt", tensors))
    got = torch.load(path, mmap=True)
    assert len(got) == 70000 and all(int(got["t%d" % i]) == i for i in range(0, 70000, 997))
    path.write_bytes(serve("safetensors", tensors))
    got = safetensors.torch.load_file(path)
    assert len(got) == 70000 and all(int(got["t%d" % i]) == i for i in range(0, 70000, 997))


def test_served_safetensors_have_the_bytes_of_save_file(serve):
    dtypes = [d for d in DTYPES if d != "complex128"]
    for i, (d, s) in enumerate(itertools.product(dtypes, SHAPES)):
        if can(d, s):
            t = random_tensor(d, s, i)
            assert serve("safetensors", [("a\n\"b\\\x01\x7f\u2028", t)]) == safetensors.torch.save({"a\n\"b\\\x01\x7f\u2028": t}, {"format": "pt"})
    tensors = [("%d.%s" % (i % 7, d), random_tensor(d, s, i)) for i, (d, s) in enumerate(itertools.product(dtypes, SHAPES[:8])) if can(d, s)]
    tensors = list(dict(tensors).items())
    assert serve("safetensors", tensors) == safetensors.torch.save(dict(tensors), {"format": "pt"})


def test_served_npy_have_the_bytes_of_numpy_save(serve):
    names = [d for d in DTYPES if "float8" not in d and "float4" not in d and d != "bfloat16"]
    more = [(9,), (10,), (99999,), (1,) * 20, (1,) * 32, (0,) * 32, (123456789, 0), (0, 99)]
    for d, s in itertools.product(names, SHAPES + more):
        a = np.zeros(s, dtype=d) if np.prod(s, dtype=object) < 1 << 20 else None
        if a is None:
            continue
        f = io.BytesIO()
        np.save(f, a)
        t = torch.zeros(s, dtype=getattr(torch, d))
        assert serve("npy", [("x", t)]) == f.getvalue(), (d, s)
    for d in ("bfloat16", "float8_e4m3fn", "float8_e8m0fnu"):
        t = random_tensor(d, (3, 5))
        a = np.load(io.BytesIO(serve("npy", [("x", t)])))
        assert a.view(getattr(ml_dtypes, d)).tobytes() == payload(t) and a.shape == (3, 5)


def test_what_numpy_writes_is_parsed():
    for d, order, shape in itertools.product(["?", "i1", "<i2", ">i2", ">u8", "<f4", ">f8", ">c8", "<c16", ">c16"], "CF", [(), (0,), (7,), (3, 5), (2, 3, 4)]):
        n = int(np.prod(shape, dtype=int)) * np.dtype(d).itemsize
        raw = np.random.default_rng(1).integers(0, 2 if d == "?" else 256, n, dtype=np.uint8)
        a = np.asarray(np.frombuffer(raw.tobytes(), dtype=d).reshape(shape), order=order)
        f = io.BytesIO()
        np.save(f, a)
        for piece in (1, 7, 4096):
            _, text, data = parse(f.getvalue(), piece=piece)[""]
            assert text == "[" + ",".join(map(str, shape)) + "]"
            assert data == a.astype(a.dtype.newbyteorder("<"), order="C").tobytes()
    for d in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        a = np.arange(12, dtype=np.float32).astype(getattr(ml_dtypes, d)).reshape(3, 4)
        f = io.BytesIO()
        np.save(f, a)
        assert parse(f.getvalue(), hint=d)[""] == (d, "[3,4]", a.tobytes())


def test_what_safetensors_writes_is_parsed():
    tensors = {"%d.\u00e9 %s" % (i, d): random_tensor(d, s, i) for i, (d, s) in enumerate(itertools.product(DTYPES, SHAPES[:8]))
               if can(d, s) and d != "complex128"}
    data = safetensors.torch.save(tensors, {"format": "pt", "more": "\n\u00e9"})
    for piece in (7, 64, 1 << 20):
        got = parse(data, piece=piece)
        assert got == {n: (str(t.dtype).removeprefix("torch."), ptio_shape(t), payload(t)) for n, t in tensors.items()}


def test_what_torch_writes_is_parsed():
    tensors = {"%d.%s" % (i, d): random_tensor(d, s, i) for i, (d, s) in enumerate(itertools.product(DTYPES, SHAPES[:8])) if can(d, s)}
    base = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    tensors["t"], tensors["s"] = base.permute(2, 0, 1), base[:, ::2, 1:]
    f = io.BytesIO()
    torch.save(tensors, f)
    for piece in (7, 1 << 20):
        got = parse(f.getvalue(), piece=piece)
        assert got == {n: (str(t.dtype).removeprefix("torch."), ptio_shape(t), payload(t)) for n, t in tensors.items()}
