"""The ptio command, beside a mount and without one."""
import json
import os
import shutil
import stat
import subprocess
import threading
import time

import numpy as np
import pytest
import safetensors.numpy

import clients
from clients import random_array
from conftest import PTIO
from harm import flip_on_disk, objects_of

X = random_array("float32", (8, 6), 1)


@pytest.fixture
def ptio(scratch):
    def run(*args, check=True, **kwargs):
        done = subprocess.run([str(PTIO), "-s", str(scratch / "store"), *map(str, args)], capture_output=True, **kwargs)
        if check:
            assert done.returncode == 0, done.stderr.decode()
        return done
    return run


def put(ptio, scratch, array, path, fmt="npy"):
    return ptio("put", clients.source(array, fmt, scratch), path)


@pytest.mark.parametrize("fmt", ("npy", "pt", "safetensors"))
def test_put_and_get_without_a_mount(ptio, scratch, fmt):
    put(ptio, scratch, X, "a/w/full", fmt)
    out = scratch / "out.npy"
    ptio("get", "-o", out, "a/w/full.npy")
    assert clients.from_numpy(np.load(out)) == X
    assert ptio("get", "a/w/tp=1of2,dim=0/shard.bin").stdout == X.data[len(X.data) // 2:]


def test_get_writes_to_what_is_no_file_and_through_links(ptio, scratch):
    put(ptio, scratch, X, "a/w/full")
    fifo, link, behind, null = scratch / "fifo", scratch / "link", scratch / "behind", scratch / "null"
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE)
    ptio("get", "-o", fifo, "a/w/full.bin")
    assert reader.communicate(timeout=60)[0] == X.data
    assert fifo.is_fifo()
    behind.write_bytes(b"old")
    link.symlink_to("behind")
    ptio("get", "-o", link, "a/w/full.bin")
    assert link.is_symlink() and behind.read_bytes() == X.data
    os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    ptio("get", "-o", null, "a/w/full.bin")
    assert null.is_char_device()
    assert b"Is a directory" in ptio("get", "-o", scratch, "a/w/full.bin", check=False).stderr
    assert sorted(p.name for p in scratch.iterdir()) == ["behind", "fifo", "link", "null", "source.npy", "store"]


def test_what_the_command_writes_the_mount_shows_and_the_other_way_round(ptio, scratch, mnt):
    put(ptio, scratch, X, "a/w/full")
    assert clients.read_torch(mnt / "a" / "w" / "full", X) == X
    clients.write_torch(X, mnt.key("b") / "writer=0of1,dim=0" / "full", scratch)
    assert ptio("get", "b/full.bin").stdout == X.data


def test_a_set_by_four_commands_commits_with_the_last(ptio, scratch):
    for rank in (3, 1, 0):
        assert b"pending" in put(ptio, scratch, X, f"w/writer={rank}of4,dim=1/full").stdout
    failed = ptio("get", "w/full.npy", check=False)
    assert failed.returncode == 1 and b"2" in failed.stderr
    listed, = json.loads(ptio("pending", "--json").stdout)
    assert (listed["key"], listed["have"], listed["missing"]) == ("w", [0, 1, 3], [2])
    assert b"missing 2" in ptio("pending").stdout
    assert b"revision 1" in put(ptio, scratch, X, "w/writer=2of4,dim=1/full").stdout
    assert json.loads(ptio("pending", "--json").stdout) == []
    assert ptio("get", "w/full.bin").stdout == X.data


def test_a_pending_set_of_a_size_beyond_listing_is_told_shortly(ptio, scratch):
    put(ptio, scratch, X, "w/writer=1of65536,dim=1/full")
    listed, = json.loads(ptio("pending", "--json").stdout)
    assert listed["have"] == [1] and listed["missing"][:2] == [0, 2]
    assert listed["missing_count"] == 65535 and len(listed["missing"]) < 10000
    assert len(ptio("pending").stdout) < 1000


def test_a_pending_set_can_be_dropped(ptio, scratch):
    put(ptio, scratch, X, "w/writer=0of4,dim=1/full")
    name = json.loads(ptio("pending", "--json").stdout)[0]["set"]
    ptio("pending", f"--drop={name}")
    assert b"nothing" in ptio("pending").stdout
    assert ptio("pending", f"--drop={name}", check=False).returncode == 1


