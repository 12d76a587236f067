"""State dicts that trainers' ranks save part by part: four torch processes, both formats, both ways."""
import collections
import json
import multiprocessing
import os
import signal
import stat
import subprocess
import time

import numpy as np
import pytest
import safetensors.torch
import torch

from conftest import PTIO

RANKS = 4
REFUSED = (OSError, RuntimeError)       # torch has errors of its own for files that it cannot open or write


def model(step):
    g = torch.Generator().manual_seed(step)
    d = {}
    for layer in range(2):
        p = f"model.layers.{layer}."
        d[p + "self_attn.q_proj.weight"] = torch.randn(64, 32, generator=g).bfloat16()
        d[p + "self_attn.o_proj.weight"] = torch.randn(32, 64, generator=g)
        d[p + "mlp.gate_proj.weight"] = torch.randn(50, 32, generator=g)
        d[p + "mlp.down_proj.weight"] = torch.randn(32, 50, generator=g)
        d[p + "input_layernorm.weight"] = torch.randn(32, generator=g)
    d["model.embed_tokens.weight"] = torch.randn(101, 32, generator=g)
    d["steps"] = torch.tensor(step)
    return d


def dim_of(name):
    if "norm" in name or name == "steps":
        return None
    return 1 if "o_proj" in name or "down_proj" in name else 0


def shard(d, r, n):
    out = {}
    for k, v in d.items():
        dim = dim_of(k)
        if dim is None:
            out[k] = v
        else:
            lo, hi = v.shape[dim] * r // n, v.shape[dim] * (r + 1) // n
            out[k] = v.narrow(dim, lo, hi - lo).contiguous()
    return out


def save(d, path):
    if path.endswith(".pt"):
        torch.save(d, path)
    else:
        safetensors.torch.save_file(d, path)


def load(path):
    return torch.load(path) if str(path).endswith(".pt") else safetensors.torch.load_file(path)


def rank_main(directory, kind, fmt, rank, step, tag):
    torch.set_num_threads(1)
    d = model(step)
    save(shard(d, rank, RANKS) if kind == "tp" else d, f"{directory}/{kind}={rank}of{RANKS}{tag}/model.{fmt}")


def run_ranks(ranks, *args):
    ctx = multiprocessing.get_context("fork")
    ps = [ctx.Process(target=rank_main, args=(*args[:3], r, *args[3:])) for r in ranks]
    for p in ps:
        p.start()
    for p in ps:
        p.join()
        assert p.exitcode == 0


def check(d, fmt, want):
    got = load(d / f"model.{fmt}")
    assert set(got) == set(want) and all(torch.equal(got[k], want[k]) for k in want)
    for n in (2, RANKS):
        for r in range(n):
            got, s = load(d / f"tp={r}of{n}" / f"model.{fmt}"), shard(want, r, n)
            assert all(torch.equal(got[k], s[k]) for k in s), (r, n)


@pytest.mark.parametrize("fmt", ["pt", "safetensors"])
@pytest.mark.parametrize("kind", ["writer", "tp"])
def test_ranks_save_and_everybody_reads_the_whole(mnt, kind, fmt):
    d = mnt.key("policy")
    run_ranks(range(RANKS - 1), str(d), kind, fmt, 0, "")
    assert not json.loads((d / ".ptio.json").read_text())["directory_complete"]
    with pytest.raises(OSError):
        open(d / f"model.{fmt}", "rb")
    wait = [str(PTIO), "-s", mnt.store, "wait", "--complete", "--timeout=60", "policy"]
    assert subprocess.run(wait[:-2] + ["--timeout=0.2", "policy"], capture_output=True).returncode == 3
    waiting = subprocess.Popen(wait)
    run_ranks([RANKS - 1], str(d), kind, fmt, 0, "")
    assert waiting.wait() == 0
    assert json.loads((d / ".ptio.json").read_text())["directory_complete"]
    check(d, fmt, model(0))
    run_ranks(range(RANKS), str(d), kind, fmt, 7, ",step=7")
    check(d, fmt, model(7))


def test_a_file_that_was_there_is_shown_until_the_last_rank_has_closed(mnt):
    d = mnt.key("policy")
    safetensors.torch.save_file(model(1), d / "model.safetensors")
    for r in range(RANKS):
        got = load(d / "model.safetensors")
        assert all(torch.equal(got[k], v) for k, v in model(1).items())
        rank_main(str(d), "tp", "safetensors", r, 2, ",step=2")
    check(d, "safetensors", model(2))


