"""What somebody sees who makes a mistake: each message names the thing that is wrong and what to do."""
import json
import os
import resource
import subprocess

import pytest

import clients
from clients import random_array
from conftest import PTIO, PTIOFS
from daemons import PTIOD, Daemon

X = random_array("float32", (8, 6), 1)


@pytest.fixture
def ptio(scratch):
    def run(*args, **kwargs):
        return subprocess.run([str(PTIO), "-s", str(scratch / "store"), *map(str, args)], capture_output=True, text=True, **kwargs)
    return run


def ptiofs(*args, **kwargs):
    return subprocess.run([str(PTIOFS), *map(str, args)], capture_output=True, text=True, **kwargs)


def source_of(point):
    lines = [line.split() for line in open("/proc/self/mounts")]
    return next(line[0] for line in lines if line[1] == str(point))


def write(data, path):
    """True if write or close failed."""
    try:
        with open(path, "wb", buffering=0) as f:
            f.write(data)
    except OSError:
        return True
    return False


# ---- ptiofs ----

def test_mount_and_df_name_the_store(scratch, mounts):
    assert source_of(mounts().point) == str(scratch / "store")
    assert source_of(mounts("other", store=f"dir:{scratch}/a,b").point) == f"{scratch}/a,b"
    assert source_of(mounts("named", options="fsname=tensors").point) == "tensors"


@pytest.mark.parametrize("args,words", (
    (("no/such/store", "point"), ("no/such/store", "mkdir -p")),
    (("docs", "point"), ("./PATH", "mem:SIZE")),
    (("mem:", "point"), ("64M",)),
    (("mem:8M", "nowhere"), ("nowhere", "mkdir -p")),
    (("mem:8M", "point", "-o", "umask=999"), ("umask=999", "777")),
    (("mem:8M", "point", "-o", "bare=json"), ("bare=json", "safetensors")),
    (("mem:8M", "point", "-o", "nonsense"), ("nonsense", "ptiofs -h")),
    (("mem:8M",), ("usage", "mounted?")),
    ((), ("usage", "store")),
    (("new", "point", "-o", "nocreate"), ("there is no store", "ptio put")),
))
def test_a_mount_that_cannot_be_says_why(scratch, args, words):
    (scratch / "point").mkdir()
    args = [f"{scratch}/{a}" if a in ("no/such/store", "point", "nowhere", "new") else a for a in args]
    done = ptiofs(*args)
    assert done.returncode == 1 and not os.listdir(scratch / "point")
    for word in words:
        assert word in done.stderr


def test_too_few_descriptors_are_told_at_the_start(scratch):
    (scratch / "m").mkdir()
    for program in ([PTIOFS, scratch / "store", scratch / "m"], [PTIOD, scratch / "store", "--insecure"]):
        got = subprocess.run(list(map(str, program)), capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        assert got.returncode == 1, got
        assert "may have only 100 files open" in got.stderr and "ulimit -n" in got.stderr and got.stderr.count("\n") == 1, got.stderr
    assert not os.path.exists(scratch / "store")


def test_a_low_limit_of_descriptors_that_may_be_raised_is_raised(scratch, mounts):
    kept = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, kept[1]))
    try:
        mnt = mounts(options="serve=cache,cache_min=4096")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, kept)
    assert resource.prlimit(mnt.process.pid, resource.RLIMIT_NOFILE) == (kept[1], kept[1])
    for i in range(100):        # each is a descriptor while it is in memory
        (mnt.key(f"w{i}") / "full.npy").write_bytes(clients.file_bytes(random_array("float32", (64, 32), i), "npy"))
        assert (mnt / f"w{i}/full.npy").read_bytes()
    assert mnt.errors() == ""


def test_a_relative_store_is_spelled_with_a_dot(scratch):
    (scratch / "w.npy").write_bytes(clients.file_bytes(X, "npy"))
    subprocess.run([str(PTIO), "-s", "./here", "put", "w.npy", "w/full"], cwd=scratch, check=True, capture_output=True)
    done = subprocess.run([str(PTIO), "-s", f"{scratch}/here", "get", "w/full.bin"], check=True, capture_output=True)
    assert done.stdout == X.data


def test_one_failure_is_one_line(scratch, mnt):
    whole = clients.file_bytes(X, "npy")
    assert write(whole[:-10], mnt.key("w") / "full")
    assert write(b"hello", mnt.key("v") / "full")
    lines = mnt.errors().splitlines()
    assert len(lines) == 2 and "/w/full" in lines[0] and "ended after" in lines[0] and "/v/full" in lines[1], lines


def test_parts_that_disagree_are_seen_as_such(mnt, ptio, scratch):
    other = random_array("float32", (9, 6), 1)
    for rank, array in ((0, other), (1, X)):
        assert not write(clients.file_bytes(array, "npy"), mnt.key("w") / f"writer={rank}of2,dim=0" / "full")
    with pytest.raises(OSError):
        open(mnt / "w" / "full", "rb")
    assert "other sets" in mnt.errors() and "rank 0 has" in mnt.errors()
    sets = json.loads((mnt / ".ptio" / "pending").read_text())
    assert sorted(s["shape"] for s in sets) == [[8, 6], [9, 6]]
    text = ptio("pending").stdout
    assert "float32 [8,6]" in text and "float32 [9,6]" in text
    for s in sets:          # the ids that --drop takes
        assert ptio("pending", f"--drop={s['set']}").returncode == 0
    assert json.loads(ptio("pending", "--json").stdout) == []


