"""Tensors of files as keys of their directory: names with slashes, what is nearest, and what is written in their place."""
import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import safetensors.torch
import torch

X = torch.arange(24.0).reshape(4, 6)


def slashed(mnt, name="d"):
    """A flattened tree of parameters, as jax programs save it."""
    d = mnt.key(name)
    safetensors.torch.save_file({"enc/dense/kernel": X, "enc/dense/bias": X[0].clone(), "enc/w.weight": X + 1, "enc": X + 2, "full/shard": X + 3, "a//b": X + 4,
                                 "/c": X + 5, "d/": X + 6, "../e": X + 7}, d / "m.safetensors")
    return d


def test_a_slash_in_a_name_is_a_directory(mnt):
    d = slashed(mnt)
    for path, want in (("enc/dense/kernel", X), ("enc/dense/bias", X[0]), ("enc/w.weight", X + 1), ("enc", X + 2), ("%66ull/%73hard", X + 3), ("%2E./e", X + 7)):
        assert torch.equal(torch.load(d / path / "full"), want), path
        assert torch.equal(torch.load(d / path / "tp=1of2,dim=0" / "shard"), want.chunk(2)[1]), path
        assert os.getxattr(d / path / "full", "user.ptio.key").decode() == "d/" + path.replace("%66", "f").replace("%73", "s").replace("%2E", ".")
    assert safetensors.torch.load_file(d / "enc/dense/kernel/full.safetensors").keys() == {"kernel"}
    assert os.listdir(d) == ["m.safetensors"]
    with pytest.raises(OSError):
        os.stat(d / "enc%2Fdense")
    for no in ("enc/dense/nothing", "enc/den", "a/b", "c", "d/full", "enc/dense/full"):
        assert not (d / no).exists(), no


def test_names_that_are_no_keys_are_told_and_nothing_else_is(mnt):
    d = slashed(mnt)
    told = {t["name"]: t for t in json.loads((d / ".ptio.json").read_text())["tensors"]}
    assert {n for n, t in told.items() if "withheld" in t} == {"a//b", "/c", "d/"}
    assert json.loads((d / "enc" / "dense" / "kernel" / ".ptio.json").read_text())["shape"] == [4, 6]
    assert json.loads((d / "enc" / "dense" / ".ptio.json").read_text())["aliases"] == ["enc/dense/bias", "enc/dense/kernel"]


@pytest.mark.parametrize("fmt", ("safetensors", "pt"))
def test_all_files_and_rank_views_have_them(mnt, fmt):
    d = slashed(mnt)
    (d / "tp_plan.json").write_text('{"enc/dense/kernel": "dim=1", "enc": "rowwise"}')
    load = safetensors.torch.load_file if fmt == "safetensors" else torch.load
    every = load(d / f".all.{fmt}")
    assert set(every) == {"enc/dense/kernel", "enc/dense/bias", "enc/w.weight", "enc", "full/shard", "../e"}
    assert torch.equal(every["enc/dense/kernel"], X)
    for r in range(2):
        rank = load(d / f"tp={r}of2" / f".all.{fmt}")
        assert torch.equal(rank["enc/dense/kernel"], X.chunk(2, 1)[r]) and torch.equal(rank["enc/w.weight"], X + 1)
        view = safetensors.torch.load_file(d / f"tp={r}of2" / "m.safetensors")
        assert torch.equal(view["enc/dense/kernel"], X.chunk(2, 1)[r]) and torch.equal(view["a//b"], X + 4)


def test_what_is_nearer_comes_first(mnt):
    d = slashed(mnt)
    (d / "enc" / "dense").mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({"kernel": X * 10}, d / "enc" / "dense" / "n.safetensors")
    assert torch.equal(torch.load(d / "enc/dense/kernel/full"), X * 10)
    assert torch.equal(torch.load(d / "enc/dense/bias/full"), X[0])
    assert torch.equal(torch.load(d / "enc/full"), X + 2)
    every = safetensors.torch.load_file(d / ".all.safetensors")
    assert torch.equal(every["enc/dense/kernel"], X * 10) and torch.equal(every["enc/dense/bias"], X[0])
    torch.save(X * 20, d / "enc/dense/kernel/full")
    assert torch.equal(torch.load(d / "enc/dense/kernel/full"), X * 20)
    assert torch.equal(safetensors.torch.load_file(d / ".all.safetensors")["enc/dense/kernel"], X * 20)
    assert torch.equal(torch.load(d / "enc/dense/bias/full"), X[0]) and torch.equal(torch.load(d / "enc/full"), X + 2)
    shutil.rmtree(d / "enc")
    assert torch.equal(torch.load(d / "enc/dense/kernel/full"), X)
    assert torch.equal(safetensors.torch.load_file(d / "m.safetensors")["enc/dense/kernel"], X)