def state(d):
    """Everything that the directory's file and keys show, as comparable values."""
    got = load(d / "model.pt")
    return {k: v.tolist() for k, v in got.items()} | {k + "/full": torch.load(d / k / "full").tolist() for k in got}


@pytest.mark.parametrize("kind", ["writer", "tp"])
@pytest.mark.parametrize("first", [0, 3])
def test_all_tensors_change_when_the_last_rank_closes(mnt, kind, first):
    d = mnt.key("policy")
    run_ranks(range(RANKS), str(d), kind, "pt", 1, ",step=1")
    before = state(d)
    assert before["steps"] == 1
    ranks = [first] + [r for r in range(RANKS) if r != first]
    for r in ranks[:-1]:
        rank_main(str(d), kind, "pt", r, 2, ",step=2")
        assert state(d) == before
    rank_main(str(d), kind, "pt", ranks[-1], 2, ",step=2")
    assert state(d)["steps"] == 2
    check(d, "pt", model(2))
    assert json.loads((mnt / ".ptio" / "pending").read_text()) == []


def test_one_rank_that_fails_leaves_what_was_there(mnt):
    d = mnt.key("policy")
    run_ranks(range(RANKS), str(d), "tp", "pt", 1, "")
    before = state(d)
    for r in range(RANKS - 1):
        rank_main(str(d), "tp", "pt", r, 2, ",step=2")
    bad = shard(model(2), RANKS - 1, RANKS) | {"who.knows": torch.ones(3, 3)}
    with pytest.raises(REFUSED):
        torch.save(bad, d / f"tp={RANKS - 1}of{RANKS},step=2" / "model.pt")
    assert "who.knows" in mnt.errors() and state(d) == before
    assert not any(p["key"].endswith("who.knows") for p in json.loads((mnt / ".ptio" / "pending").read_text()))
    assert "who.knows" not in os.listdir(d)
    rank_main(str(d), "tp", "pt", RANKS - 1, 2, ",step=2")
    check(d, "pt", model(2))


def test_a_tensor_that_does_not_fit_the_others_makes_nothing_readable(mnt):
    d = mnt.key("policy")
    (d / "tp_plan.json").write_text('{"x": "dim=0", "y": "dim=0"}')
    torch.save({"x": torch.ones(2, 4), "y": torch.ones(2, 3)}, d / "tp=0of2" / "model.pt")
    torch.save({"x": torch.ones(2, 4), "y": torch.ones(2, 5)}, d / "tp=1of2" / "model.pt")
    with pytest.raises(OSError):
        open(d / "model.pt", "rb")
    assert "y" in mnt.errors()
    torch.save({"x": torch.ones(2, 4), "y": torch.ones(2, 3)}, d / "tp=1of2" / "model.pt")
    assert torch.load(d / "model.pt")["y"].shape == (4, 3)


@pytest.mark.parametrize("fault", ["crash", "crash-after", "error=EIO"])
def test_whichever_commit_fails_all_of_a_file_is_there_or_nothing(mounts, fault):
    m = mounts()
    d = m.key("policy")
    run_ranks(range(RANKS), str(d), "tp", "pt", 1, "")
    before = state(d)
    for r in range(RANKS - 1):
        rank_main(str(d), "tp", "pt", r, 2, ",step=2")
    for n in range(40):
        m.stop()
        os.environ["PTIO_FAULTS"] = f"meta.commit:{fault}:after={n}" + (":times=1" if "=" in fault else "")
        try:
            m.start()
        finally:
            del os.environ["PTIO_FAULTS"]
        try:
            rank_main(str(d), "tp", "pt", RANKS - 1, 2, ",step=2")
            saved = True
        except REFUSED:
            saved = False
        if not os.path.exists(m / ".ptio" / "version"):         # killed
            m.process.wait()
            subprocess.run(["fusermount3", "-uz", str(m.point)])
            m.process = None
            m.start()
        elif saved:
            break
        if state(d) != before:
            break
    assert n > 0
    check(d, "pt", model(2))


