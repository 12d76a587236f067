"""A directory as one rank of a layout sees it, and all of it as one file."""
import collections
import json
import os

import pytest
import safetensors.torch
import shutil
import torch
import zipfile

REFUSED = (OSError, RuntimeError)       # torch has errors of its own for files that it cannot open or write


def joined(parts, whole):
    """The parts of one tensor put together, and the dimension that they were cut on (None: each is the whole)."""
    if parts[0].shape == whole.shape and all(p.shape == whole.shape for p in parts):
        assert all(torch.equal(p, whole) for p in parts)
        return whole, None
    dim = next(d for d in range(whole.ndim) if any(p.shape[d] != whole.shape[d] for p in parts))
    return torch.cat(parts, dim), dim


def test_four_rank_views_of_a_checkpoint_make_the_original(mnt, checkpoint):
    shutil.copytree(checkpoint.parent, mnt / "bert")
    whole = safetensors.torch.load_file(checkpoint)
    for n in (2, 4):
        parts = [safetensors.torch.load_file(mnt / "bert" / f"tp={r}of{n}" / "model.safetensors") for r in range(n)]
        dims = {}
        for k, w in whole.items():
            back, dims[k] = joined([p[k] for p in parts], w)
            assert torch.equal(back, w), k
        assert sum(d is not None for d in dims.values()) > 50
        assert dims["encoder.layer.0.attention.output.dense.weight"] == 1 and dims["encoder.layer.0.attention.output.dense.bias"] is None
    view = mnt / "bert" / "tp=1of4"
    assert sorted(os.listdir(view)) == sorted(os.listdir(checkpoint.parent))
    assert (view / "config.json").read_bytes() == (checkpoint.parent / "config.json").read_bytes()
    assert (view / "1_Pooling" / "config.json").read_bytes() == (checkpoint.parent / "1_Pooling" / "config.json").read_bytes()
    info = {t["name"]: t for t in json.loads((mnt / "bert" / ".ptio.json").read_text())["tensors"]}
    assert info["encoder.layer.0.intermediate.dense.weight"]["split_dim"] == 0 and "built-in" in info["encoder.layer.0.intermediate.dense.weight"]["split_why"]


def test_a_plan_in_the_directory_comes_first(mnt):
    d = mnt.key("m")
    x = torch.arange(48.0).reshape(4, 12)
    safetensors.torch.save_file({"model.layers.0.self_attn.q_proj.weight": x, "mine": x.clone()}, d / "m.safetensors")
    (d / "tp_plan.json").write_text(json.dumps({"model.layers.*.self_attn.q_proj": "rowwise", "mine": "dim=1"}))
    got = safetensors.torch.load_file(d / "tp=1of3" / "m.safetensors")
    assert torch.equal(got["mine"], x[:, 4:8]) and torch.equal(got["model.layers.0.self_attn.q_proj.weight"], x[:, 4:8])
    (d / "tp_plan.json").write_text(json.dumps({"mine": "replicate"}))
    got = safetensors.torch.load_file(d / "tp=1of4" / "m.safetensors")
    assert torch.equal(got["mine"], x) and torch.equal(got["model.layers.0.self_attn.q_proj.weight"], x[1:2])


@pytest.mark.parametrize("plan, word", [({"w": "dim=5"}, "w has 2 dimensions"), ({"w": "sideways"}, "sideways")])
def test_a_plan_that_cannot_hold_names_the_tensor(mnt, plan, word):
    d = mnt.key("m")
    safetensors.torch.save_file({"w": torch.ones(4, 4)}, d / "m.safetensors")
    (d / "tp_plan.json").write_text(json.dumps(plan))
    with pytest.raises(OSError):
        open(d / "tp=0of2" / "m.safetensors", "rb")
    assert word in mnt.errors()
    assert torch.equal(torch.load(d / "w" / "full"), torch.ones(4, 4))


def test_scales_follow_their_weight_on_block_boundaries(mnt):
    d = mnt.key("m")
    w = torch.rand(512, 256).to(torch.float8_e4m3fn)
    s = torch.rand(4, 2)
    name = "model.layers.0.mlp.down_proj.weight"
    safetensors.torch.save_file({name: w, name + "_scale_inv": s}, d / "m.safetensors")
    got = safetensors.torch.load_file(d / "tp=1of2" / "m.safetensors")
    assert got[name].shape == (512, 128) and torch.equal(got[name + "_scale_inv"], s[:, 1:])
    with pytest.raises(OSError):
        open(d / "tp=1of4" / "m.safetensors", "rb")
    assert "down_proj.weight_scale_inv" in mnt.errors()


