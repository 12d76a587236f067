"""What goes wrong between a mount and its daemon: each is an error in bounded time or no matter at all, never wrong bytes, never a hang, and the mount goes on by itself."""
import errno
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import clients
from clients import random_array
from conftest import PTIO
from daemons import Daemon, free_port
from harm import Proxy, flip_in_memory, flip_on_disk, objects_of

TIMEOUT = 3                     # timeout= of the mounts
IN_TIME = TIMEOUT + 5
X = random_array("uint8", (3 << 20,), 1)
Y = random_array("uint8", (3 << 20,), 2)
BIG = random_array("uint8", (32 << 20,), 3)


@pytest.fixture
def daemon(scratch):
    d = Daemon(scratch, scratch / "exported").start()
    yield d
    d.stop()


def options(daemon):
    return f"secret_file={daemon.secret},timeout={TIMEOUT}"


def eventually(fn):
    """Calls it until it raises no OSError: the mount recovers by itself."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return fn()
        except OSError:
            assert time.monotonic() < deadline, "the mount did not recover"
            time.sleep(0.1)


def pieces_are_true(path, want, step=4096):
    """Reads it in pieces; those that can be read are right. Returns how many cannot."""
    bad = 0
    with open(path, "rb", buffering=0) as f:
        for at in range(0, len(want), step):
            try:
                assert os.pread(f.fileno(), step, at) == want[at:at + step], at
            except OSError as e:
                assert e.errno == errno.EIO
                bad += 1
    return bad


MAPPER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
m = mmap.mmap(fd, 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
first = m[0]
print("mapped", flush=True)
sys.stdin.readline()
assert m[0] == first
print("touching", flush=True)
print("read", m[len(m) - 1], flush=True)
"""


