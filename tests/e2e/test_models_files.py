"""Model files under ordinary names: byte-identical, each payload stored once, each tensor also as if it were a key."""
import filecmp
import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import safetensors.torch
import torch


def stored(mount):
    out = subprocess.run(["du", "-s", "--block-size=1", mount.store], capture_output=True, text=True, check=True).stdout
    return int(out.split()[0])


def same(a, b):
    return filecmp.cmp(a, b, shallow=False)


@pytest.fixture
def odd():
    """A state dict with all that torch allows."""
    x = torch.arange(60.0).reshape(5, 12)
    return {"a": x, "nested": {"t": x.t(), "n": 3, "s": "hi", "none": None}, "tied": x, "rows": x[1:3], "p": torch.nn.Parameter(x),
            "piece": torch.arange(1000.0)[10:20], "zero": torch.tensor(7), "empty": torch.empty(0, 3), "half": x.bfloat16()}


def test_a_checkpoint_directory_is_copied_and_reads_back(mnt, checkpoint):
    source = checkpoint.parent
    shutil.copytree(source, mnt / "bert")
    for f in source.rglob("*"):
        if f.is_file():
            assert same(f, mnt / "bert" / f.relative_to(source)), f
    assert stored(mnt) < 1.1 * sum(f.stat().st_size for f in source.rglob("*") if f.is_file())
    listed = sorted(os.listdir(mnt / "bert"))
    assert listed == sorted(os.listdir(source))         # tensors resolve, but nothing is listed twice


def test_mode_and_times_are_real(mnt, scratch):
    safetensors.torch.save_file({"w": torch.ones(3)}, scratch / "m.safetensors")
    os.chmod(scratch / "m.safetensors", 0o640)
    os.utime(scratch / "m.safetensors", (1e9, 1e9))
    shutil.copy2(scratch / "m.safetensors", mnt / "m.safetensors")
    st = os.stat(mnt / "m.safetensors")
    assert st.st_mode & 0o777 == 0o640 and st.st_mtime == 1e9 and st.st_blocks > 0


@pytest.mark.parametrize("how", ["cp", "save", "rsync-like", "out of order"])
def test_state_dicts_of_torch(mnt, scratch, odd, how):
    source, target = scratch / "sd.pt", mnt.key("d") / "sd.pt"
    torch.save(odd, source)
    if how == "cp":
        subprocess.run(["cp", source, target], check=True)
    elif how == "save":
        torch.save(odd, target)
    elif how == "rsync-like":
        shutil.copy(source, mnt / "d" / ".sd.pt.x1")
        os.rename(mnt / "d" / ".sd.pt.x1", target)
    else:
        data = source.read_bytes()
        with open(target, "wb") as f:
            f.truncate(len(data))
            f.seek(500)
            f.write(data[500:])
            f.seek(0)
            f.write(data[:500])
    if how != "save":
        assert same(source, target)
    back = torch.load(target)
    assert torch.equal(back["nested"]["t"], odd["nested"]["t"]) and back["nested"]["n"] == 3
    assert back["tied"].data_ptr() == back["a"].data_ptr()
    for key, want in [("a", odd["a"]), ("nested.t", odd["nested"]["t"]), ("rows", odd["rows"]), ("piece", odd["piece"]), ("p", odd["a"]),
                      ("zero", odd["zero"]), ("empty", odd["empty"]), ("half", odd["half"])]:
        assert torch.equal(torch.load(mnt / "d" / key / "full"), want), key
    assert torch.equal(torch.load(mnt / "d" / "nested.t" / "tp=1of3,dim=0" / "shard"), odd["nested"]["t"][4:8])


def test_one_tensor_files_are_the_key_of_their_stem(mnt):
    x = np.arange(12, dtype="f4").reshape(3, 4)
    np.save(mnt / "w.npy", x)
    torch.save(torch.from_numpy(x) + 1, mnt / "v.pt")
    assert np.array_equal(np.load(mnt / "w" / "full.npy"), x)
    assert np.array_equal(np.load(mnt / "w" / "tp=0of3,dim=0" / "shard.npy"), x[:1])
    assert torch.equal(torch.load(mnt / "v" / "full"), torch.from_numpy(x) + 1)
    assert np.array_equal(np.load(mnt / "w.npy", mmap_mode="r"), x)


def test_same_names_keep_every_file_and_withhold_the_key(mnt, scratch):
    d = mnt.key("m")
    for i in range(3):
        torch.save({"w": torch.full((100,), float(i))}, scratch / f"consolidated.0{i}.pth")
        shutil.copy(scratch / f"consolidated.0{i}.pth", d)
    safetensors.torch.save_file({"w": torch.ones(5)}, d / "model.safetensors")
    for i in range(3):
        assert same(scratch / f"consolidated.0{i}.pth", d / f"consolidated.0{i}.pth")
    assert not (d / "w").exists()
    info = json.loads((d / ".ptio.json").read_text())
    assert len(info["tensors"]) == 4 and all("withheld" in t for t in info["tensors"])


