"""Model directories through the loaders and savers that people use."""
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import safetensors.torch
import torch

from clients import run


def require(name):
    """The module, or a skip that says what is missing."""
    return pytest.importorskip(name, reason=f"{name} is not installed (tests/requirements-models.txt)")


@pytest.fixture(scope="session")
def sharded(checkpoint, tmp_path_factory):
    """A bf16 checkpoint in four shards with an index, as save_pretrained makes it."""
    transformers = require("transformers")
    path = tmp_path_factory.mktemp("sharded")
    model = transformers.AutoModel.from_pretrained(checkpoint.parent, dtype=torch.bfloat16)
    model.save_pretrained(path, max_shard_size="10MB")
    assert len(list(path.glob("model-*.safetensors"))) >= 4
    return path


def tensors_of(directory):
    out = {}
    for f in sorted(pathlib.Path(directory).glob("*.safetensors")):
        out.update(safetensors.torch.load_file(f))
    return out


def test_transformers_loads_from_the_mount_as_from_disk(mnt, checkpoint):
    transformers = require("transformers")
    shutil.copytree(checkpoint.parent, mnt / "bert")
    ids = torch.arange(1, 65).reshape(4, 16)
    with torch.no_grad():
        want, have = (transformers.AutoModel.from_pretrained(p).eval()(ids).last_hidden_state for p in (checkpoint.parent, mnt / "bert"))
    assert torch.equal(want, have)


def test_a_sharded_bf16_checkpoint_goes_in_and_comes_out(mnt, sharded, scratch):
    transformers = require("transformers")
    shutil.copytree(sharded, mnt / "in")
    for f in sharded.iterdir():
        assert f.read_bytes() == (mnt / "in" / f.name).read_bytes(), f.name
    model = transformers.AutoModel.from_pretrained(mnt / "in", dtype=torch.bfloat16)
    model.save_pretrained(mnt / "out", max_shard_size="10MB")
    subprocess.run(["cp", "-r", mnt / "out", scratch / "out"], check=True)
    want, have = tensors_of(sharded), tensors_of(scratch / "out")
    assert set(want) == set(have) and all(torch.equal(want[k], have[k]) for k in want)
    index = json.loads((mnt / "out" / "model.safetensors.index.json").read_text())
    for name, file in index["weight_map"].items():
        assert torch.equal(safetensors.torch.load_file(mnt / "out" / file)[name], want[name])
    for r in range(2):
        view = tensors_of(mnt / "in" / f"tp={r}of2")
        assert set(view) == set(want)


@pytest.mark.parametrize("direct", [True, False])
def test_fastsafetensors(mnt, checkpoint, direct):
    fast = require("fastsafetensors")
    shutil.copytree(checkpoint.parent, mnt / "bert")
    want = safetensors.torch.load_file(checkpoint)
    loader = fast.SafeTensorsFileLoader(pg=None, device="cpu", nogds=True, disable_cache=direct)
    loader.add_filenames({0: [str(mnt / "bert" / "model.safetensors")]})
    files = loader.copy_files_to_device()
    try:
        for k, w in want.items():
            assert torch.equal(files.get_tensor(k), w), k
    finally:
        files.close()
        loader.close()


def test_runai_model_streamer(mnt, checkpoint):
    runai = require("runai_model_streamer")
    shutil.copytree(checkpoint.parent, mnt / "bert")
    want = safetensors.torch.load_file(checkpoint)
    with runai.SafetensorsStreamer() as streamer:
        streamer.stream_files([str(mnt / "bert" / "model.safetensors")])
        seen = 0
        for name, tensor in streamer.get_tensors():
            assert torch.equal(tensor, want[name]), name
            seen += 1
    assert seen == len(want)


def test_tensorizer(mnt):
    tensorizer = require("tensorizer")
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 100))
    path = str(mnt.key("m") / "model.tensors")
    writer = tensorizer.TensorSerializer(path)
    writer.write_module(model)
    writer.close()
    other = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 100))
    reader = tensorizer.TensorDeserializer(path, device="cpu")
    reader.load_into_module(other)
    reader.close()
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))


