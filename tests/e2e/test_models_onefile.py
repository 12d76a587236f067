"""A file of several tensors is one blob in the store, byte for byte; each of its tensors is read out of that, checked, wherever it begins."""
import collections
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import safetensors.torch
import torch

from conftest import PTIO, metrics
from harm import flip_on_disk

MIB = 1 << 20


def blobs(mount):
    return [p for p in (pathlib.Path(mount.store) / "objects").rglob("*") if p.is_file()]


def moved(mount):
    return metrics(mount)["ptio_store_read_bytes_moved_total"]


def blob_of(mount, data):
    """The one blob that is the file; every file of a store has a description beside it."""
    same = [p for p in blobs(mount) if p.stat().st_size == len(data) and p.read_bytes() == data]
    assert len(same) == 1 and same[0].suffix == ".blob"
    return same[0]


def layers(n):
    return {f"layer.{i}.w": torch.arange(i, i + 1200, dtype=torch.float32).reshape(40, 30) for i in range(n)}


def write_odd(sd, path):
    """As no library writes it: bytes in front, so that the other tensors begin at odd places."""
    sd = {"odd": torch.arange(13, dtype=torch.uint8), **sd}
    header, payload = {}, b""
    for name, t in sd.items():
        raw = t.numpy().tobytes()
        header[name] = {"dtype": "U8" if t.dtype == torch.uint8 else "F32", "shape": list(t.shape), "data_offsets": [len(payload), len(payload) + len(raw)]}
        payload += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + payload)
    return sd


def strided():
    x = torch.arange(6000.0).reshape(50, 120)
    return {"x": x, "t": x.t(), "rows": x[3:9], "cols": x[:, 7:11], "tied": x, "piece": torch.arange(5000)[100:200], "empty": torch.empty(0, 4),
            "half": x.bfloat16(), "cplx": torch.view_as_complex(torch.arange(64.0).reshape(8, 4, 2))}


@pytest.mark.parametrize("fmt", ["safetensors", "odd.safetensors", "pt", "pt.old_names"])
def test_it_is_one_blob_and_every_tensor_is_itself(mnt, fmt):
    sd = strided() if fmt.startswith("pt") else layers(50)
    path = mnt.key("m") / ("pytorch_model.bin" if fmt.startswith("pt") else "model.safetensors")
    if fmt == "pt.old_names":
        torch.save(collections.OrderedDict(sd), path)
    elif fmt == "pt":
        torch.save(sd, path)
    elif fmt.startswith("odd"):
        sd = write_odd(sd, path)
    else:
        safetensors.torch.save_file(sd, path)
    data = path.read_bytes()
    assert len(blobs(mnt)) == 2
    blob_of(mnt, data)
    for name, want in sd.items():
        at = mnt / "m" / name
        assert torch.equal(torch.load(at / "full.pt"), want), name
        loaded, = safetensors.torch.load_file(at / "full.safetensors").values()
        assert torch.equal(loaded, want), name
        if want.dtype is not torch.bfloat16:
            assert np.array_equal(np.load(at / "full.npy"), want.numpy()), name
        if want.ndim > 1 and want.shape[0] >= 4:
            for dim in range(want.ndim):
                parts = [torch.load(at / f"tp={r}of4,dim={dim}" / "shard.pt") for r in range(4)]
                assert torch.equal(torch.cat(parts, dim), want), (name, dim)
    whole = torch.load(mnt / "m" / ".all.pt")
    assert whole.keys() == sd.keys() and all(torch.equal(whole[k], sd[k]) for k in sd)
    assert json.loads((mnt / "m" / ".ptio.json").read_text())
    assert path.read_bytes() == data


def test_sums_of_records_are_right_in_torch_files_that_are_made_of_it(mnt):
    """torch.load checks none of them, zipfile does."""
    import zipfile
    write_odd(layers(5), mnt.key("m") / "model.safetensors")
    for path in (mnt / "m" / "layer.3.w" / "full.pt", mnt / "m" / ".all.pt"):
        with zipfile.ZipFile(path) as z:
            assert z.testzip() is None
            sums = [i.CRC for i in z.infolist() if "/data/" in i.filename]
            assert sums and all(sums)


