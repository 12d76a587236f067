#!/usr/bin/env python3
"""Writes tests/data/pt: small files from the real torch.save, what other writers make of them, and what is in them.

    python3 tests/data/make_pt.py            (torch >= 2.8 for every dtype)

expected.txt has a line for each file, "file NAME", followed by one a tensor in the order of the pickle:
    tensor NAME DTYPE SHAPE CONTIGUOUS BYTES CRC32
NAME is percent-encoded ("-" when empty), SHAPE is d,d,d in ptio's terms (fp4 counts values, "-" for 0-d), CRC32 is that
of the row-major bytes.  Files under bad/ are refused; refused.txt names each with a piece of the sentence that says why.
"""
import collections, io, os, shutil, struct, sys, zipfile, zlib
import torch

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pt")
expected = []
refused = []


def quote(name):
    return "".join(c if c.isalnum() and c.isascii() or c in "._/" else
                   "".join("%%%02x" % b for b in c.encode()) for c in name) or "-"


def row_bytes(t):
    t = t.detach().resolve_conj().resolve_neg()
    shape = list(t.shape)
    if t.dtype == getattr(torch, "float4_e2m1fn_x2", None):
        shape[-1] *= 2
    n = t.element_size()
    # index by index, so that nothing but strides is trusted
    raw = bytes(t.untyped_storage())
    out = bytearray()

    def walk(dim, off):
        if dim == t.dim():
            out.extend(raw[off * n:(off + 1) * n])
            return
        for i in range(t.shape[dim]):
            walk(dim + 1, off + i * t.stride(dim))
    walk(0, t.storage_offset())
    return shape, bytes(out)


def describe(tensors):
    for name, t in tensors:
        shape, data = row_bytes(t)
        expected.append("tensor %s %s %s %d %d %08x" % (
            quote(name), str(t.dtype).replace("torch.", ""), ",".join(map(str, shape)) or "-",
            t.is_contiguous(), len(data), zlib.crc32(data)))


def walk_names(x, path=()):
    if isinstance(x, torch.Tensor):
        yield ".".join(path), x
    elif isinstance(x, dict):
        for k, v in x.items():
            yield from walk_names(v, path + (str(k),))
    elif isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        for i, v in enumerate(x):
            yield from walk_names(v, path + (str(i),))


def put(name, data, x):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)
    expected.append("file %s" % name)
    describe(walk_names(x))


def saved(x, **kw):
    b = io.BytesIO()
    torch.save(x, b, **kw)
    return b.getvalue()


def records(data):
    z = zipfile.ZipFile(io.BytesIO(data))
    return [(i.filename.split("/", 1)[1], z.read(i)) for i in z.infolist()]


def zipped(recs, prefix="archive", descriptors=True, crc=True, wide=False, central=None, flags=0x0800):
    """A zip laid out as torch's own writer does: aligned, no sizes in front, descriptors behind, 64-bit end record."""
    out = bytearray()
    cd = bytearray()
    for name, data in recs:
        n = (prefix + "/" + name).encode()
        off = len(out)
        desc = descriptors and len(data) > 0
        fl = flags | (8 if desc else 0)
        c = zlib.crc32(data) if crc else 0
        size = 0 if desc else len(data)
        pad = -(off + 30 + len(n) + 4) % 64
        extra = struct.pack("<2sH", b"FB", pad) + b"Z" * pad
        out += struct.pack("<IHHHHHIIIHH", 0x04034b50, 0, fl, 0, 0, 0, 0 if desc else c, size, size, len(n), len(extra)) + n + extra + data
        if desc and wide:
            out += struct.pack("<IIQQ", 0x08074b50, c, len(data), len(data))
        elif desc:
            out += struct.pack("<IIII", 0x08074b50, c, len(data), len(data))
        cd += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 0, 0, fl, 0, 0, 0, c, len(data), len(data), len(n), 0, 0, 0, 0, 0, off) + n
    if central:
        cd = central(cd)
    start = len(out)
    out += cd
    out += struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 798, 45, 0, 0, len(recs), len(recs), len(cd), start)
    out += struct.pack("<IIQI", 0x07064b50, 0, start + len(cd), 1)
    out += struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, len(recs), len(recs), len(cd), start, 0)
    return bytes(out)


