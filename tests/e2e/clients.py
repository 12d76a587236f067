"""What real clients do, one function a client: writers take an array, readers return one.

An array is (dtype name, shape, bytes), so that every dtype is compared to the bit, whatever a client makes of it.
"""
import collections
import io
import mmap
import pathlib
import shutil
import subprocess

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import safe_open

Array = collections.namedtuple("Array", "dtype shape data")

TORCH = {str(t).removeprefix("torch."): t for t in vars(torch).values() if isinstance(t, torch.dtype)}
NUMPY = {"bool": "?", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4", "uint64": "<u8",
         "int64": "<i8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8", "complex128": "<c16"}
# What npy holds of the types numpy has not.
NPY_VOID = {"bfloat16": "V2", "float8_e4m3fn": "V1", "float8_e5m2": "V1", "float8_e4m3fnuz": "V1", "float8_e5m2fnuz": "V1", "float8_e8m0fnu": "V1"}


def itemsize(dtype):
    return TORCH[dtype].itemsize


def from_numpy(a, dtype=None):
    return Array(dtype or str(a.dtype), a.shape, np.ascontiguousarray(a).tobytes())


def from_torch(t):
    t = t.detach().contiguous()
    data = t.flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b""
    return Array(str(t.dtype).removeprefix("torch."), tuple(t.shape), data)


def to_torch(a):
    flat = torch.frombuffer(bytearray(a.data), dtype=torch.uint8) if a.data else torch.empty(0, dtype=torch.uint8)
    return flat.view(TORCH[a.dtype]).reshape(a.shape)


def to_numpy(a):
    return np.frombuffer(a.data, dtype=NUMPY.get(a.dtype) or "V%d" % itemsize(a.dtype)).reshape(a.shape)


def run(*argv, cwd=None):
    """What a program that must work prints."""
    return subprocess.run([str(a) for a in argv], cwd=cwd, check=True, capture_output=True, text=True).stdout


def random_array(dtype, shape, seed=0):
    """Every bit pattern, but 0 and 1 for bool."""
    count = int(np.prod(shape, dtype=np.int64))
    data = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 256, count * itemsize(dtype), dtype=np.uint8)
    return Array(dtype, tuple(shape), data.tobytes())


def cut(a, dim, lo, hi):
    """The slice [lo, hi) of one dimension."""
    n = to_numpy(Array("uint8" if itemsize(a.dtype) == 1 else a.dtype, a.shape, a.data))
    part = n[(slice(None),) * dim + (slice(lo, hi),)]
    return Array(a.dtype, part.shape, part.tobytes())