def test_wait_returns_when_the_last_part_arrives(ptio, scratch):
    put(ptio, scratch, X, "w/writer=0of2,dim=0/full")
    done = ptio("wait", "--complete", "--timeout=0.3", "w", check=False)
    assert done.returncode == 3 and b"pending" in done.stderr
    results = []
    waiter = threading.Thread(target=lambda: results.append(ptio("wait", "--complete", "--timeout=60", "w", check=False)))
    waiter.start()
    time.sleep(0.3)
    put(ptio, scratch, X, "w/writer=1of2,dim=0/full")
    waiter.join()
    assert results[0].returncode == 0 and b"revision 1" in results[0].stdout


def test_ls_names_what_the_mount_lists(ptio, scratch, mnt):
    put(ptio, scratch, X, "a/w/full")
    for rank in range(2):
        put(ptio, scratch, X, f"a/v/dp=1of2/tp={rank}of2,dim=1/full")
    (mnt / "a" / "config.json").write_text("{}")
    os.symlink("w", mnt / "a" / "latest")
    for path in ("a", "a/w", "a/v", "a/v/dp=1of2"):
        names = ptio("ls", path).stdout.decode().splitlines()
        assert sorted(n.split(" -> ")[0].rstrip("/") for n in names) == sorted(os.listdir(mnt / path)), path
    longer = ptio("ls", "-lR").stdout.decode()
    assert "float32" in longer and "[8,6]" in longer and "a/v/dp=1of2/tp=0of2,dim=1/" in longer


def test_stat_says_what_a_tensor_is_made_of(ptio, scratch):
    for rank in range(2):
        put(ptio, scratch, X, f"w/writer={rank}of2,dim=1/full")
    info = json.loads(ptio("stat", "w").stdout)
    assert (info["key"], info["dtype"], info["shape"], info["complete"]) == ("w", "float32", [8, 6], True)
    assert len(info["scopes"][0]["objects"]) == 2


def test_rm_removes_a_scope_a_tensor_a_tree(ptio, scratch):
    for name in ("a/b/w/full", "a/b/w/dp=0of2/full", "a/c/full"):
        put(ptio, scratch, X, name)
    ptio("rm", "a/b/w/dp=0of2")
    assert ptio("get", "a/b/w/dp=0of2/full.bin", check=False).returncode == 1
    assert ptio("get", "a/b/w/full.bin").stdout == X.data
    assert ptio("rm", "a/b", check=False).returncode == 1
    ptio("rm", "-r", "a/b")
    assert ptio("ls", "a").stdout == b"c/\n"
    ptio("rm", "a/c")
    assert ptio("ls").stdout == b""
    assert ptio("rm", "a/c", check=False).returncode == 1
    ptio("rm", "-f", "a/c")
    ptio("gc")
    assert not [p for p in (scratch / "store" / "objects").rglob("*") if p.is_file()]


def test_gc_keeps_what_a_reader_holds(ptio, scratch, mnt):
    put(ptio, scratch, X, "w/full")
    with open(mnt / "w" / "full.bin", "rb", buffering=0) as f:
        assert f.read(8) == X.data[:8]
        put(ptio, scratch, random_array("float32", (8, 6), 2), "w/full")
        assert b"kept 1" in ptio("gc").stdout
        assert f.read() == X.data[8:]
    deadline = time.monotonic() + 20        # RELEASE comes after close() has returned
    while b"removed 1 objects" not in ptio("gc").stdout:
        if len([p for p in (scratch / "store" / "objects").rglob("*") if p.is_file()]) == 1:
            break       # the mount's own collector was first
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_verify_names_the_damaged_object(ptio, scratch):
    put(ptio, scratch, X, "good/full")
    put(ptio, scratch, random_array("uint8", (3 << 20,), 2), "bad/full")
    assert b"0 damaged" in ptio("verify").stdout
    flip_on_disk(objects_of(scratch / "store")[-1], 1 << 20)
    failed = ptio("verify", check=False)
    assert failed.returncode == 1 and b"1 damaged" in failed.stdout and b"bad" in failed.stderr and b"good" not in failed.stderr


def test_ordinary_files_go_in_and_out(ptio, scratch, mnt):
    data = os.urandom(5 << 20)
    (scratch / "f").write_bytes(data)
    ptio("put", scratch / "f", "dir/tokenizer.json")
    assert ptio("get", "dir/tokenizer.json").stdout == data
    assert (mnt / "dir" / "tokenizer.json").read_bytes() == data