def pick(recs, order):
    d = dict(recs)
    return [(n, d[n]) for n in order if n in d]


def older(x, style):
    """torch 1.13 (a) and 2.6 (b): other records, payloads in the order of their names as text."""
    recs = records(saved(x))
    data = sorted(n for n, _ in recs if n.startswith("data/"))
    order = ["data.pkl"] + (["byteorder"] if style == "b" else []) + data + ["version"]
    return zipped(pick(recs, order + ([".data/serialization_id"] if style == "b" else [])))


class Sink(io.RawIOBase):
    """A file that cannot seek: zipfile then writes descriptors."""
    def __init__(self):
        self.b = bytearray()

    def writable(self):
        return True

    def seekable(self):
        return False

    def write(self, d):
        self.b += d
        return len(d)


def by_zipfile(x, stream=False, force=False, order=None):
    recs = [r for r in records(saved(x)) if r[0] != ".format_version"]
    sink = Sink() if stream else io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as z:
        for n, d in order(recs) if order else recs:
            with z.open(zipfile.ZipInfo("archive/" + n), "w", force_zip64=force) as f:
                f.write(d)
    return bytes(sink.b) if stream else sink.getvalue()


def good():
    ar = torch.arange
    put("f32.pt", saved(ar(6, dtype=torch.float32).reshape(2, 3)), ar(6, dtype=torch.float32).reshape(2, 3))
    dts = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64,
           torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
           torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
    raw = torch.arange(1, 97, dtype=torch.uint8) * 37 % 120
    raw_bool = raw % 2
    dtypes = {}
    for d in dts:
        n = torch.empty((), dtype=d).element_size()
        src = raw_bool if d == torch.bool else raw
        dtypes[str(d)[6:]] = src[:6 * n].clone().view(d).reshape(3, 2)
    old = {k: v for k, v in dtypes.items() if not (k.startswith("float8") or k in ("uint16", "uint32", "uint64"))}
    put("dtypes_v2.pt", saved(old), old)
    new = {k: v for k, v in dtypes.items() if k not in old}
    new["fp4"] = raw[:6].clone().view(torch.float4_e2m1fn_x2).reshape(2, 3)
    new["fp4_t"] = raw[:6].clone().view(torch.float4_e2m1fn_x2).reshape(2, 3).t()
    put("dtypes_v3.pt", saved(new), new)
    shapes = {"s": torch.tensor(7.0), "e": torch.zeros(0), "e2": torch.zeros(0, 3), "e3": torch.zeros(3, 0, 2),
              "one": torch.ones(1, 1, 1), "ten": ar(1024, dtype=torch.uint8)[:24].clone().reshape(1, 2, 1, 3, 1, 2, 1, 2, 1, 1),
              "odd": torch.as_strided(torch.zeros(1), (0, 3), (5, 1)), "one_stride": torch.as_strided(ar(4.0), (1, 4), (77, 1))}
    put("shapes.pt", saved(shapes), shapes)
    m = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    torch.manual_seed(1)
    for p in m.parameters():
        torch.nn.init.normal_(p)
    put("module.pt", saved(m.state_dict()), m.state_dict())
    opt = torch.optim.AdamW(m.parameters(), lr=0.1)
    m(torch.randn(4, 3)).sum().backward()
    opt.step()
    ck = {"epoch": 3, "model": m.state_dict(), "optimizer": opt.state_dict(), "rng": torch.arange(16, dtype=torch.uint8),
          "best": None, "lr": [0.1, 0.01], "note": "caf\u00e9", "big": 1 << 70, "neg": -(1 << 40)}
    put("checkpoint.pt", saved(ck), ck)
    base = ar(24, dtype=torch.int32)
    views = {"all": base.reshape(4, 6), "t": base.reshape(4, 6).t(), "step": base[::2], "off": base[10:12], "col": base.reshape(4, 6)[:, 2:4],
             "perm": base.reshape(2, 3, 4).permute(2, 0, 1), "last": torch.arange(120, dtype=torch.float64).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)}
    put("views.pt", saved(views), views)
    small = torch.zeros(100)
    small[10:12] = torch.tensor([1.5, 2.5])
    put("slice.pt", saved(small[10:12]), small[10:12])
    ex = {"row": ar(3.0).expand(4, 3), "col": ar(4.0).reshape(4, 1).expand(4, 3), "mid": ar(4.0).reshape(2, 1, 2).expand(2, 3, 2)}
    put("expand.pt", saved(ex), ex)
    w = ar(4.0)
    tied = {"a": w, "b": w, "c": {"d": w, "e": w.view(2, 2)}}
    put("tied.pt", saved(tied), tied)
    par = torch.nn.Parameter(ar(3.0))
    attr = torch.nn.Parameter(ar(2.0))
    attr.note = "x"
    ten = ar(5, dtype=torch.int64)
    ten.tag = {"k": [1, 2]}
    pars = {"plain": par, "frozen": torch.nn.Parameter(ar(3.0), requires_grad=False), "attr": attr, "tensor_attr": ten}
    put("parameter.pt", saved(pars), pars)
    put("parameter_bare.pt", saved(par), par)
    leaves = {"a": {1, 2}, "b": b"bytes\x00\xff", "c": 1 + 2j, "d": bytearray(b"zz"), "e": torch.Size([2, 3]), "f": torch.device("cpu"),
              "g": torch.float16, "h": collections.OrderedDict(x=1), "i": [[], (), {}], "j": True, "k": 1.25, "t": torch.ones(2), "": 5, "n\0": 1,
              3.5: "float key", (1, 2): "tuple key", None: 0, "l": collections.Counter("abca"), "m": torch.strided, "o": torch.complex32,
              "p": "x" * 300, "q": list(range(600))}
    put("leaves.pt", saved(leaves), leaves)
    lists = [torch.ones(1), [torch.zeros(2), 5, (torch.ones(3), "x", torch.zeros(1))], {"k": torch.ones(2)}]
    put("lists.pt", saved(lists), lists)
    names = {"plain.weight": torch.ones(1), "a/b": torch.ones(2), " sp ace ": torch.ones(3), "qu\"ote\n": torch.ones(4), "\u00fcn\u00efcode \U0001f600": torch.ones(5),
             "..": torch.ones(6), "100%": torch.ones(7), 7: torch.ones(8), -3: torch.ones(9), "k" * 300: torch.ones(10)}
    put("names.pt", saved(names), names)
    many = {"w%d" % i: torch.full((3,), float(i)) for i in range(12)}
    put("many_213.pt", saved(many), many)
    put("many_113.pt", older(many, "a"), many)
    put("many_26.pt", older(many, "b"), many)
    put("protocol3.pt", saved({"x": torch.ones(2), "b": b"raw", "s": {1}}, pickle_protocol=3), {"x": torch.ones(2)})
    torch.serialization.set_crc32_options(False)
    put("crc_off.pt", saved(many), many)
    torch.serialization.set_crc32_options(True)
    put("wide.pt", zipped(records(saved(w)), wide=True), w)
    put("no_descriptors.pt", zipped(records(saved(w)), descriptors=False), w)
    put("prefix.pt", zipped(records(saved(w)), prefix="caf\u00e9 v1.2"), w)
    two = {"x": ar(5, dtype=torch.int16), "e": torch.zeros(0)}
    put("zipfile.pt", by_zipfile(two), two)
    put("zipfile_stream.pt", by_zipfile(two, stream=True), two)
    put("zipfile_stream64.pt", by_zipfile(two, stream=True, force=True), two)
    put("zipfile_64.pt", by_zipfile(two, force=True), two)
    put("empty_dict.pt", saved({}), {})
    recs = dict(records(saved(w)))
    extra = [(n, recs[n]) for n in ("data.pkl", "byteorder")] + [("extra/readme.txt", b"hello" * 1000)] + [
        ("data/0", recs["data/0"]), (".data/version", b"3\n"), ("empty", b"")]
    put("extra.pt", zipped(extra, descriptors=False), w)