def test_all_files(mnt, checkpoint):
    shutil.copytree(checkpoint.parent, mnt / "m" / "bert")
    torch.save(torch.ones(3), mnt.key("m/extra") / "full.pt")
    whole = safetensors.torch.load_file(checkpoint)
    for load, name in ((safetensors.torch.load_file, ".all.safetensors"), (torch.load, ".all.pt")):
        got = load(mnt / "m" / name)
        assert set(got) == {"bert/" + k for k in whole} | {"extra"}
        assert all(torch.equal(got["bert/" + k], whole[k]) for k in whole)
        got = load(mnt / "m" / "bert" / name)
        assert set(got) == set(whole)
    part = safetensors.torch.load_file(mnt / "m" / "bert" / "tp=2of4" / ".all.safetensors")
    view = safetensors.torch.load_file(mnt / "m" / "bert" / "tp=2of4" / "model.safetensors")
    assert set(part) == set(view) and all(torch.equal(part[k], view[k]) for k in part)


def test_a_state_dict_of_views_is_resharded(mnt):
    x = torch.arange(60.0).reshape(5, 12)
    d = mnt.key("m")
    torch.save({"t": x.t(), "r": x[1:3]}, d / "sd.pt")
    (d / "tp_plan.json").write_text('{"t": "dim=1", "r": "dim=1"}')
    parts = [torch.load(d / f"tp={r}of3" / "sd.pt") for r in range(3)]
    assert torch.equal(torch.cat([p["t"] for p in parts], 1), x.t())
    assert torch.equal(torch.cat([p["r"] for p in parts], 1), x[1:3])


def test_rank_views_at_the_top_of_the_mount(mnt):
    x = torch.arange(32.0).reshape(8, 4)
    sd = {"model.layers.0.self_attn.q_proj.weight": x, "model.norm.weight": torch.ones(4)}
    safetensors.torch.save_file(sd, mnt / "model.safetensors")
    (mnt / "config.json").write_text("{}")
    assert not [n for n in os.listdir(mnt.point) if n.startswith("tp=")]
    for r in range(2):
        view = mnt / f"tp={r}of2"
        assert sorted(os.listdir(view)) == ["config.json", "model.safetensors"] and (view / "config.json").read_text() == "{}"
        got = safetensors.torch.load_file(view / "model.safetensors")
        assert torch.equal(got["model.layers.0.self_attn.q_proj.weight"], x[4 * r : 4 * r + 4]) and torch.equal(got["model.norm.weight"], torch.ones(4))
        assert set(safetensors.torch.load_file(view / ".all.safetensors")) == set(sd)
    assert json.loads((mnt / ".ptio.json").read_text())["directory_complete"]
    # The top is no tensor, and cannot become one.
    for name in ("shard", "full"):
        assert not os.path.exists(mnt / "tp=0of2" / name)
        with pytest.raises(REFUSED):
            torch.save(x, mnt / "tp=0of2" / name)
    # State dicts of ranks go there as into any directory.
    for r in range(2):
        torch.save({"lm_head.weight": torch.full((2, 2), float(r))}, mnt / f"tp={r}of2" / "head.pt")
    assert torch.load(mnt / "head.pt")["lm_head.weight"].tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]


def test_a_plan_beside_a_key_names_the_dimension_that_a_path_leaves_out(mnt):
    d = mnt.key("m")
    x = torch.arange(48.0).reshape(6, 8)
    mnt.key("m/a")
    mnt.key("m/q_proj")
    torch.save(x, d / "a" / "full")
    torch.save(x, d / "q_proj" / "full")
    with pytest.raises(OSError):
        torch.load(d / "a" / "tp=1of2" / "shard")
    (d / "tp_plan.json").write_text(json.dumps({"a": "rowwise", "w": "dim=1"}))
    assert torch.equal(torch.load(d / "a" / "tp=1of2" / "shard"), x[:, 4:])
    # The names that ptio knows by itself are no plan: a reader of a key states the dimension, or the plan does.
    with pytest.raises(OSError):
        torch.load(d / "q_proj" / "tp=1of2" / "shard")
    # Written shards, and slices of whole tensors, are those of the plan.
    for name, view, parts in (("w", "shard", (x[:, :4].clone(), x[:, 4:].clone())), ("a", "full", (x + 1, x + 1))):
        for r in range(2):
            torch.save(parts[r], mnt.key(f"m/{name}") / f"tp={r}of2" / view)
    assert torch.equal(torch.load(d / "w" / "full"), x) and torch.equal(torch.load(d / "a" / "full"), x + 1)
    assert sorted(os.listdir(d / "w")) == ["tp=0of2,dim=1", "tp=1of2,dim=1"]
    # What is stored comes first.
    (d / "tp_plan.json").write_text(json.dumps({"a": "dim=0", "w": "dim=0"}))
    assert torch.equal(torch.load(d / "w" / "tp=1of2" / "shard"), x[:, 4:])
    (d / "tp_plan.json").write_text("{")
    with pytest.raises(REFUSED):
        torch.save(x, mnt.key("m/new") / "tp=0of2" / "shard")
    assert "tp_plan.json" in mnt.errors()