def test_any_tensors_failure_fails_close_and_is_named(mnt):
    d = mnt.key("policy")
    with pytest.raises(OSError):
        with open(d / "tp=0of2" / "model.pt", "wb") as f:
            torch.save({"lm_head.weight": torch.ones(4, 4), "mystery": torch.ones(4, 4)}, f)
    assert "mystery" in mnt.errors()
    assert os.listdir(d) == []
    (d / "tp_plan.json").write_text('{"mystery": "replicate", "deep": "dim=3"}')
    for r in range(2):
        torch.save({"lm_head.weight": torch.full((4, 4), float(r)), "mystery": torch.ones(4, 4)}, d / f"tp={r}of2" / "model.pt")
    got = torch.load(d / "model.pt")
    assert got["lm_head.weight"].shape == (8, 4) and torch.equal(got["mystery"], torch.ones(4, 4))
    with pytest.raises(OSError):
        with open(d / "writer=0of2" / "other.pt", "wb") as f:
            torch.save({"deep": torch.ones(4, 4)}, f)
    assert "deep" in mnt.errors()


def test_optimizer_like_files_stay_ordinary_when_they_hold_no_tensor(mnt):
    d = mnt.key("policy")
    (d / "tp=0of2" / "meta.json").write_text("{}")
    assert (d / "tp=0of2" / "meta.json").read_text() == "{}"
    assert "tp=0of2" in os.listdir(d)


def gone(path):
    """The driver hears of the last close after the program has."""
    deadline = time.monotonic() + 20
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not path.exists()


@pytest.mark.parametrize("kind", ["writer", "tp"])
def test_what_is_no_tensor_comes_with_the_tensors_from_the_rank_that_closes_last(mnt, kind):
    d = mnt.key("policy")
    (d / "tp_plan.json").write_text('{"*q_proj.weight": "dim=0", "*norm.weight": "replicate"}')
    q = torch.arange(32.0).reshape(8, 4)

    def write(rank, step, extra=()):
        w = q + step if kind == "writer" else q[4 * rank : 4 * rank + 4] + step
        sd = {"model": collections.OrderedDict([("q_proj.weight", w), ("norm.weight", torch.full((4,), float(step)))]), "step": step,
              "args": {"device": "cpu", "lr": [0.1, (1, None)]}, "rank": rank}
        torch.save(sd | dict(extra), d / f"{kind}={rank}of2,step={step}" / "model.pt")

    def check(step, rank):
        for path, rows in (("model.pt", slice(0, 8)), ("tp=0of2/model.pt", slice(0, 4)), ("tp=1of2/model.pt", slice(4, 8))):
            got = torch.load(d / path)
            assert list(got) == ["model", "step", "args", "rank"] and got["step"] == step and got["rank"] == rank
            assert got["args"] == {"device": "cpu", "lr": [0.1, (1, None)]} and isinstance(got["model"], collections.OrderedDict)
            assert torch.equal(got["model"]["q_proj.weight"], (q + step)[rows]) and got["model"]["norm.weight"].tolist() == [step] * 4

    write(0, 1)
    with pytest.raises(OSError):
        open(d / "model.pt", "rb")
    write(1, 1)
    check(1, 1)
    write(1, 2)
    check(1, 1)
    write(0, 2)
    check(2, 0)
    # A tensor that only one rank has makes it a flat dict: no rank's file has the shape of all.
    write(0, 3, {"own_norm.weight": torch.tensor(2.0)}.items())
    write(1, 3)
    got = torch.load(d / "model.pt")
    assert set(got) == {"model.q_proj.weight", "model.norm.weight", "own_norm.weight"} and got["model.norm.weight"].tolist() == [3.0] * 4


def held(mnt):
    """Bytes on disk: the store's files, and what the driver keeps open without a name."""
    seen = {}
    for root, _, names in os.walk(mnt.store):
        for n in names:
            st = os.stat(os.path.join(root, n))
            seen[st.st_dev, st.st_ino] = st.st_blocks * 512
    for fd in os.listdir(f"/proc/{mnt.process.pid}/fd"):
        try:
            st = os.stat(f"/proc/{mnt.process.pid}/fd/{fd}")
        except OSError:
            continue
        if stat.S_ISREG(st.st_mode):
            seen[st.st_dev, st.st_ino] = st.st_blocks * 512
    return sum(seen.values())