def dcp_main(rank, size, directory, store, load):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed._tensor import DTensor, DeviceMesh, Replicate, Shard
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    mesh = DeviceMesh("cpu", list(range(size)))
    whole = torch.arange(64 * 48, dtype=torch.float32).reshape(64, 48)
    dim = 1 if load else 0
    local = torch.zeros_like(whole) if load else whole
    state = {"w": DTensor.from_local(local.chunk(size, dim)[rank].contiguous(), mesh, [Shard(dim)]), "n": torch.tensor(0 if load else 7)}
    if load:
        dcp.load(state, checkpoint_id=directory)
        assert torch.equal(state["w"].redistribute(mesh, [Replicate()]).to_local(), whole) and state["n"].item() == 7
    else:
        dcp.save(state, checkpoint_id=directory)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # past the interpreter's own end, in which gloo's threads can abort a process whose work is done


def test_distributed_checkpoint_resharded_over_four_ranks(mnt, scratch, torch_processes):
    for load in (False, True):
        ps = [torch_processes.Process(target=dcp_main, args=(r, 4, str(mnt / "dcp"), str(scratch / f"rendezvous{load}"), load)) for r in range(4)]
        for p in ps:
            p.start()
        for p in ps:
            p.join()
            assert p.exitcode == 0


def test_maps_that_write(mnt):
    m = np.memmap(mnt / "m.bin", dtype="f4", mode="w+", shape=(700, 300))
    m[:] = np.arange(210000, dtype="f4").reshape(700, 300)
    m.flush()
    del m
    assert np.array_equal(np.fromfile(mnt / "m.bin", dtype="f4"), np.arange(210000, dtype="f4"))
    t = torch.from_file(str(mnt / "t.bin"), shared=True, size=1000, dtype=torch.float32)
    t.fill_(3)
    del t
    assert np.array_equal(np.fromfile(mnt / "t.bin", dtype="f4"), np.full(1000, 3, dtype="f4"))
    a = np.lib.format.open_memmap(mnt / "a.npy", mode="w+", dtype="f4", shape=(100, 10))
    a[:] = 5
    del a
    assert (np.load(mnt / "a.npy") == 5).all()


def test_h5py(mnt):
    h5py = require("h5py")
    with h5py.File(mnt / "x.h5", "w") as f:
        f["a"] = np.arange(10000.0)
        f.create_group("g")["b"] = np.ones((30, 30))
    with h5py.File(mnt / "x.h5", "r+") as f:
        f["a"][5000:] = -1
    with h5py.File(mnt / "x.h5", "r") as f:
        assert np.array_equal(f["a"][:5000], np.arange(5000.0)) and (f["a"][5000:] == -1).all() and f["g/b"].shape == (30, 30)


def test_everyday_tools(mnt, sharded, scratch):
    d = mnt / "model"
    run("cp", "-a", sharded, d)
    run("rsync", "-a", f"{sharded}/", mnt / "rsynced") if shutil.which("rsync") else shutil.copytree(sharded, mnt / "rsynced")
    run("sh", "-c", f"mkdir {mnt.point}/tarred && tar -C {sharded} -c . | tar -C {mnt.point}/tarred -x")
    run("cp", "-r", d, mnt / "copied")
    for other in ("rsynced", "tarred", "copied"):
        run("diff", "-r", sharded, mnt / other)
    run("mv", mnt / "copied", mnt / "moved")
    run("mv", mnt / "moved" / "config.json", d / "renamed.json")
    assert len(run("find", mnt / "moved", "-type", "f").split()) == len(list(sharded.iterdir())) - 1
    run("git", "init", "-q", ".", cwd=d)
    run("git", "add", "-A", cwd=d)
    run("git", "-c", "user.email=a@b", "-c", "user.name=n", "commit", "-qm", "x", cwd=d)
    assert run("git", "status", "--porcelain", cwd=d) == ""
    run("rm", "-r", mnt / "tarred", mnt / "moved", mnt / "rsynced", d)
    assert sorted(os.listdir(mnt.point)) == []


def test_publishing_a_step(mnt, sharded):
    for step in (120, 121):
        run("cp", "-r", sharded, mnt / f"step={step}.tmp")
        run("mv", mnt / f"step={step}.tmp", mnt / f"step={step}")
        run("ln", "-sfn", f"step={step}", mnt / "latest")
        assert len(tensors_of(mnt / "latest")) > 100
        assert os.readlink(mnt / "latest") == f"step={step}"