def two_tensors(scratch):
    path = scratch / "two.safetensors"
    safetensors.numpy.save_file({"a": np.arange(600_000, dtype="float32"), "b": np.ones((3, 4), "float16")}, path)
    return path


def test_tensor_files_of_a_mount_are_read_and_verified(ptio, scratch, mnt):
    source = two_tensors(scratch)
    (mnt / "model").mkdir()
    shutil.copy(source, mnt / "model" / "m.safetensors")
    assert ptio("get", "model/m.safetensors").stdout == source.read_bytes()
    assert b"1 objects" in ptio("verify").stdout
    flip_on_disk(objects_of(scratch / "store")[-1], 1 << 20)
    failed = ptio("verify", check=False)
    assert failed.returncode == 1 and b"1 damaged" in failed.stdout and b"model" in failed.stderr


def test_tensor_files_of_the_command_are_tensors_in_a_mount(ptio, scratch, mnt):
    source = two_tensors(scratch)
    ptio("put", source, "model/m.safetensors")
    assert (mnt / "model" / "m.safetensors").read_bytes() == source.read_bytes()
    assert np.load(mnt / "model" / "b" / "full.npy").tolist() == [[1] * 4] * 3
    ptio("put", "-", "model/m.safetensors", input=b"no tensors")
    assert ptio("get", "model/m.safetensors").stdout == b"no tensors"
    ptio("put", "-", "model/m.safetensors", input=source.read_bytes())
    assert np.load(mnt / "model" / "b" / "full.npy").tolist() == [[1] * 4] * 3
    ptio("put", "-", "model/empty", input=b"")
    assert ptio("get", "model/empty").stdout == b""
    assert ptio("put", "-n", source, "model/m.safetensors", check=False).returncode == 1
    info = json.loads(ptio("stat", "model/m.safetensors").stdout)
    assert (info["kind"], info["size"]) == ("tensor file", source.stat().st_size)


def test_put_reads_standard_input_and_no_replace_refuses(ptio, scratch):
    ptio("put", "-", "w/full", input=clients.file_bytes(X, "npy"))
    done = ptio("put", "-n", "-", "w/full", input=clients.file_bytes(X, "npy"), check=False)
    assert done.returncode == 1 and b"stored already" in done.stderr
    ptio("put", "--dtype=int16", "--shape=3,2", "-", "raw/full.bin", input=b"\1\0\2\0\3\0\4\0\5\0\6\0")
    assert np.frombuffer(ptio("get", "raw/full.bin").stdout, "<i2").tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("args,code", ((["nope"], 2), (["get"], 2), (["get", "a/full"], 1), (["put", "/does/not/exist", "a/full"], 1), (["wait", "a"], 2),
                                       (["get", "a/tp=4of4/shard"], 1), ([], 2)))
def test_wrong_use_says_what_to_do(ptio, args, code):
    done = ptio(*args, check=False)
    assert done.returncode == code and done.stderr


def test_without_a_store_it_says_how_to_name_one():
    env = {k: v for k, v in os.environ.items() if k != "PTIO_STORE"}
    done = subprocess.run([str(PTIO), "ls"], capture_output=True, env=env)
    assert done.returncode == 1 and b"PTIO_STORE" in done.stderr


def model(mnt):
    """A model directory with everything that a path can lead to."""
    d = mnt.key("m")
    w = np.arange(48, dtype="float32").reshape(8, 6)
    safetensors.numpy.save_file({"model.layers.0.self_attn.q_proj.weight": w, "enc/dense/kernel": w + 1}, d / "a.safetensors")
    np.save(d / "w.npy", w + 2)
    (d / "config.json").write_text('{"a": 1}')
    (d / "sub").mkdir()
    shutil.copy(d / "a.safetensors", d / "sub")
    clients.write_numpy(X, mnt.key("m/key") / "full", None)
    os.symlink("m", mnt / "latest")
    return d