@pytest.mark.nosan
@pytest.mark.parametrize("fmt", ["pt", "safetensors"])
def test_only_a_ranks_slice_is_kept_while_its_file_comes(mnt, scratch, fmt):
    d = mnt.key("policy")
    sd = {f"model.layers.{i}.mlp.gate_proj.weight": torch.randn(1024, 1024) for i in range(12)}       # 48 MiB
    save(sd, str(scratch / f"f.{fmt}"))
    data = (scratch / f"f.{fmt}").read_bytes()
    for r in range(4):
        before, peak = held(mnt), mnt.memory_peak()
        with open(d / f"writer={r}of4" / f"model.{fmt}", "wb", buffering=0) as f:
            for at in range(0, len(data), 100_000):
                f.write(data[at : at + 100_000])
            assert held(mnt) - before < 20 << 20
            assert json.loads((mnt / ".ptio" / "pending").read_text()) == [] or r > 0
        assert mnt.memory_peak() - peak < 24 << 20
    got = load(d / f"model.{fmt}")
    assert all(torch.equal(got[k], sd[k]) for k in sd)


def test_a_file_that_is_stored_while_it_comes_goes_forward_only(mnt, scratch):
    d = mnt.key("policy")
    torch.save({"lm_head.weight": torch.ones(64, 64)}, scratch / "f.pt")
    data = (scratch / "f.pt").read_bytes()
    path = d / "tp=0of2" / "model.pt"
    with pytest.raises(OSError):
        with open(path, "wb", buffering=0) as f:
            f.write(data[:9000])
            with pytest.raises(OSError):
                open(path, "rb").read()
            os.pwrite(f.fileno(), b"x", 10)
    gone(path)
    assert "rename" in mnt.errors() and os.listdir(d) == []
    # Opened for reading as well, it may be written in any order.
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, data[5000:], 5000)
    os.pwrite(fd, data[:5000], 0)
    assert os.pread(fd, len(data), 0) == data
    os.close(fd)
    (d / "model.pt").unlink()
    # So may one that is renamed when it is whole, and one is called as it is when it is closed.
    for r, temp in ((0, ".x"), (1, "y.pt")):
        with open(d / f"tp={r}of2" / temp, "wb") as f:
            f.write(data)
            f.flush()
            os.rename(d / f"tp={r}of2" / temp, d / f"tp={r}of2" / "other.pt")
    assert torch.equal(torch.load(d / "other.pt")["lm_head.weight"], torch.ones(128, 64)) and sorted(os.listdir(d)) == ["lm_head.weight", "other.pt"]