def test_a_ranks_torch_file_keeps_its_shape_and_what_is_no_tensor(mnt):
    d = mnt.key("m")
    x, emb, big = torch.arange(64.0).reshape(8, 8), torch.randn(16, 4), torch.randn(100, 8)
    args = {"device": "cpu", "lr": 1e-3, "betas": (0.9, 0.95), "name": "storage", "none": None, "neg": -5, "big": 2**70, "key": "0", "dtype": torch.bfloat16,
            "size": torch.Size([1, 2]), "bytes": b"abc", "set": {1, 2}}
    model = collections.OrderedDict([("lm_head.weight", emb), ("embed_tokens.weight", emb.detach()), ("same", emb), ("q_proj.weight", x.t()),
                                     ("norm.weight", torch.ones(8, requires_grad=True)), ("bf", torch.ones(8, 8).bfloat16()),
                                     ("u16", torch.arange(8).to(torch.uint16)), ("view.q_proj.weight", big[3:11])])
    sd = {"model": model, "step": 120, "args": args, "again": args, "list": [1, [x, "cpu"], ()], "param": torch.nn.Parameter(torch.ones(3))}
    torch.save(sd, d / "a.pt")
    (d / "tp_plan.json").write_text(json.dumps({"model.same": "dim=0", "model.embed_tokens.weight": "dim=0", "model.lm_head.weight": "dim=0", "*q_proj.weight": "dim=0"}))
    for r in range(2):
        for how in ({"weights_only": True}, {"weights_only": False}, {"mmap": True}):
            got = torch.load(d / f"tp={r}of2" / "a.pt", **how)
            assert list(got) == list(sd) and got["step"] == 120 and got["args"] == args and got["again"] is got["args"]
            m = got["model"]
            assert isinstance(m, collections.OrderedDict) and list(m) == list(model)
            for k in ("lm_head.weight", "embed_tokens.weight", "same"):
                assert torch.equal(m[k], emb[8 * r : 8 * r + 8]), k
            # One tensor stays one, and two on the same storage share it.
            assert m["same"] is m["lm_head.weight"] and m["embed_tokens.weight"] is not m["same"]
            assert m["embed_tokens.weight"].data_ptr() == m["same"].data_ptr()
            assert torch.equal(m["q_proj.weight"], x.t()[4 * r : 4 * r + 4]) and torch.equal(m["view.q_proj.weight"], big[3:11][4 * r : 4 * r + 4])
            assert m["norm.weight"].requires_grad and m["u16"].dtype == torch.uint16 and torch.equal(m["u16"], model["u16"])
            assert torch.equal(got["list"][1][0], x) and got["list"][1][1] == "cpu" and isinstance(got["param"], torch.nn.Parameter)
    names = [i.filename for i in zipfile.ZipFile(d / "tp=0of2" / "a.pt").infolist() if "/data/" in i.filename]
    assert len(names) == 8              # the tied ones have one payload
    assert not any("rank_view" in f for f in json.loads((d / ".ptio.json").read_text())["files"])
    assert set(torch.load(d / ".all.pt")) == {"list.1.0", "param"} | {"model." + k for k in model}


def test_a_torch_file_that_cannot_keep_its_shape_is_a_flat_dict_and_says_why(mnt):
    d = mnt.key("m")
    w = torch.arange(16.0).reshape(4, 4)
    torch.save({"a": w, "b": w, "step": 7}, d / "one.pt")
    (d / "tp_plan.json").write_text(json.dumps({"a": "dim=0", "b": "dim=1", "y": "dim=0"}))
    got = torch.load(d / "tp=1of2" / "one.pt")
    assert set(got) == {"a", "b"} and torch.equal(got["a"], w[2:]) and torch.equal(got["b"], w[:, 2:])
    y = torch.ones(4)
    y.note = "kept"
    torch.save({"y": y, "step": 7}, d / "attr.pt")
    assert torch.load(d / "tp=1of2" / "attr.pt")["y"].shape == (2,)
    why = {f["name"]: f.get("rank_view", "") for f in json.loads((d / ".ptio.json").read_text())["files"]}
    assert "two names" in why["one.pt"] and "attributes" in why["attr.pt"]