def test_every_path_that_a_mount_reads_is_read(ptio, mnt):
    model(mnt)
    q = "model.layers.0.self_attn.q_proj.weight"
    for path in ("m/a.safetensors", "m/tp=1of4/a.safetensors", "m/tp=0of4/config.json", "m/tp=1of2/sub/a.safetensors", "m/tp=1of2/w.npy", "m/.all.safetensors",
                 "m/tp=1of4/.all.pt", "m/.ptio.json", "m/key/.ptio.json", "m/enc/dense/kernel/.ptio.json", "m/enc/dense/.ptio.json", "m/enc/dense/kernel/full",
                 f"m/{q}/tp=1of2/shard.npy", "m/w/full.safetensors", "m/w/tp=1of2,dim=1/shard.bin", "m/key/full", "m/tp=0of2,dim=0/key/shard.npy",
                 "latest/tp=1of4/a.safetensors", f"latest/{q}/full.npy", "m/sub/enc/dense/kernel/full.npy", "m/tp=0of4//a.safetensors"):
        assert ptio("get", path).stdout == (mnt / path).read_bytes(), path
    assert np.array_equal(safetensors.numpy.load(ptio("get", "m/tp=1of4/a.safetensors").stdout)[q], np.arange(48, dtype="float32").reshape(8, 6)[2:4])
    for path in ("m/nothing", "m/tp=1of4/nothing", "m/enc/dense/no/full", "m/enc/full", "m/tp=4of4/a.safetensors", "m/a.safetensors/full", "m/tp=1of4", "m/enc"):
        failed = ptio("get", path, check=False)
        assert failed.returncode == 1 and failed.stderr, path
    for path in ("m/tp=1of4", "m/tp=1of2/sub"):
        assert sorted(n.rstrip("/") for n in ptio("ls", path).stdout.decode().splitlines()) == sorted(os.listdir(mnt / path)), path


def test_ranks_put_their_state_dicts(ptio, scratch, mnt):
    w = np.arange(48, dtype="float32").reshape(8, 6)
    names = ["model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.o_proj.weight", "model.norm.weight"]
    whole = {names[0]: w, names[1]: w + 1, names[2]: w[0].copy()}
    safetensors.numpy.save_file(whole, scratch / "whole.safetensors")
    for rank in range(4):
        ptio("put", scratch / "whole.safetensors", f"m/writer={rank}of4/model.safetensors")
    for rank in range(2):
        part = {names[0]: np.split(w, 2)[rank], names[1]: np.ascontiguousarray(np.split(w + 1, 2, 1)[rank]), names[2]: w[0].copy()}
        safetensors.numpy.save_file(part, scratch / "part.safetensors")
        ptio("put", scratch / "part.safetensors", f"t/tp={rank}of2/model.safetensors")
    for d in ("m", "t"):
        back = safetensors.numpy.load(ptio("get", f"{d}/model.safetensors").stdout)
        assert back.keys() == whole.keys() and all(np.array_equal(back[k], whole[k]) for k in whole)
        assert (mnt / d / "model.safetensors").read_bytes() == ptio("get", f"{d}/model.safetensors").stdout
        assert np.array_equal(safetensors.numpy.load_file(mnt / d / "tp=1of2" / "model.safetensors")[names[1]], (w + 1)[:, 3:])
    ptio("put", "-", "t/tp=0of2/notes.txt", input=b"of rank 0")
    assert (mnt / "t" / "tp=0of2" / "notes.txt").read_bytes() == ptio("get", "t/tp=0of2/notes.txt").stdout == b"of rank 0"
    assert not (mnt / "t" / "notes.txt").exists()
    for bad in ("t/.ptio.json", "t/.all.pt", "t/model.safetensors", "t/tp=0of2", "full"):
        failed = ptio("put", scratch / "part.safetensors", bad, check=False)
        assert failed.returncode == 1 and failed.stderr, bad
    safetensors.numpy.save_file({"unknown.name": w}, scratch / "unknown.safetensors")
    failed = ptio("put", scratch / "unknown.safetensors", "t/tp=0of2/model.safetensors", check=False)
    assert failed.returncode == 1 and b"unknown.name" in failed.stderr


def test_a_tensor_of_a_file_is_replaced_by_a_key(ptio, scratch, mnt):
    d = model(mnt)
    put(ptio, scratch, X, "m/enc/dense/kernel/full")
    assert clients.read_torch(d / "enc" / "dense" / "kernel" / "full", X) == X
    assert safetensors.numpy.load_file(d / "a.safetensors")["enc/dense/kernel"].sum() == (np.arange(48) + 1).sum()
    ptio("put", scratch / "store" / "no such file", "m/new/key/full", check=False)
    failed = ptio("put", "-", "m/new/key/full", input=b"no tensor", check=False)
    assert failed.returncode == 1 and not (d / "new").exists()
    put(ptio, scratch, X, "m/new/key/full")
    assert clients.read_torch(d / "new" / "key" / "full", X) == X