def shard_range(extent, rank, size, split="balanced"):
    if split == "balanced":
        return extent * rank // size, extent * (rank + 1) // size
    piece = -(-extent // size)
    return min(rank * piece, extent), min((rank + 1) * piece, extent)


# ---- files in memory -------------------------------------------------------------------------------------------------

def file_bytes(a, fmt):
    """The bytes of a file of this format that a client would write."""
    out = io.BytesIO()
    if fmt == "pt":
        torch.save(to_torch(a), out)
    elif fmt == "safetensors":
        return safetensors.torch.save({"t": to_torch(a)})
    elif fmt == "npy":
        np.save(out, to_numpy(a))
    else:
        return a.data
    return out.getvalue()


# ---- writers: (array, path, a directory for sources) -----------------------------------------------------------------

def write_torch(a, path, _):
    torch.save(to_torch(a), str(path))


def write_torch_fileobj(a, path, _):
    with open(path, "wb") as f:
        torch.save(to_torch(a), f)


def write_safetensors(a, path, _):
    safetensors.torch.save_file({"anything": to_torch(a)}, str(path))


def write_numpy(a, path, _):
    with open(path, "wb") as f:         # np.save on a name without .npy would add it
        np.save(f, to_numpy(a))


def source(a, fmt, scratch):
    scratch = pathlib.Path(scratch)
    path = scratch / f"source.{fmt}"
    path.write_bytes(file_bytes(a, fmt))
    return path


def write_cp(a, path, scratch):
    subprocess.run(["cp", str(source(a, "npy", scratch)), str(path)], check=True)


def write_cat(a, path, scratch):
    subprocess.run(["sh", "-c", 'cat "$1" > "$2"', "sh", str(source(a, "safetensors", scratch)), str(path)], check=True)


def write_dd(a, path, scratch):
    subprocess.run(["dd", "status=none", "bs=4k", f"if={source(a, 'pt', scratch)}", f"of={path}"], check=True)


def write_rename(a, path, scratch):
    """A temporary name in the same directory, then rename."""
    temp = pathlib.Path(path).parent / ".incoming.Xy12"
    shutil.copyfile(source(a, "pt", scratch), temp)
    temp.rename(path)


def write_rsync(a, path, scratch):
    subprocess.run(["rsync", "-a", str(source(a, "npy", scratch)), str(path)], check=True)


WRITERS = {f.__name__.removeprefix("write_"): f for f in (write_torch, write_torch_fileobj, write_safetensors, write_numpy, write_cp, write_cat,
                                                          write_dd, write_rename, write_rsync)}
NUMPY_WRITERS = ("numpy", "cp", "rsync")        # hold only what numpy can say


# ---- readers: (path without extension, the expected array's dtype and shape where the format does not say) --------------

def read_torch(base, _):
    return from_torch(torch.load(f"{base}.pt", weights_only=False))


def read_torch_weights_only(base, _):
    return from_torch(torch.load(f"{base}.pt", weights_only=True))


def read_torch_mmap(base, _):
    return from_torch(torch.load(f"{base}.pt", mmap=True))


def read_torch_bare(base, _):
    return from_torch(torch.load(str(base)))


def read_load_file(base, _):
    tensors = safetensors.torch.load_file(f"{base}.safetensors")
    assert len(tensors) == 1
    return from_torch(next(iter(tensors.values())))


def read_get_slice(base, _):
    with safe_open(f"{base}.safetensors", "pt") as f:
        name, = f.keys()
        part = f.get_slice(name)
        if not part.get_shape():
            return from_torch(f.get_tensor(name))
        return from_torch(part[:])


def _npy(n, want):
    if want.dtype in NPY_VOID:
        assert n.dtype.str == "|" + NPY_VOID[want.dtype], n.dtype
        return from_numpy(n, want.dtype)
    return from_numpy(n)


def read_np_load(base, want):
    return _npy(np.load(f"{base}.npy"), want)


def read_np_mmap(base, want):
    return _npy(np.load(f"{base}.npy", mmap_mode="r"), want)


def read_bin_cp(base, want):
    return Array(want.dtype, want.shape, subprocess.run(["cp", f"{base}.bin", "/dev/stdout"], check=True, capture_output=True).stdout)


def read_bin_dd(base, want):
    return Array(want.dtype, want.shape, subprocess.run(["dd", "status=none", "bs=64k", f"if={base}.bin"], check=True, capture_output=True).stdout)


def read_bin_mmap(base, want):
    with open(f"{base}.bin", "rb") as f:
        size = f.seek(0, 2)
        if size == 0:
            return Array(want.dtype, want.shape, b"")
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED) as m:
            return Array(want.dtype, want.shape, m[:])


OBJ_CODES = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "float16", "bfloat16",
             "float8_e4m3fn", "float8_e5m2"]


def read_obj(base, _):
    raw = pathlib.Path(f"{base}.obj").read_bytes()
    magic, version, header = int.from_bytes(raw[0:4], "little"), int.from_bytes(raw[4:6], "little"), int.from_bytes(raw[6:8], "little")
    assert (magic, version, header) == (0x4D4F4F4E, 1, 304)
    code, ndim = int.from_bytes(raw[8:12], "little"), int.from_bytes(raw[12:16], "little")
    size = int.from_bytes(raw[32:40], "little")
    shape = tuple(int.from_bytes(raw[104 + 8 * i:112 + 8 * i], "little") for i in range(ndim))
    assert len(raw) == 304 + size
    return Array(OBJ_CODES[code], shape, raw[304:])


READERS = {f.__name__.removeprefix("read_"): f for f in (read_torch, read_torch_weights_only, read_torch_mmap, read_load_file, read_get_slice,
                                                         read_np_load, read_np_mmap, read_bin_cp, read_bin_dd, read_bin_mmap, read_obj)}