def test_a_whole_directory_moves_and_the_root_has_them_too(mnt):
    slashed(mnt)
    os.rename(mnt / "d", mnt / "moved")
    assert torch.equal(torch.load(mnt / "moved/enc/dense/kernel/full"), X)
    os.rename(mnt / "moved" / "m.safetensors", mnt / "m.safetensors")
    assert torch.equal(torch.load(mnt / "enc/dense/kernel/full"), X)
    assert not (mnt / "moved" / "enc").exists()


@pytest.mark.parametrize("how", ("write", "rename onto", "numpy", "mkdir"))
def test_writing_where_an_alias_is_makes_the_key(mnt, how):
    d = slashed(mnt)
    target = d / "enc" / "dense" / "kernel"
    if how == "write":
        torch.save(X * 2, target / "full.pt")
    elif how == "rename onto":
        torch.save(X * 2, d / "tmp.pt")
        os.replace(d / "tmp.pt", target / "full.pt")
    elif how == "numpy":
        np.save(d / "tmp.npy", (X * 2).numpy())
        os.rename(d / "tmp.npy", target / "full.npy")
    else:
        (d / "enc" / "dense" / "new").mkdir()
        assert torch.equal(torch.load(target / "full"), X)
        torch.save(X * 2, d / "enc" / "dense" / "new" / "full")
        assert torch.equal(torch.load(d / "enc/dense/new/full"), X * 2)
        return
    assert torch.equal(torch.load(target / "full"), X * 2)
    assert not (d / "full").exists() and "tmp.pt" not in os.listdir(d)
    assert json.loads((target / ".ptio.json").read_text())["key"] == "d/enc/dense/kernel"


def test_a_failed_write_leaves_the_tensor_of_the_file(mnt):
    d = slashed(mnt)
    for name in ("enc/dense/kernel", "enc"):
        with pytest.raises(OSError):
            (d / name / "full.npy").write_bytes(b"no tensor at all, however long")
        (d / "junk").write_bytes(b"no tensor")
        with pytest.raises(OSError):
            os.replace(d / "junk", d / name / "full")
        assert torch.equal(torch.load(d / name / "full"), {"enc/dense/kernel": X, "enc": X + 2}[name]), name
        assert (d / "junk").read_bytes() == b"no tensor"


@pytest.mark.parametrize("how", ("copytree", "file last", "cp", "tar"))
def test_a_directory_with_keys_beside_a_file_of_their_names_is_copied(mnt, scratch, how):
    d = slashed(mnt)
    torch.save(X * 3, d / "enc/dense/kernel/full")
    torch.save(X * 4, d / "enc/full")
    if how == "file last":
        shutil.copytree(d, mnt / "copy", ignore=shutil.ignore_patterns("*.safetensors"))
        shutil.copy(d / "m.safetensors", mnt / "copy")
    elif how == "copytree":
        shutil.copytree(d, mnt / "copy")
    elif how == "cp":
        subprocess.run(["cp", "-r", d, mnt / "copy"], check=True)
    else:
        subprocess.run(["sh", "-c", f"mkdir {mnt.point}/copy && tar -C {d} -c . | tar -C {mnt.point}/copy -x"], check=True)
    subprocess.run(["diff", "-r", d, mnt / "copy"], check=True)
    assert torch.equal(torch.load(mnt / "copy/enc/dense/kernel/full"), X * 3) and torch.equal(torch.load(mnt / "copy/enc/full"), X * 4)
    assert torch.equal(torch.load(mnt / "copy/enc/dense/bias/full"), X[0])
    info = json.loads((mnt / "copy/enc/.ptio.json").read_text())
    assert info["key"] == "copy/enc" and info["revision"] == 1


def test_files_may_be_made_beside_a_tensor_of_a_file(mnt):
    d = slashed(mnt)
    (d / "enc" / "dense" / "notes.txt").write_text("hello")
    os.symlink("notes.txt", d / "enc" / "dense" / "link")
    assert sorted(os.listdir(d / "enc" / "dense")) == ["link", "notes.txt"] and sorted(os.listdir(d)) == ["enc", "m.safetensors"]
    assert torch.equal(torch.load(d / "enc/dense/kernel/full"), X)