def test_one_whole_tensor_keeps_its_object(mnt):
    torch.save(torch.arange(1000.0), mnt / "one.pt")
    np.save(mnt / "two.npy", np.arange(10))
    assert sorted(p.suffix for p in blobs(mnt)) == [".blob", ".blob", ".safetensors", ".safetensors"]
    torch.save(torch.arange(1000.0)[10:20], mnt / "part.pt")
    assert sorted(p.suffix for p in blobs(mnt)) == [".blob"] * 4 + [".safetensors"] * 2


def test_a_small_tensor_is_read_without_the_rest(mounts):
    mnt = mounts()
    sd = {f"w{i:03}": torch.rand(100, 1000) for i in range(100)}
    safetensors.torch.save_file(sd, mnt.key("m") / "model.safetensors")
    mnt.stop()
    mnt.start()
    before = moved(mnt)
    assert torch.equal(torch.load(mnt / "m" / "w050" / "full.pt"), sd["w050"])
    assert moved(mnt) - before <= 2 * MIB


@pytest.mark.alone
@pytest.mark.parametrize("options", ["", "serve=stream", "serve=cache", "verify=whole", "verify=off"])
def test_a_large_tensor_moves_each_byte_once(mounts, options):
    mnt = mounts(options=options)
    sd = {"a": torch.rand(1237), "b": torch.arange(9 << 20, dtype=torch.int32).reshape(3072, 3072), "c": torch.rand(77777)}
    safetensors.torch.save_file(sd, mnt.key("m") / "model.safetensors")
    mnt.stop()
    mnt.start()
    before = moved(mnt)
    assert torch.equal(torch.load(mnt / "m" / "b" / "full.pt"), sd["b"])
    if json.loads((mnt / ".ptio/status.json").read_text())["direct_io"]:     # else the kernel cuts requests where it likes
        given_up = 24 if metrics(mnt)["ptio_cache_dear_total"] else 0         # pieces of a copy for which this machine's memory came too slowly
        assert moved(mnt) - before <= (36 + 4 + given_up) * MIB
    assert np.array_equal(np.load(mnt / "m" / "b" / "full.npy", mmap_mode="r"), sd["b"].numpy())
    assert torch.equal(torch.load(mnt / "m" / "b" / "tp=1of2,dim=1" / "shard.pt"), sd["b"][:, 1536:])


def test_damage_is_told_where_it_is_and_nowhere_else(mounts):
    mnt = mounts()
    sd = {f"w{i}": torch.rand(512, 1024) for i in range(8)}
    path = mnt.key("m") / "model.safetensors"
    safetensors.torch.save_file(sd, path)
    blob = blob_of(mnt, path.read_bytes())
    mnt.stop()
    verify = [str(PTIO), "-s", str(mnt.store), "verify"]
    assert b"0 damaged" in subprocess.run(verify, check=True, capture_output=True).stdout
    flip_on_disk(blob, 5 * 2 * MIB + 12345)
    assert b"1 objects, " in subprocess.run(verify, capture_output=True).stdout
    assert b" 1 damaged" in subprocess.run(verify, capture_output=True).stdout
    mnt.start()
    assert torch.equal(torch.load(mnt / "m" / "w1" / "full.pt"), sd["w1"])
    with pytest.raises(OSError):
        (mnt / "m" / "w5" / "full.bin").read_bytes()
    with pytest.raises(OSError):
        path.read_bytes()
    assert "chunk" in mnt.errors() and "model.safetensors" in mnt.errors()
    assert torch.equal(torch.load(mnt / "m" / "w2" / "full.pt"), sd["w2"])


@pytest.mark.parametrize("tail", [b"", b"more", b"x" * 3000000])
def test_what_turns_out_to_be_none_has_every_byte(mnt, tail):
    data = safetensors.torch.save(layers(300))
    data = data + tail if tail else data[:-5]
    (mnt / "f.safetensors").write_bytes(data)
    assert (mnt / "f.safetensors").read_bytes() == data
    assert not (mnt / "layer.0.w").exists()


def test_it_is_replaced_and_its_space_comes_back(mounts):
    mnt = mounts()
    path = mnt / "model.safetensors"
    for i in range(3):
        safetensors.torch.save_file({"a": torch.rand(1000) + i, "b": torch.rand(500)}, path)
    os.rename(path, mnt / "other.safetensors")
    data = (mnt / "other.safetensors").read_bytes()
    mnt.stop()
    subprocess.run([str(PTIO), "-s", str(mnt.store), "gc"], check=True, capture_output=True)
    assert len(blobs(mnt)) == 2
    blob_of(mnt, data)