def bad(name, data, why):
    with open(os.path.join(OUT, "bad", name), "wb") as f:
        f.write(data)
    refused.append("%s %s" % (name, why))


def pickled(pkl, extra=()):
    return zipped([("data.pkl", pkl), ("byteorder", b"little"), ("data/0", b"\0" * 16), ("version", b"3\n")] + list(extra))


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s


def tensor(numel=b"K\x04", off=b"K\x00", size=b"K\x04\x85", stride=b"K\x01\x85", cls=b"torch\nFloatStorage", fn=b"_rebuild_tensor_v2", key=b"0", tail=b""):
    return (b"ctorch._utils\n" + fn + b"\n((" + text(b"storage") + b"c" + cls + b"\n" + text(key) + text(b"cpu") + numel + b"tQ" +
            off + size + stride + b"\x89ccollections\nOrderedDict\n)R" + tail + b"tR")


def refusals():
    w = torch.arange(4.0)
    recs = records(saved(w))
    rec = dict(recs)
    P = b"\x80\x02"
    bad("os_system.pt", pickled(P + b"cos\nsystem\n" + text(b"true") + b"\x85R."), "os.system")
    bad("posix.pt", pickled(P + b"cposix\nsystem\n" + text(b"true") + b"\x85R."), "posix.system")
    bad("numpy.pt", pickled(P + b"cnumpy.core.multiarray\n_reconstruct\n."), "numpy.core.multiarray._reconstruct")
    bad("torchscript_global.pt", pickled(P + b"c__torch__.m\nNet\n)\x81."), "TorchScript")
    bad("getattr.pt", pickled(P + b"c__builtin__\ngetattr\n."), "__builtin__.getattr")
    bad("newobj.pt", pickled(P + b"ccollections\nOrderedDict\n)\x81."), "0x81")
    bad("inst.pt", pickled(P + b"(icollections\nOrderedDict\n."), "0x69")
    bad("persid.pt", pickled(P + b"Pstorage\n."), "0x50")
    bad("build.pt", pickled(P + b"}}b."), "state of an object")
    bad("call_tensor_type.pt", pickled(P + b"ctorch\nTensor\n)R."), "no function")
    bad("protocol4.pt", saved({"x": w}, pickle_protocol=4), "protocol 4")
    bad("protocol0.pt", pickled(b"(dp0\n."), "protocol 2")
    bad("memo_huge.pt", pickled(P + b"Nr\xff\xff\xff\x7f."), "memo index")
    bad("memo_unset.pt", pickled(P + b"h\x05."), "never stored")
    bad("stack.pt", pickled(P + b"R."), "too few values")
    bad("mark.pt", pickled(P + b"(\x85."), "mark")
    bad("nomark.pt", pickled(P + b"Nt."), "no mark")
    bad("left.pt", pickled(P + b"NN."), "left on the stack")
    bad("recursion.pt", pickled(P + b"]q\x00h\x00a."), "nests")
    bad("deep.pt", pickled(P + b"]" * 200 + b"N" + b"a" * 200 + b"."), "nests")
    bomb = b"".join(b"}q%c(" % i + text(b"a") + b"h%c" % (i - 1) + text(b"b") + b"h%cu" % (i - 1) for i in range(1, 40))
    bad("bomb.pt", pickled(P + b"(]q\x00" + bomb + b"t."), "too often")
    bad("twice.pt", pickled(P + b"}(" + text(b"a") + tensor() + text(b"a") + tensor() + b"u."), "twice in one dict")
    bad("joined.pt", pickled(P + b"}(" + text(b"a.b") + tensor() + text(b"a") + b"}" + text(b"b") + tensor() + b"su."), "once joined")
    bad("int_and_str.pt", saved({1: w, "1": w}), "once joined")
    bad("key_empty.pt", saved({"": w}), "is empty")
    bad("key_nul.pt", saved({"a\0b": w}), "NUL")
    bad("key_surrogate.pt", saved({"a\ud800b": w}), "lone surrogate")
    bad("key_float.pt", saved({1.5: w}), "neither str nor int")
    bad("key_bytes.pt", pickled(P + b"}" + text(b"\xff\xfe") + tensor() + b"s."), "not UTF-8")
    bad("odd_items.pt", pickled(P + b"}(Nu."), "without a value")
    bad("append_dict.pt", pickled(P + b"}Na."), "no list")
    bad("string_huge.pt", pickled(P + b"X\xff\xff\xff\xff"), "64 MiB")
    bad("long1.pt", pickled(P + tensor(numel=b"\x8a\xff" + b"\x7f" * 255) + b"."), "negative or out of range")
    bad("numel_negative.pt", pickled(P + tensor(numel=b"J\xff\xff\xff\xff") + b"."), "negative or out of range")
    bad("numel_over.pt", pickled(P + tensor(numel=b"\x8a\x08" + b"\xff" * 7 + b"\x7f") + b"."), "out of range")
    bad("beyond.pt", pickled(P + tensor(size=b"K\x05\x85") + b"."), "beyond its storage")
    bad("beyond_offset.pt", pickled(P + tensor(off=b"K\x01") + b"."), "beyond its storage")
    bad("beyond_wrap.pt", pickled(P + tensor(off=b"\x8a\x08" + b"\xff" * 7 + b"\x7f", size=b"K\x02\x85", stride=b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85") + b"."), "beyond its storage")
    bad("stride_negative.pt", pickled(P + tensor(stride=b"J\xff\xff\xff\xff\x85") + b"."), "stride is negative")
    bad("offset_negative.pt", pickled(P + tensor(off=b"J\xff\xff\xff\xff") + b"."), "offset is negative")
    bad("dims_differ.pt", pickled(P + tensor(stride=b"K\x01K\x01\x86") + b"."), "more sizes than strides")
    bad("dims_65.pt", pickled(P + tensor(size=b"(" + b"K\x01" * 65 + b"t", stride=b"(" + b"K\x01" * 65 + b"t") + b"."), "65 dimensions")
    bad("size_wrap.pt", pickled(P + tensor(size=b"(" + b"\x8a\x05\0\0\0\0\x01" * 3 + b"t", stride=b"(K\0K\0K\0t") + b"."), "out of range")
    bad("expand_huge.pt", pickled(P + tensor(size=b"\x8a\x05\0\0\0\0\x01\x85", stride=b"K\0\x85") + b"."), "expand")
    bad("two_sizes.pt", pickled(P + b"]" + tensor() + b"a" + tensor(numel=b"K\x03", size=b"K\x03\x85") + b"a."), "two sizes")
    bad("persid_module.pt", pickled(P + b"(" + text(b"module") + b"NNNNtQ."), "persistent id")
    bad("persid_key.pt", pickled(P + tensor(key=b"../x") + b"."), "proper key")
    bad("untyped_v2.pt", pickled(P + tensor(cls=b"torch.storage\nUntypedStorage", numel=b"K\x10") + b"."), "no dtype")
    bad("v3_no_dtype.pt", pickled(P + tensor(fn=b"_rebuild_tensor_v3") + b"."), "number of arguments")
    bad("ordered_pairs.pt", pickled(P + b"ccollections\nOrderedDict\n]\x85R."), "Python 2")
    bad("conj.pt", saved(torch.zeros(2, dtype=torch.complex64).conj()), "conjugate")
    bad("neg.pt", saved(torch.zeros(2, dtype=torch.complex64).conj().imag), "negative bit")
    bad("complex32.pt", saved(torch.zeros(2, dtype=torch.complex32)), "torch.complex32")
    bad("bits8.pt", saved(torch.zeros(2, dtype=torch.uint8).view(torch.bits8)), "torch.bits8")
    bad("quantized.pt", saved(torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8)), "quantized")
    bad("sparse.pt", saved(torch.eye(2).to_sparse()), "dense tensors only")
    bad("meta.pt", saved(torch.empty(2, device="meta")), "meta tensor")
    bad("fp4_scalar.pt", pickled(P + tensor(fn=b"_rebuild_tensor_v3", size=b")", stride=b")", tail=b"ctorch\nfloat4_e2m1fn_x2\n", cls=b"torch.storage\nUntypedStorage", numel=b"K\x10") + b"."),
        "without dimensions")
    big = list(recs)
    big[[n for n, _ in big].index("byteorder")] = ("byteorder", b"big")
    bad("big_endian.pt", zipped(big), "big-endian")
    bad("byteorder_odd.pt", zipped([(n, b"middle" if n == "byteorder" else d) for n, d in recs]), "neither")
    bad("version_11.pt", zipped([(n, b"11\n" if n == "version" else d) for n, d in recs]), "1 to 10")
    bad("version_none.pt", zipped([r for r in recs if r[0] != "version"]), "lacks the version record")
    bad("data_none.pt", zipped([r for r in recs if r[0] != "data/0"]), "lacks record data/0")
    bad("data_unknown.pt", zipped(recs + [("data/9", b"1234")]), "no storage")
    bad("data_longer.pt", zipped([(n, d + b"1234" if n == "data/0" else d) for n, d in recs]), "does not end")
    bad("data_longer_sized.pt", zipped([(n, d + b"1234" if n == "data/0" else d) for n, d in recs], descriptors=False), "where data.pkl says")
    bad("pickle_tail.pt", zipped([(n, d + b"1234" if n == "data.pkl" else d) for n, d in recs], descriptors=False), "ends before its record")
    bad("pickle_short.pt", zipped([(n, d[:-1] if n == "data.pkl" else d) for n, d in recs], descriptors=False), "ends after its record")
    bad("duplicate.pt", zipped(recs + [("version", b"3\n")]), "comes twice")
    bad("torchscript.pt", zipped([recs[0], ("constants.pkl", b"\x80\x02).")] + recs[1:]), "TorchScript")
    bad("torchscript_code.pt", zipped([recs[0], ("code/m.py", b"x")] + recs[1:]), "TorchScript")
    bad("order.pt", zipped(recs[1:] + recs[:1]), "not one that torch.save wrote")
    bad("no_folder.pt", zipped(recs).replace(b"archive/data.pkl", b"archive_data.pkl"), "not one that torch.save wrote")
    bad("prefixes.pt", zipped(recs).replace(b"archive/version", b"brchive/version"), "folder of the others")
    bad("deflated.pt", by_method(recs), "compressed (method 8)")
    bad("flags.pt", zipped(recs, flags=0x0801), "zip flags")
    bad("crc.pt", flip(zipped(recs), rec["data/0"], 5), "CRC-32")
    bad("crc_sized.pt", flip(zipped(recs, descriptors=False), rec["data/0"], 5), "CRC-32")
    bad("cd_name.pt", zipped(recs, central=lambda cd: cd.replace(b"data/0", b"data/1")), "names another record")
    bad("cd_offset.pt", zipped(recs, central=lambda cd: patch(cd, 42, 1)), "another place")
    bad("cd_size.pt", zipped(recs, central=lambda cd: patch(patch(cd, 20, 1), 24, 1)), "another size")
    bad("cd_crc.pt", zipped(recs, central=lambda cd: patch(cd, 16, 1)), "another CRC-32")
    bad("cd_method.pt", zipped(recs, central=lambda cd: patch(cd, 10, 8)), "compressed, encrypted")
    bad("cd_fewer.pt", zipped(recs, central=lambda cd: cd[:cd.rindex(b"PK\1\2")]), "fewer records")
    bad("cd_more.pt", zipped(recs, central=lambda cd: cd + cd[cd.rindex(b"PK\1\2"):]), "more records")
    whole = zipped(recs)
    e64 = whole.rindex(b"PK\6\6")
    bad("end64_count.pt", whole[:e64 + 24] + b"\x01" + whole[e64 + 25:], "counts other records")
    bad("end64_offset.pt", whole[:e64 + 48] + b"\x01" + whole[e64 + 49:], "points elsewhere")
    bad("locator.pt", whole[:e64 + 64] + b"\x01" + whole[e64 + 65:], "locator")
    bad("end_count.pt", whole[:-14] + b"\x01" + whole[-13:], "counts other records")
    bad("end_offset.pt", whole[:-6] + b"\x01" + whole[-5:], "points elsewhere")
    bad("comment.pt", whole[:-2] + b"\x01\x00x", "comment")
    bad("trailing.pt", whole + b"\0", "follow the end")
    at = whole.index(b"PK\3\4", 4)
    bad("gap.pt", whole[:at] + b"\0" * 64 + whole[at:], "no record or directory begins")
    b = io.BytesIO()
    torch.save(w, b, _use_new_zipfile_serialization=False)
    bad("legacy.pt", b.getvalue(), "torch's old format")


def by_method(recs):
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w", zipfile.ZIP_DEFLATED) as z:
        for n, d in recs:
            z.writestr("archive/" + n, d)
    return b.getvalue()


def flip(data, payload, at):
    i = data.index(payload)
    return data[:i + at] + bytes([data[i + at] ^ 1]) + data[i + at + 1:]


def patch(cd, at, add):
    cd = bytearray(cd)
    cd[at] += add
    return bytes(cd)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(os.path.join(OUT, "bad"))
    good()
    refusals()
    for name, lines in (("expected.txt", expected), ("refused.txt", refused)):
        with open(os.path.join(OUT, name), "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