def test_what_is_told_of_tensors_is_json_whatever_their_names(mnt):
    names = ['q"x\\y', "\x01t\n\x7f", "\u00e9\U0001f600", " ", "full", "tp=1of2", "%", "a.b"]
    torch.save({n: torch.ones(3, 2) for n in names}, mnt.key("d") / "sd.pt")
    info = json.loads((mnt / "d" / ".ptio.json").read_text())
    assert [t["name"] for t in info["tensors"]] == sorted(names, key=str.encode)
    assert all((t["file"], t["dtype"], t["shape"]) == ("sd.pt", "float32", [3, 2]) for t in info["tensors"])


def test_a_key_never_changes_a_file(mnt, scratch):
    x = torch.arange(6.0)
    safetensors.torch.save_file({"w": x, "v": x + 1}, scratch / "m.safetensors")
    shutil.copy(scratch / "m.safetensors", mnt.key("d"))
    torch.save(x * 2, mnt / "d" / "w" / "full.pt")
    assert torch.equal(torch.load(mnt / "d" / "w" / "full"), x * 2)
    assert same(scratch / "m.safetensors", mnt / "d" / "m.safetensors")
    assert torch.equal(safetensors.torch.load_file(mnt / "d" / ".all.safetensors")["w"], x * 2)
    shutil.rmtree(mnt / "d" / "w")
    assert torch.equal(torch.load(mnt / "d" / "w" / "full"), x)
    with pytest.raises(PermissionError):
        os.unlink(mnt / "d" / "v" / "full")


def test_removal_gives_the_space_back(mnt, scratch):
    import time
    safetensors.torch.save_file({f"w{i}": torch.rand(1 << 18) for i in range(8)}, scratch / "m.safetensors")
    before = stored(mnt)
    shutil.copy(scratch / "m.safetensors", mnt / "m.safetensors")
    assert stored(mnt) - before >= 8 << 20
    with open(mnt / "m.safetensors", "rb") as f:
        os.unlink(mnt / "m.safetensors")
        time.sleep(0.3)
        assert f.read() == (scratch / "m.safetensors").read_bytes()
    deadline = time.monotonic() + 60
    while stored(mnt) - before > 4 << 20:
        assert time.monotonic() < deadline, "the objects of a removed file are still there"
        time.sleep(0.2)


ODD_FILES = {
    "empty.safetensors": b"",
    "trailing.safetensors": safetensors.torch.save({"w": torch.ones(3)}) + b"x",
    "cut.safetensors": safetensors.torch.save({"w": torch.ones(300)})[:-7],
    "nothing.safetensors": (2).to_bytes(8, "little") + b"{}",
    "hole.safetensors": (lambda h: len(h).to_bytes(8, "little") + h + bytes(16))(b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}}'),
    "twice.safetensors": (lambda h: len(h).to_bytes(8, "little") + h + bytes(4))(
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
    "unknown.safetensors": (lambda h: len(h).to_bytes(8, "little") + h + bytes(4))(b'{"a":{"dtype":"Q4","shape":[4],"data_offsets":[0,4]}}'),
    "huge_header.safetensors": (126 << 20).to_bytes(8, "little") + b'{"a"' + bytes(1000),
    "big_endian.npy": None, "archive.npz": None, "foreign.pt": None, "script.pt": None,
}


@pytest.mark.parametrize("name", ODD_FILES)
def test_odd_files_stay_what_they_are(mnt, scratch, name):
    path = scratch / name
    if name == "big_endian.npy":
        np.save(path, np.arange(5, dtype=">f4"))
    elif name == "archive.npz":
        np.savez(path, a=np.arange(5))
    elif name == "foreign.pt":
        torch.save({"w": torch.ones(3), "d": np.arange(3)}, path)
    elif name == "script.pt":
        torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    else:
        path.write_bytes(ODD_FILES[name])
    shutil.copy(path, mnt / name)
    assert same(path, mnt / name)
    with open(mnt / name, "r+b") as f:
        f.seek(0, 2)
        f.write(b"more")
    assert (mnt / name).read_bytes() == path.read_bytes() + b"more"


@pytest.mark.parametrize("name", ["empty_metadata", "odd_length"])
def test_unusual_but_valid_headers_are_containers(mnt, name):
    h = {"empty_metadata": b'{"__metadata__":{},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
         "odd_length": b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}}'}[name]
    data = len(h).to_bytes(8, "little") + h + bytes(range(4 if name == "empty_metadata" else 7))
    (mnt / "m.safetensors").write_bytes(data)
    assert (mnt / "m.safetensors").read_bytes() == data
    assert torch.load(mnt / "a" / "full").tolist() == list(range(4 if name == "empty_metadata" else 3))


def test_ordinary_files_are_written_as_anywhere(mnt):
    p = mnt / "x.bin"
    data = bytearray(os.urandom(3 << 20))
    p.write_bytes(data)
    with open(p, "r+b") as f:
        f.seek(1 << 20)
        f.write(b"HELLO")
        f.truncate(2 << 20)
    data[1 << 20:(1 << 20) + 5] = b"HELLO"
    with open(p, "ab") as f:
        f.write(b"tail")
    assert p.read_bytes() == bytes(data[:2 << 20]) + b"tail"
