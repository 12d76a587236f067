"""What the README prints for a newcomer works as it is printed: the first session, and the demonstration's main job."""
import ast
import pathlib
import re
import shutil
import subprocess
import sys

from conftest import BUILD, PTIO

SRC = pathlib.Path(__file__).resolve().parents[2]


def block(text, first):
    """The indented block that starts with the line `first`."""
    lines = text[text.index("    " + first):].splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("    "))
    return [line[4:] for line in lines[:end]]


def test_the_first_session_of_the_readme(mnt):
    lines = [line.replace("/ptio", str(mnt.point)) for line in block((SRC / "README.md").read_text(), "import os, numpy as np, torch")]
    names = {}
    exec("\n".join(lines), names)
    shown = [re.split(r"\s+# ", line) for line in lines if re.match(r"(np|torch)\..*# ", line)]
    assert len(shown) == 2, "the README shows two results"
    for expression, result in shown:
        assert eval(expression, names) == ast.literal_eval(result), expression


def test_the_path_of_the_readme_has_the_programs():
    line = next(line for line in block((SRC / "README.md").read_text(), "./scripts/setup &&") if line.startswith("export PATH="))
    path = line.removeprefix("export PATH=").replace("$B", str(BUILD)).replace(":$PATH", "")
    for program in ("ptiofs", "ptio", "ptiod"):
        assert shutil.which(program, path=path), program


def test_the_demonstration_prints_its_steps_in_order(mnt):
    out = subprocess.run([sys.executable, SRC / "scripts" / "demo.py", mnt.point, mnt.store, PTIO], capture_output=True, text=True)
    assert out.returncode == 0, out.stdout + out.stderr
    told = out.stdout.splitlines()
    assert told[-1] == "All reads equal slicing the checkpoint in numpy."
    ls = next(i for i, line in enumerate(told) if line.endswith(" writer=3of4,dim=1/full"))
    assert ls > next(i for i, line in enumerate(told) if line.startswith("5. ")), out.stdout
