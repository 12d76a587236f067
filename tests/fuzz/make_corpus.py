#!/usr/bin/env python3
"""Writes the seeds of the safetensors, npy and obj fuzz targets (those of bin are made by hand) into tests/fuzz/corpus/. The first two bytes of a seed are what
format_fuzz.h says: how the file is fed, and which allocation fails."""
import json
import pathlib
import struct

here = pathlib.Path(__file__).resolve().parent


def put(target, name, data, control=(6, 0)):
    folder = here / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(bytes(control) + data)


def st(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def info(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


two = {"__metadata__": {"format": "pt"}, "b": info("U8", [3], 8, 11), "a": info("F32", [1, 2], 0, 8), "e": info("F64", [0, 5], 8, 8)}
put("safetensors", "two", st(two, bytes(range(11))))
put("safetensors", "two-by-1", st(two, bytes(range(11))), (0, 0))
put("safetensors", "two-forced", st(two, bytes(range(11))), (8 + 3, 0))
put("safetensors", "two-nomem", st(two, bytes(range(11))), (6, 7))
put("safetensors", "zeros", st(two, bytes(11)), (16 + 2, 0))
put("safetensors", "empty", st({}))
put("safetensors", "null-metadata", st(b' {"__metadata__" : null,\n"x":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2],"k":[{}]}} ', b"ab"))
put("safetensors", "escapes", st(b'{"\\u00e9\\n\\"":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"__metadata__":{"\xc3\xa9":"\\ud83d\\ude00"}}', b"ab"))
put("safetensors", "hole", st({"a": info("U8", [2], 1, 3)}, b"abc"))
put("safetensors", "overflow", st({"a": info("I64", [2**62, 2**62, 0], 0, 0)}))
put("safetensors", "unknown", st({"a": info("F6_E2M3", [4], 0, 3)}, b"abc"))


def npy(text, data=b"", version=1):
    text = text.encode() + b"\n"
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


put("npy", "f4", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   ", bytes(range(24))))
put("npy", "by-1", npy("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }", bytes(range(6)), 2), (0, 0))
put("npy", "big", npy("{'descr': '>c16', 'fortran_order': True, 'shape': (2, 2), }", bytes(range(64)), 3), (3, 0))
put("npy", "big-holes", npy("{'descr': '>i4', 'fortran_order': False, 'shape': (6,), }", b"\0" * 10 + b"\1" * 3 + b"\0" * 11), (16 + 3, 0))
put("npy", "scalar", npy('{"shape":(),"descr":"|b1","fortran_order":False}', b"\1"))
put("npy", "py2", npy("{'shape': (2L, 0L,), 'descr': 'float64', 'fortran_order': True}"))
put("npy", "bf16", npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", b"abcd"), (32 + 6, 0))
put("npy", "fp8", npy("{'descr': '|V1', 'fortran_order': False, 'shape': (2,), }", b"ab"), (64 + 6, 0))
put("npy", "object", npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", b"\x80\x04."))
put("npy", "nomem", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", b"abcd"), (6, 4))


def obj(dtype, kind, global_shape, local_shape, axes, data, offset=304):
    pad = lambda s: list(s) + [-1] * (8 - len(s))
    head = struct.pack("<IHHiiIIQQ8q8qII", 0x4D4F4F4E, 1, 304, dtype, len(local_shape), kind, 0, offset, len(data), *pad(global_shape),
                       *pad(local_shape), len(axes), 0)
    head += b"".join(struct.pack("<iiiiiiq", *a) for a in axes) + bytes(32 * (4 - len(axes)))
    return head + bytes(offset - 304) + data


put("obj", "full", obj(0, 0, (2, 3), (2, 3), [], bytes(range(24))))
put("obj", "full-by-1", obj(0, 0, (2, 3), (2, 3), [], bytes(range(24))), (0, 0))
put("obj", "shard", obj(3, 1, (4, 2), (2, 2), [(1, 0, 0, 2, 0, 0, 2)], b"abcd"), (8 + 4, 0))
put("obj", "axes", obj(12, 1, (2, 4), (2, 2), [(1, 0, 1, 2, 1, 0, 2), (3, 1, 0, 2, -1, 7, 0), (0, 2, 0, 1, -1, 0, 0), (2, 3, 0, 1, -1, 5, 0)], b"abcdefgh"))
put("obj", "padded", obj(10, 0, (1,), (1,), [], b"\1", 320), (16 + 3, 0))
put("obj", "empty", obj(11, 0, (2, 0), (2, 0), [], b""))
put("obj", "scalar", obj(1, 0, (), (), [], b"abcdefgh"), (6, 3))
put("obj", "contradiction", obj(3, 0, (5,), (1,), [(4, 9, 0, 1, -1, 0, 0)], b"a"))
put("obj", "manifest", struct.pack("<IHHiiiiii8q", 0x574D414E, 1, 96, 0, 2, 1, 2, 0, 0, 2, 4, *[-1] * 6))
