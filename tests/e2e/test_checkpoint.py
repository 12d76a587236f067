"""The main job: a published checkpoint, written by 4 writers that each hold every tensor, read back in other layouts by real clients."""
import itertools
import os
import pathlib

import pytest
from safetensors import safe_open

import clients

SIZES = (1, 2, 3, 4, 8)
WRITERS = 4


def writer_dim(index, shape):
    """Half of the tensors on dim 0, half on dim 1; what has too few dimensions for its half goes on dim 0."""
    return index % 2 if len(shape) > index % 2 else 0


def writer(rank, mountpoint, checkpoint):
    """One training process: it holds whole tensors and stores its own slice of each."""
    import torch
    torch.set_num_threads(1)
    with safe_open(checkpoint, "pt") as f:
        for index, name in enumerate(sorted(f.keys())):
            tensor = f.get_tensor(name)
            base = pathlib.Path(mountpoint) / "minilm" / name
            base.mkdir(parents=True, exist_ok=True)
            target = base / f"writer={rank}of{WRITERS},dim={writer_dim(index, tensor.shape)}" / "full"
            how = (clients.write_torch, clients.write_safetensors, clients.write_numpy)[(index + rank) % 3]
            how(clients.from_torch(tensor), target, None)


def write_all(context, mountpoint, checkpoint):
    processes = [context.Process(target=writer, args=(r, str(mountpoint), str(checkpoint))) for r in range(WRITERS)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    assert [p.exitcode for p in processes] == [0] * WRITERS


@pytest.fixture(scope="module")
def stored(tmp_path_factory, checkpoint, torch_processes):
    """The store with the whole checkpoint, written through a mount of its own."""
    from conftest import Mount
    where = tmp_path_factory.mktemp("checkpoint")
    mount = Mount(where / "store", where / "writers").start()
    try:
        write_all(torch_processes, mount.point, checkpoint)
        assert mount.errors().strip() == "", mount.errors()
    finally:
        assert mount.stop() == 0
    return where / "store"


@pytest.fixture(scope="module")
def tensors(checkpoint):
    with safe_open(checkpoint, "pt") as f:
        return {name: clients.from_torch(f.get_tensor(name)) for name in sorted(f.keys())}


@pytest.fixture
def reader(stored, mounts):
    return mounts("readers", store=stored)


def shards(tensor):
    """Every (directory, expected array) of a tensor in the layouts asked for."""
    for dim, size, split in itertools.product(range(min(2, len(tensor.shape))), SIZES, ("balanced", "chunk")):
        for rank in range(size):
            lo, hi = clients.shard_range(tensor.shape[dim], rank, size, split)
            suffix = ",split=chunk" if split == "chunk" else ""
            yield f"tp={rank}of{size},dim={dim}{suffix}", clients.cut(tensor, dim, lo, hi)


def test_each_tensor_reads_back_in_full_in_every_format_by_every_client(reader, tensors):
    for name, tensor in tensors.items():
        for how, read in clients.READERS.items():
            assert read(reader / "minilm" / name / "full", tensor) == tensor, (name, how)


def test_each_tensor_reads_back_in_every_tp_layout(reader, tensors):
    turn = itertools.cycle(clients.READERS.items())
    for name, tensor in tensors.items():
        for layout, want in shards(tensor):
            how, read = next(turn)
            assert read(reader / "minilm" / name / layout / "shard", want) == want, (name, layout, how)


@pytest.mark.parametrize("how", sorted(clients.READERS))
def test_one_tensor_of_each_shape_reads_in_every_layout_by_each_client(reader, tensors, how):
    seen = set()
    for name, tensor in tensors.items():
        if tensor.shape in seen or len(tensor.data) > 8 << 20:
            continue
        seen.add(tensor.shape)
        for layout, want in shards(tensor):
            assert clients.READERS[how](reader / "minilm" / name / layout / "shard", want) == want, (name, layout)
    assert len(seen) >= 5


def test_the_tree_lists_each_tensor_with_its_writers(reader, tensors):
    assert sorted(os.listdir(reader / "minilm")) == sorted(tensors)
    for index, (name, tensor) in enumerate(tensors.items()):
        dim = writer_dim(index, tensor.shape)
        assert sorted(os.listdir(reader / "minilm" / name)) == [f"writer={r}of{WRITERS},dim={dim}" for r in range(WRITERS)], name


def test_payloads_are_on_disk_once_with_little_around_them(stored, tensors):
    files = [p for p in (stored / "objects").rglob("*") if p.is_file()]
    assert len(files) == WRITERS * len(tensors)
    payload = sum(len(t.data) for t in tensors.values())
    total = sum(p.stat().st_size for p in files)
    assert payload <= total <= payload + 8192 * len(files)


def test_data_files_are_safetensors_files_of_their_own(stored, tensors):
    """Data is never hostage: any safetensors tool reads a store's objects, and they hold every element once."""
    total = 0
    for path in (stored / "objects").rglob("*.safetensors"):
        with safe_open(path, "pt") as f:
            assert list(f.keys()) == ["tensor"]
            assert f.metadata()["ptio.key"].startswith("minilm/")
            total += len(clients.from_torch(f.get_tensor("tensor")).data)
    assert total == sum(len(t.data) for t in tensors.values())