def test_pending_shards_have_an_extent_that_is_not_known_yet(mnt, ptio):
    assert not write(clients.file_bytes(X, "npy"), mnt.key("w") / "tp=1of3,dim=0" / "shard")
    assert json.loads((mnt / ".ptio" / "pending").read_text())[0]["shape"] == [None, 6]
    assert json.loads(ptio("pending", "--json").stdout)[0]["shape"] == [None, 6]
    assert "[?,6]" in ptio("pending").stdout
    assert "ranks 0, 2 have" in ptio("get", "w/full").stderr


# ---- ptio ----

@pytest.mark.parametrize("command", ("ls", "stat", "get", "put", "rm", "verify", "pending", "wait", "gc"))
def test_each_command_has_help(ptio, command):
    done = ptio(command, "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: ptio [-s STORE] " + command) and not done.stderr


def test_the_command_does_not_store_into_memory_that_ends_with_it():
    done = subprocess.run([str(PTIO), "-s", "mem:8M", "put", "-", "w/full"], capture_output=True, text=True, input="")
    assert done.returncode == 1 and "ptiofs" in done.stderr


def test_help_is_a_command_too(ptio):
    assert ptio("help").stdout == ptio("--help").stdout


def test_a_path_with_the_mountpoint_in_it_is_told(ptio, mnt):
    done = ptio("ls", mnt / "w")
    assert done.returncode == 1 and "without the mountpoint" in done.stderr


def test_a_part_is_not_removed_alone_nor_takes_the_others_along(ptio, scratch):
    for rank in range(2):
        ptio("put", clients.source(X, "npy", scratch), f"w/tp={rank}of2,dim=0/full")
    for name in ("w/tp=0of2,dim=0", "w/tp=0of2,dim=0/shard", "w/writer=0of2,dim=0"):
        done = ptio("rm", name)
        assert done.returncode == 1 and "KEY/full" in done.stderr, name
    assert ptio("ls", "w").stdout.count("tp=") == 2
    assert ptio("rm", "w/full").returncode == 0 and ptio("ls", "w").stdout == ""


def test_wrong_put_options_name_the_right_ones(ptio):
    assert "bfloat16" in ptio("put", "--dtype=f32", "-", "w/full.bin", input="").stderr
    assert "--dtype" in ptio("put", "-", "w/full.bin", input="abcd").stderr


def test_the_command_follows_links_as_a_mount_does(ptio, scratch, mnt):
    ptio("put", clients.source(X, "npy", scratch), "policy/step=1/wq/full")
    ptio("put", clients.source(X, "npy", scratch), "other/full")
    os.symlink("step=1", mnt / "policy" / "latest")
    os.symlink("../policy/./latest/wq", mnt / "other" / "wq")
    os.symlink("loop", mnt / "loop")
    os.symlink("/elsewhere", mnt / "out")
    for path in ("policy/latest/wq/full.bin", "other/wq/full.bin", "other/wq/tp=0of1,dim=0/shard.bin"):
        done = subprocess.run([str(PTIO), "-s", str(scratch / "store"), "get", path], capture_output=True)
        assert done.stdout == X.data, done.stderr
    assert ptio("ls", "policy/latest/wq").stdout == "full\n"
    assert "Y" not in ptio("put", clients.source(X, "npy", scratch), "policy/latest/new/full").stderr
    assert sorted(os.listdir(mnt / "policy" / "step=1")) == ["new", "wq"]
    assert "links" in ptio("get", "loop/w/full").stderr
    assert "/elsewhere" in ptio("get", "out/w/full").stderr
    assert ptio("rm", "policy/latest").returncode == 0        # the link, not what it leads to
    assert sorted(os.listdir(mnt / "policy")) == ["step=1"]


def test_what_a_state_dict_is_refused_for_is_told_to_the_end_and_with_its_whole_name(mnt):
    directory = mnt.key("models/policy")
    whole = clients.source(X, "pt", mnt.point.parent).read_bytes()
    fd = os.open(directory / "tp=0of2,step=1" / "model.pt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with pytest.raises(OSError):
        os.write(fd, whole)
    with pytest.raises(OSError):
        os.pwrite(fd, whole[:100], 0)           # as a program that looks at no error
    with pytest.raises(OSError):
        os.close(fd)
    lines = mnt.errors().splitlines()
    assert lines and all("no plan says how it is split" in line for line in lines), lines
    assert "models/policy/tp=0of2,step=1/model.pt: " in lines[-1]
    assert not any(" close / " in line for line in lines), lines      # a file that is not there any more is not the root


@pytest.mark.parametrize("daemons,ours", (((), "on"), (("--tls",), "0")))
def test_where_one_side_speaks_tls_and_the_other_does_not_that_is_said(scratch, daemons, ours):
    daemon = Daemon(scratch, "mem:64M", *daemons).start()
    try:
        env = {**os.environ, "PTIO_SECRET_FILE": str(daemon.secret), "PTIO_TIMEOUT": "5"}
        for value, words in ((ours, ("TLS", "ptiod --tls")), ("maybe", ("PTIO_TLS", "maybe"))):
            done = subprocess.run([str(PTIO), "-s", daemon.uri, "ls"], env={**env, "PTIO_TLS": value}, capture_output=True, text=True)
            assert done.returncode == 1
            assert all(word in done.stderr for word in words), done.stderr
        same = {"on": "off", "0": "yes"}[ours]
        assert subprocess.run([str(PTIO), "-s", daemon.uri, "ls"], env={**env, "PTIO_TLS": same}).returncode == 0
    finally:
        daemon.stop()