def mapper(path):
    child = subprocess.Popen([sys.executable, "-c", MAPPER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout.readline() == "mapped\n"
    return child


def touch(child):
    child.stdin.write("go\n")
    child.stdin.flush()
    assert child.stdout.readline() == "touching\n"


def wait_until_it_waits(child):
    """In the kernel, for a page."""
    deadline, still = time.monotonic() + 20, 0
    while still < 10:
        assert child.poll() is None and time.monotonic() < deadline
        still = still + 1 if pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(") ", 1)[1][0] in "DS" else 0
        time.sleep(0.01)


@pytest.mark.parametrize("serve", ("auto,open_wait=0", "stream"))
def test_a_daemon_killed_during_a_page_fault_ends_only_who_faulted(mounts, daemon, scratch, serve):
    here, there, local = mounts("here", daemon.uri, options(daemon)), mounts("there", daemon.uri, options(daemon) + f",serve={serve}"), mounts("local")
    clients.write_torch(BIG, here.key("w") / "full", scratch)
    clients.write_torch(X, local.key("w") / "full", scratch)
    path = there / "w" / "full.bin"
    child = mapper(path)
    daemon.process.send_signal(signal.SIGSTOP)
    touch(child)
    wait_until_it_waits(child)
    begin = time.monotonic()
    daemon.stop(signal.SIGKILL)
    # Meanwhile who does not need the daemon is not held up.
    assert (there / ".ptio" / "status.json").read_text()
    assert clients.read_bin_cp(local / "w" / "full", X) == X
    assert child.wait(timeout=60) == -signal.SIGBUS
    assert time.monotonic() - begin < IN_TIME
    assert child.stdout.read() == ""
    daemon.start()
    eventually(lambda: os.stat(path))

    def mapped_again():
        again = mapper(path)
        touch(again)
        text = again.stdout.read()
        if again.wait() == -signal.SIGBUS:
            raise OSError("not yet")
        assert text == f"read {BIG.data[-1]}\n"

    eventually(mapped_again)


def test_a_byte_damaged_on_the_daemons_disk_is_an_error_never_data(mounts, daemon, scratch):
    here = mounts("here", daemon.uri, options(daemon))
    clients.write_torch(X, here.key("w") / "full", scratch)
    path, = objects_of(scratch / "exported")
    flip_on_disk(path, -(1 << 20) - 5)
    there = mounts("there", daemon.uri, options(daemon))
    with pytest.raises(OSError) as e:
        (there / "w" / "full.bin").read_bytes()
    assert e.value.errno == errno.EIO
    assert 0 < pieces_are_true(there / "w" / "full.bin", X.data) < len(X.data) // 4096
    assert "/w/full.bin" in there.errors() and "checksum" in there.errors()


def test_a_byte_damaged_in_the_daemons_memory_is_an_error_never_data(mounts, scratch):
    daemon = Daemon(scratch, "mem:64M").start()
    try:
        here, there = mounts("here", daemon.uri, options(daemon)), mounts("there", daemon.uri, options(daemon))
        clients.write_torch(X, here.key("w") / "full", scratch)
        flip_in_memory(daemon.process.pid, X.data[2_000_000:2_000_100])
        assert 0 < pieces_are_true(there / "w" / "full.bin", X.data) < len(X.data) // 4096
        assert "/w/full.bin" in there.errors() and "checksum" in there.errors()
    finally:
        daemon.stop()


def test_a_byte_damaged_on_its_way_to_the_daemon_fails_the_write(mounts, daemon, scratch):
    with Proxy(daemon.port) as proxy:
        here, there = mounts("here", daemon.uri, options(daemon)), mounts("there", proxy.uri, options(daemon))
        clients.write_torch(X, here.key("w") / "full", scratch)
        proxy.flip(Y.data[1_000_000:1_000_100])
        with pytest.raises((OSError, subprocess.CalledProcessError)):
            with open(there / "w" / "full.npy", "wb", buffering=0) as f:
                f.write(clients.file_bytes(Y, "npy"))
        assert proxy.flipped() == 1
        assert clients.read_bin_cp(here / "w" / "full", X) == X
        assert "/w/full" in there.errors()
        clients.write_torch(Y, there / "w" / "full", scratch)
        assert clients.read_bin_cp(here / "w" / "full", Y) == Y


def test_a_byte_damaged_on_its_way_from_the_daemon_is_never_data(mounts, daemon, scratch):
    with Proxy(daemon.port) as proxy:
        here, there = mounts("here", daemon.uri, options(daemon)), mounts("there", proxy.uri, options(daemon))
        clients.write_torch(X, here.key("w") / "full", scratch)
        proxy.flip(X.data[1_000_000:1_000_100])
        bad = pieces_are_true(there / "w" / "full.bin", X.data)
        assert proxy.flipped() == 1
        assert (bad > 0) == ("checksum" in there.errors())
        assert clients.read_bin_cp(there / "w" / "full", X) == X        # the next time it came whole


@pytest.mark.parametrize("fault", ("a daemon that stands still", "a link that is down"))
def test_silence_is_an_error_in_time_and_no_harm_afterwards(mounts, daemon, scratch, fault):
    with Proxy(daemon.port) as proxy:
        mount = mounts("mnt", proxy.uri, options(daemon))
        clients.write_torch(X, mount.key("w") / "full", scratch)
        fd = os.open(mount / "w" / "full.bin", os.O_RDONLY)
        try:
            assert os.read(fd, 4096) == X.data[:4096]
            if fault == "a link that is down":
                proxy.hold()
            else:
                daemon.process.send_signal(signal.SIGSTOP)
            for fn in (lambda: os.pread(fd, 4096, 2 << 20), lambda: (mount / "w" / "full.npy").read_bytes()):
                begin = time.monotonic()
                with pytest.raises(OSError):
                    fn()
                assert time.monotonic() - begin < IN_TIME
            proxy.release()
            daemon.process.send_signal(signal.SIGCONT)
            assert eventually(lambda: os.pread(fd, 4096, 2 << 20)) == X.data[2 << 20:(2 << 20) + 4096]
            assert eventually(lambda: clients.read_bin_cp(mount / "w" / "full", X)) == X
            clients.write_torch(Y, mount / "w" / "full", scratch)
            assert clients.read_bin_cp(mount / "w" / "full", Y) == Y
        finally:
            daemon.process.send_signal(signal.SIGCONT)
            os.close(fd)


def test_the_next_host_of_the_uri_serves_when_one_is_gone(mounts, scratch):
    one, two = (Daemon(scratch, scratch / "exported").start() for _ in range(2))
    try:
        mount = mounts("mnt", f"ptio://127.0.0.1:{free_port()},127.0.0.1:{one.port},127.0.0.1:{two.port}", options(one))
        clients.write_torch(X, mount.key("w") / "full", scratch)
        with open(mount / "w" / "full.bin", "rb", buffering=0) as f:
            assert f.read(4096) == X.data[:4096]
            one.stop(signal.SIGKILL)
            assert f.read(4096) == X.data[4096:8192]
            clients.write_torch(Y, mount / "w" / "full", scratch)
            assert clients.read_bin_cp(mount / "w" / "full", Y) == Y
            rest = bytearray(X.data[:8192])
            while piece := f.read(1 << 20):
                rest += piece
            assert bytes(rest) == X.data
        assert mount.errors() == ""
    finally:
        one.stop()
        two.stop()


def pieces_are_true_at_end(fd, want, step=1 << 20):
    bad = 0
    for at in range(len(want) // 2, len(want), step):
        try:
            assert os.pread(fd, step, at) == want[at:at + step], at
        except OSError as e:
            assert e.errno == errno.EIO
            bad += 1
    return bad


def test_a_lease_that_ran_out_under_a_reader_is_an_error_or_the_old_bytes(mounts, scratch):
    daemon = Daemon(scratch, scratch / "exported", "--lease", "1").start()
    mount = mounts("mnt", daemon.uri, options(daemon) + ",open_wait=0")      # nothing of it is in memory
    clients.write_torch(BIG, mount.key("w") / "full", scratch)
    old, = objects_of(scratch / "exported")
    cli = [str(PTIO), "-s", daemon.uri, "--secret-file", str(daemon.secret)]
    try:
        with open(mount / "w" / "full.bin", "rb", buffering=0) as f:
            assert f.read(4096) == BIG.data[:4096]
            mount.process.send_signal(signal.SIGSTOP)
            subprocess.run([*cli, "put", str(clients.source(X, "npy", scratch)), "w/full"], check=True, capture_output=True)
            deadline = time.monotonic() + 60
            while old.exists():         # while the lease holds it stays
                assert time.monotonic() < deadline
                subprocess.run([*cli, "gc", "--orphans-older-than", "0"], check=True, capture_output=True)
            mount.process.send_signal(signal.SIGCONT)
            assert pieces_are_true_at_end(f.fileno(), BIG.data) > 0
        assert eventually(lambda: clients.read_bin_cp(mount / "w" / "full", X)) == X
    finally:
        mount.process.send_signal(signal.SIGCONT)
        daemon.stop()


@pytest.mark.parametrize("before", (True, False), ids=("made_before", "made_by_the_mount"))
def test_a_daemon_that_comes_back_with_an_empty_store_is_refused_by_name(mounts, scratch, before):
    """As when the disk is not mounted, or memory is gone: nothing is told to be missing, and nothing is written beside what there was."""
    d = Daemon(scratch, scratch / "exported")
    if before:
        mounts("first", d.store).stop()
    d.start()
    mount = mounts("mnt", d.uri, f"secret_file={d.secret},timeout=2")
    key = mount.key("w")
    np.save(key / "full.npy", np.arange(5))
    d.stop(signal.SIGKILL)
    d.store = scratch / "empty"
    d.start()
    for attempt in (lambda: os.listdir(mount.point), lambda: (key / "full.npy").read_bytes(), lambda: mount.key("new"), lambda: np.save(key / "full.npy", np.arange(6))):
        with pytest.raises(OSError) as caught:
            attempt()
        assert caught.value.errno == errno.EIO
    assert "serves another, empty, store than before" in mount.errors()
    d.stop(signal.SIGKILL)
    d.store = scratch / "exported"
    d.start()
    assert np.load(key / "full.npy").tolist() == list(range(5)) and os.listdir(mount.point) == ["w"]
    mount.stop()
    d.stop()
