#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong under a mount whose reads come by RDMA: damage in the daemon's arena and on its disk, and a daemon that is killed during a page fault.

Runs in tests/vm/vm only, by tests/vm/suite; with Python's own library only. The last line is "N passed, N failed".
"""
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

build, src = pathlib.Path(os.environ["PTIO_BUILD"]), pathlib.Path(os.environ["PTIO_SRC"])
sys.path.insert(0, str(src / "tests/e2e"))
from harm import flip_in_memory  # noqa: E402

MIB = 1 << 20
results = []
work = pathlib.Path(tempfile.mkdtemp())
secret = work / "secret"
secret.touch(0o600)
secret.write_text("a secret that only this test knows\n")
address = "10.77.0.1:7848"


def check(what, right):
    results.append(bool(right))
    print("ok" if right else "FAILED", what, sep=": ", flush=True)


def start_daemon():
    log = open(work / "ptiod.log", "w+b")
    p = subprocess.Popen([build / "tools/ptiod/ptiod", work / "store", "--listen", address, "--secret-file", secret, "--rdma", "yes", "--arena", "64M"],
                         stdout=log, stderr=log)
    while b"listening on" not in (work / "ptiod.log").read_bytes():
        if p.poll() is not None:
            sys.exit("ptiod did not start: " + (work / "ptiod.log").read_text())
        time.sleep(0.1)
    return p


class Mount:
    def __init__(self, name, transport, timeout=30):
        self.point = work / name
        self.point.mkdir()
        self.log = open(work / (name + ".log"), "wb")
        self.process = subprocess.Popen([build / "fs/ptiofs", f"{transport}://{address}", self.point, "-f", "-o", f"secret_file={secret},timeout={timeout}"],
                                        stdout=self.log, stderr=self.log, env=dict(os.environ, PTIO_RDMA_BIND="10.77.0.2"))
        while not (self.point / ".ptio/version").exists():
            if self.process.poll() is not None:
                sys.exit(f"{name} did not mount: " + (work / (name + ".log")).read_text())
            time.sleep(0.1)

    def __truediv__(self, name):
        return self.point / name

    def stop(self):
        subprocess.run(["fusermount3", "-u", "-z", self.point], check=True)
        self.process.wait(timeout=60)

    def metric(self, name):
        for line in (self.point / ".ptio/metrics").read_text().splitlines():
            if line.startswith(f"ptio_{name} "):
                return int(line.split()[1])
        return None


def write(mount, key, data):
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}" % len(data)
    header += b" " * (64 - (11 + len(header)) % 64) + b"\n"
    (mount / key).mkdir(parents=True)
    (mount / key / "full.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data)


def write_model(mount, name, tensors):
    """A safetensors file of several tensors, all rows of 4096 bytes."""
    header, at = {}, 0
    for key, bytes_ in tensors.items():
        header[key] = {"dtype": "U8", "shape": [len(bytes_) // 4096, 4096], "data_offsets": [at, at + len(bytes_)]}
        at += len(bytes_)
    text = json.dumps(header).encode()
    (mount / name).mkdir()
    (mount / name / "m.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(tensors.values()))


def damage_on_disk(pattern, piece):
    for path in (work / "store/objects").rglob(pattern):
        whole = path.read_bytes()
        at = whole.find(piece)
        if at >= 0:
            path.chmod(0o600)
            with open(path, "r+b") as f:
                f.seek(at)
                f.write(bytes([whole[at] ^ 1]))


def ledger_bytes():
    """What processes of this machine have told each other that they verified, and found damaged."""
    return sum(p.stat().st_size for p in (work / "store/verified").glob("*"))


def read(path, want, step=MIB):
    """In whole chunks, or other pieces: (those that are EIO, those that are wrong)."""
    failed = wrong = 0
    fd = os.open(path, os.O_RDONLY)
    for at in range(0, len(want), step):
        try:
            wrong += os.pread(fd, step, at) != want[at:at + step]
        except OSError as e:
            failed += 1
            wrong += e.errno != errno.EIO
    os.close(fd)
    return failed, wrong


daemon = start_daemon()
data = {name: random.Random(name).randbytes(4 * MIB) for name in ("arena", "disk", "fault")}
writer = Mount("writer", "tcp")
for name, bytes_ in data.items():
    write(writer, name, bytes_)
model, damaged = ({key: random.Random(name + key).randbytes(2 * MIB) for key in "ab"} for name in ("model", "damaged"))
write_model(writer, "model", model)
writer.stop()
# As on a machine that was booted since: nothing counts as verified.
daemon.terminate()
daemon.wait(timeout=60)
shutil.rmtree(work / "store/verified", ignore_errors=True)
daemon = start_daemon()
writer = Mount("later", "tcp")
write_model(writer, "damaged", damaged)
writer.stop()
uploaded = ledger_bytes()

first = Mount("first", "rdma")
check("what is whole is read", read(first / "arena/full.bin", data["arena"]) == (0, 0))
check("it came by RDMA", first.metric("rdma_reads_total") > 0)
check("what the daemon verified for it, it tells the folder's other readers", ledger_bytes() > uploaded > 0)
first.stop()
flip_in_memory(daemon.pid, data["arena"][2 * MIB + 1000:2 * MIB + 1100])
second = Mount("second", "rdma")
failed, wrong = read(second / "arena/full.bin", data["arena"])
check(f"a byte damaged in the arena is an error of its chunk ({failed}), never data ({wrong})", (failed, wrong) == (1, 0))
check("and is named", "/arena/full.bin" in (second / ".ptio/errors").read_text())

damage_on_disk("*.safetensors", data["disk"][3 * MIB:3 * MIB + 100])
failed, wrong = read(second / "disk/full.bin", data["disk"])
check(f"a byte damaged on disk is an error ({failed}), never data ({wrong})", 1 <= failed <= 2 and wrong == 0)
check("and is named", "/disk/full.bin" in (second / ".ptio/errors").read_text())


def columns(key, half):
    """A shard on dim 1: pieces of 2048 bytes, which are read as they are, since the daemon has checked the chunks that they lie in."""
    want = b"".join(model[key][at:at + 2048] for at in range(half * 2048, len(model[key]), 4096))
    return read(second / "model" / key / f"tp={half}of2,dim=1/shard.bin", want)


check("columns of a tensor of a file are read", columns("b", 0) == (0, 0))
told = ledger_bytes()
damage_on_disk("*.blob", damaged["b"][MIB:MIB + 100])
failed, wrong = read(second / "damaged/b/tp=0of2,dim=1/shard.bin", b"".join(damaged["b"][at:at + 2048] for at in range(0, 2 * MIB, 4096)), step=4096)
check(f"a byte damaged on disk in a file of several tensors is an error ({failed}), never data ({wrong})", failed > 0 and wrong == 0)
check("and what was told of it is withdrawn", ledger_bytes() > told)
second.stop()

third = Mount("third", "rdma", timeout=5)
child = subprocess.Popen([sys.executable, "-c", """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
m = mmap.mmap(fd, 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
m[0]
print("mapped", flush=True)
sys.stdin.readline()
print("read", m[len(m) - 1], flush=True)
""", third / "fault/full.bin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
check("a view is mapped", child.stdout.readline() == "mapped\n")
daemon.send_signal(signal.SIGKILL)
daemon.wait()
child.stdin.write("go\n")
child.stdin.flush()
# The first MiBs may be here already, read ahead; then there is nothing to fault.
end = child.wait(timeout=120)
check(f"a daemon that is killed ends who faults, or the byte was here ({end})", end == -signal.SIGBUS or child.stdout.read() == f"read {data['fault'][-1]}\n")
daemon = start_daemon()
for _ in range(300):
    try:
        if read(third / "fault/full.bin", data["fault"]) == (0, 0):
            break
    except OSError:
        pass
    time.sleep(0.1)
check("the mount recovers", read(third / "fault/full.bin", data["fault"]) == (0, 0))
third.stop()
daemon.terminate()
daemon.wait()
if not all(results):
    for log in work.glob("*.log"):
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
sys.exit(not all(results))