def test_a_rank_killed_in_the_middle_leaves_nothing(mnt, scratch):
    d = mnt.key("policy")
    torch.save({f"model.layers.{i}.mlp.gate_proj.weight": torch.ones(256, 256) for i in range(8)}, scratch / "f.pt")
    data = (scratch / "f.pt").read_bytes()
    for cut in (100, 5000, len(data) // 2, len(data) - 1):
        pid = os.fork()
        if pid == 0:
            fd = os.open(d / "tp=0of2" / "model.pt", os.O_WRONLY | os.O_CREAT)
            os.write(fd, data[:cut])
            os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        if cut > 100:
            gone(d / "tp=0of2" / "model.pt")
        assert json.loads((mnt / ".ptio" / "pending").read_text()) == []
        assert not (d / "model.pt").exists()
    for r in range(2):
        (d / f"tp={r}of2" / "model.pt").write_bytes(data)
    assert torch.load(d / "model.pt")["model.layers.7.mlp.gate_proj.weight"].shape == (512, 256)


def test_a_tensor_that_waits_for_the_others_says_so(mnt):
    d = mnt.key("policy")
    torch.save({"lm_head.weight": torch.ones(4, 4), "model.norm.weight": torch.ones(4)}, d / "tp=0of2" / "model.pt")
    with pytest.raises(OSError):
        open(d / "model.norm.weight" / "full", "rb")
    assert "together with the others of its file" in mnt.errors() and os.listdir(d / "model.norm.weight") == []
    told = subprocess.run([str(PTIO), "-s", mnt.store, "pending"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(told) == 2 and "missing 1" in told[0] and "waits for other tensors of its file" in told[1]
    # It can be written by itself meanwhile; the last rank's close is later, and counts.
    torch.save(torch.zeros(4), d / "model.norm.weight" / "full")
    assert torch.equal(torch.load(d / "model.norm.weight" / "full"), torch.zeros(4))
    torch.save({"lm_head.weight": torch.ones(4, 4), "model.norm.weight": torch.ones(4)}, d / "tp=1of2" / "model.pt")
    assert torch.equal(torch.load(d / "model.norm.weight" / "full"), torch.ones(4))


def test_what_only_begins_like_a_tensor_file_is_an_ordinary_file(mnt, scratch):
    d = mnt.key("policy")
    np.savez(scratch / "a.npz", x=np.arange(5))
    (scratch / "b.zip").write_bytes(b"PK\3\4 and no more of it" * 9)
    for name in ("a.npz", "b.zip"):
        data = (scratch / name).read_bytes()
        with open(d / "tp=0of2" / name, "wb", buffering=0) as f:
            for at in range(0, len(data), 50):
                f.write(data[at : at + 50])
        assert (d / "tp=0of2" / name).read_bytes() == data


@pytest.mark.parametrize("hole", [4096, 3 << 20])
def test_an_ordinary_file_with_holes_keeps_what_follows_them(mnt, hole):
    path = mnt.key("policy") / "tp=0of2" / "b.zip"
    with open(path, "wb", buffering=0) as f:
        f.write(b"PK\3\4")
        f.seek(hole, os.SEEK_CUR)
        f.write(b"what follows" * 100)
    assert path.read_bytes() == b"PK\3\4" + bytes(hole) + b"what follows" * 100


@pytest.mark.nosan
@pytest.mark.parametrize("cut", [4, 100])
def test_a_hole_where_a_header_is_begun_takes_no_memory(mnt, scratch, cut):
    torch.save({"lm_head.weight": torch.ones(4, 4)}, scratch / "f.pt")
    head, peak = (scratch / "f.pt").read_bytes()[:cut], mnt.memory_peak()
    path = mnt.key("policy") / "tp=0of2" / "b.pt"
    with open(path, "wb", buffering=0) as f:
        f.write(head)
        f.truncate(2 << 30)
    assert path.stat().st_size == 2 << 30 and mnt.memory_peak() - peak < 64 << 20
    with open(path, "rb") as f:
        assert f.read(4096) == head.ljust(4096, b"\0")


@pytest.mark.parametrize("kind", ["writer", "tp"])
@pytest.mark.parametrize("complete", [False, True])
def test_two_files_of_a_directory_cannot_share_tensors(mnt, kind, complete):
    d = mnt.key("policy")

    def write(name, value, rank):
        torch.save({"lm_head.weight": torch.full((4, 4), value), "model.norm.weight": torch.full((4,), value)}, d / f"{kind}={rank}of2" / name)

    for r in range(1 + complete):
        write("model.pt", 1.0, r)
    for r in range(2):
        with pytest.raises(REFUSED):
            write("ema.pt", 2.0, r)
        assert "model.pt" in mnt.errors() and "directory of its own" in mnt.errors()
    assert not (d / "ema.pt").exists()
    if not complete:
        write("model.pt", 1.0, 1)
    assert {v.min().item() for v in torch.load(d / "model.pt").values()} == {v.max().item() for v in torch.load(d / "model.pt").values()} == {1.0}
    (d / "model.pt").unlink()
    for r in range(2):
        write("ema.pt", 2.0, r)
    assert {v.min().item() for v in torch.load(d / "ema.pt").values()} == {2.0}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_round_whose_shapes_do_not_agree_changes_nothing(mnt, order):
    d = mnt.key("policy")

    def write(value, rank, columns=4):
        sd = {"lm_head.weight": torch.full((8, columns), value), "model.norm.weight": torch.full((4,), value)}
        torch.save(sd, d / f"writer={rank}of2" / "model.pt")

    for r in range(2):
        write(1.0, r)
    before = state(d)
    for r in order:
        write(2.0, r, 4 + 2 * r)
        assert state(d) == before
    told = subprocess.run([str(PTIO), "-s", mnt.store, "pending"], capture_output=True, text=True, check=True).stdout
    assert "waits for other tensors" in told


@pytest.mark.parametrize("tags", [("", ""), (",step=5", ",step=5"), (",step=5", ",step=6"), ("", ",step=6")])
def test_a_tensor_that_waits_is_taken_by_its_own_ranks_only(mnt, tags):
    d = mnt.key("policy")

    def write(value, rank, size, tag):
        sd = {"lm_head.weight": torch.full((8 // size, 4), value), "model.norm.weight": torch.full((4,), value)}
        torch.save(sd, d / f"tp={rank}of{size}{tag}" / "model.pt")

    def values():
        return {v for t in torch.load(d / "model.pt").values() for v in t.flatten().tolist()}

    write(7.0, 0, 4, tags[0])
    for r in range(2):
        write(8.0, r, 2, tags[1])
    assert values() == {8.0}
    for r in range(1, 4):
        write(7.0, r, 4, tags[0])
    assert values() == {7.0}


@pytest.mark.parametrize("kind", ["writer", "tp"])
@pytest.mark.parametrize("fmt", ["pt", "safetensors"])
@pytest.mark.parametrize("tagged", [False, True])
def test_a_round_with_a_tensor_too_many_changes_nothing_and_the_next_heals(mnt, kind, fmt, tagged):
    d = mnt.key("policy")

    def write(value, rank, extra=False):
        sd = {"lm_head.weight": torch.full((4, 4), value), "model.norm.weight": torch.full((4,), value)}
        if extra:
            sd["model.embed_tokens.weight"] = torch.full((4, 4), value)
        save(sd, f"{d}/{kind}={rank}of2{f',step={value:.0f}' if tagged else ''}/model.{fmt}")

    def values():
        got = load(d / f"model.{fmt}")
        return len(got), {v for t in got.values() for v in t.flatten().tolist()}

    write(1.0, 0)
    write(1.0, 1)
    assert values() == (2, {1.0})
    for rank, extra in ((0, False), (1, True)):
        write(2.0, rank, extra)
        assert values() == (2, {1.0})
    write(3.0, 0)
    assert values() == (2, {1.0})
    write(3.0, 1)
    assert values() == (2, {3.0})
    # All have one more, then one less again.
    for step, extra in ((4.0, True), (5.0, False)):
        before = values()
        write(step, 1, extra)
        assert values() == before
        write(step, 0, extra)
        assert values() == (2 + extra, {step})
    (d / f"model.{fmt}").unlink()
    write(6.0, 1)
    with pytest.raises(OSError):
        open(d / f"model.{fmt}", "rb")
    assert "not all written" in mnt.errors()
    assert not json.loads((d / ".ptio.json").read_text())["directory_complete"]
    write(6.0, 0)
    assert values() == (2, {6.0})


def test_values_that_are_no_tensors_are_those_of_the_round_that_is_shown(mnt):
    d = mnt.key("policy")

    def write(step, rank):
        torch.save({"lm_head.weight": torch.full((4, 4), float(step)), "step": step}, d / f"writer={rank}of2,step={step}" / "model.pt")

    def shown():
        got = torch.load(d / "model.pt")
        return got["step"], got["lm_head.weight"].min().item(), got["lm_head.weight"].max().item()

    write(1, 0)
    write(1, 1)
    write(2, 0)
    write(3, 0)
    assert shown() == (1, 1, 1)
    with open(d / "model.pt", "rb") as f:
        head = f.read(100)
        write(3, 1)
        f.seek(0)
        assert f.read(100) == head
    assert shown() == (3, 3, 3)


@pytest.mark.parametrize("first", [0, 1])
def test_replicated_tensors_alone_wait_for_all_ranks(mnt, first):
    d = mnt.key("policy")
    for step in (1.0, 2.0):
        for r in (first, 1 - first):
            torch.save({"model.norm.weight": torch.full((4,), step)}, d / f"tp={r}of2,step={step:.0f}" / "model.pt")
            if r == first and step == 1.0:
                with pytest.raises(OSError):
                    open(d / "model.pt", "rb")
            else:
                assert torch.load(d / "model.pt")["model.norm.weight"].tolist() == [step - (r == first)] * 4


def test_scopes_of_a_directory_show_in_one_file(mnt):
    d = mnt.key("policy")
    for step in (1.0, 2.0):
        for pp, name in ((0, "model.embed_tokens.weight"), (1, "lm_head.weight")):
            for r in range(2):
                torch.save({name: torch.full((4, 4), step)}, d / f"pp={pp}of2" / f"tp={r}of2" / "model.pt")
        assert set(torch.load(d / "model.pt")) == {"model.embed_tokens.weight", "lm_head.weight"}
