"""A store on another machine: ptiod exports it, mounts and the command line use it as if it were here."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
import torch

import clients
from clients import cut, random_array, shard_range
from conftest import PTIO, PTIOFS, metrics
from daemons import PTIOD, Daemon, free_port

X = random_array("float32", (256, 512), 1)
Y = random_array("float32", (256, 512), 2)


@pytest.fixture
def options(daemon):
    return f"secret_file={daemon.secret},timeout=5"


def test_writers_on_one_mount_and_readers_on_another_meet(mounts, daemon, options, scratch):
    here, there = mounts("here", daemon.uri, options), mounts("there", daemon.uri, options)
    here.key("w")
    for rank, how in enumerate((clients.write_torch, clients.write_safetensors, clients.write_numpy, clients.write_cp)):
        how(X, here / "w" / f"writer={rank}of4,dim=1" / "full", scratch)
    for name, read in clients.READERS.items():
        assert read(there / "w" / "full", X) == X, name
    for rank in range(3):
        lo, hi = shard_range(256, rank, 3)
        assert clients.read_np_load(there / "w" / f"tp={rank}of3,dim=0" / "shard", X) == cut(X, 0, lo, hi)
    clients.write_torch(Y, there / "w" / "full", scratch)
    assert clients.read_torch(here / "w" / "full", Y) == Y
    (here / "config.json").write_text("{}")
    assert (there / "config.json").read_text() == "{}"
    os.rename(there / "w", there / "v")
    assert clients.read_load_file(here / "v" / "full", Y) == Y


def test_an_open_file_keeps_its_revision_across_an_upsert_elsewhere(mounts, daemon, options, scratch):
    here, there = mounts("here", daemon.uri, options), mounts("there", daemon.uri, options)
    clients.write_torch(X, here.key("w") / "full", scratch)
    with open(there / "w" / "full.bin", "rb", buffering=0) as f:
        first = f.read(1000)
        clients.write_torch(Y, here / "w" / "full", scratch)
        assert first + f.readall() == X.data
    assert clients.read_bin_cp(there / "w" / "full", Y) == Y


def test_the_command_line_works_on_a_daemon(daemon, scratch):
    base = [str(PTIO), "-s", daemon.uri, "--secret-file", str(daemon.secret)]
    subprocess.run([*base, "put", str(clients.source(X, "npy", scratch)), "a/w/full"], check=True, capture_output=True)
    assert subprocess.run([*base, "get", "a/w/full.bin"], check=True, capture_output=True).stdout == X.data
    assert b"0 damaged" in subprocess.run([*base, "verify"], check=True, capture_output=True).stdout


@pytest.mark.parametrize("secret", (None, "another secret of sixteen bytes or more"))
def test_without_the_secret_nothing_is_mounted_and_it_says_why(daemon, scratch, secret):
    point = scratch / "locked"
    point.mkdir()
    argv = [str(PTIOFS), daemon.uri, str(point), "-f"]
    if secret:
        (scratch / "wrong").write_text(secret)
        (scratch / "wrong").chmod(0o600)
        argv += ["-o", f"secret_file={scratch / 'wrong'}"]
    done = subprocess.run(argv, capture_output=True, timeout=60)
    assert done.returncode != 0 and b"secret" in done.stderr, done.stderr
    assert not os.path.ismount(point)


def test_no_daemon_is_an_error_in_bounded_time(scratch):
    point = scratch / "nobody"
    point.mkdir()
    begin = time.monotonic()
    done = subprocess.run([str(PTIOFS), f"ptio://127.0.0.1:{free_port()}", str(point), "-f", "-o", "timeout=3"], capture_output=True, timeout=60)
    assert done.returncode != 0 and done.stderr
    assert time.monotonic() - begin < 8 + 5


def test_reads_fail_in_bounded_time_and_the_mount_recovers(mounts, scratch):
    daemon = Daemon(scratch, scratch / "exported").start()
    mount = mounts("mnt", daemon.uri, f"secret_file={daemon.secret},timeout=3")
    key = mount.key("w")
    clients.write_torch(X, key / "full", scratch)
    daemon.stop(signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(OSError):
        (key / "full.bin").read_bytes()
    assert time.monotonic() - begin < 8
    daemon.start()
    deadline = time.monotonic() + 30
    while True:
        try:
            assert clients.read_bin_mmap(key / "full", X) == X
            break
        except OSError:
            assert time.monotonic() < deadline, "the mount did not recover"
            time.sleep(0.2)
    clients.write_torch(Y, key / "full", scratch)
    assert clients.read_torch(key / "full", Y) == Y
    assert daemon.stop() == 0


def save(path, value, begun):
    x = torch.full((64, 4096), value)
    begun.set()
    torch.save(x, path)


def test_a_daemon_killed_during_writes_leaves_the_old_or_the_new_revision(mounts, scratch, torch_processes):
    daemon = Daemon(scratch, scratch / "exported").start()
    mount = mounts("mnt", daemon.uri, f"secret_file={daemon.secret},timeout=2")
    key = mount.key("w")
    torch.save(torch.full((64, 4096), 0.0), key / "full")
    value = 0.0
    for pause in (0.0, 0.005, 0.015, 0.03, 0.1, None):        # None: until it is through
        begun = torch_processes.Event()
        writer = torch_processes.Process(target=save, args=(str(key / "full"), value + 1, begun))
        writer.start()
        assert begun.wait(60)
        writer.join(pause)
        daemon.stop(signal.SIGKILL)
        writer.join()
        saved = writer.exitcode == 0
        assert saved or pause is not None
        daemon.start()
        deadline = time.monotonic() + 30
        while True:
            try:
                values = torch.load(key / "full.pt")
                break
            except (OSError, RuntimeError):
                assert time.monotonic() < deadline
                time.sleep(0.2)
        low, high = float(values.min()), float(values.max())
        assert low == high and low in (value, value + 1)
        assert low == value + 1 or not saved, "close() had returned 0"
        value = low
    assert daemon.stop() == 0


def test_status_says_how_the_store_is_reached(mounts, daemon, options):
    mount = mounts("mnt", daemon.uri, options)
    status = json.loads((mount / ".ptio" / "status.json").read_text())
    assert status["store"] == daemon.uri and status["transport"] == "tcp"
    assert status["remote"] == {"peer": f"127.0.0.1:{daemon.port}", "connected": True, "control": "tcp", "connections": 1}


def test_what_is_read_over_the_network_is_counted(mounts, daemon, options, scratch):
    here, there = mounts("here", daemon.uri, options), mounts("there", daemon.uri, options + ",verify=whole")
    for rank in range(4):
        clients.write_numpy(X, here.key("w") / f"writer={rank}of4,dim=0" / "full", scratch)
    before = metrics(there)
    assert clients.read_bin_cp(there / "w" / "full", X) == X
    after = metrics(there)
    assert after["ptio_tcp_read_bytes_total"] - before["ptio_tcp_read_bytes_total"] == len(X.data)
    assert after["ptio_tcp_reads_total"] > before["ptio_tcp_reads_total"]
    assert after["ptio_net_received_bytes_total"] - before["ptio_net_received_bytes_total"] > len(X.data)
    assert after["ptio_net_calls_total"] > before["ptio_net_calls_total"] and after["ptio_net_connected"] == 1
    assert "ptio_rdma_reads_total" not in after


def test_a_local_store_has_no_network_counters(mounts):
    mount = mounts("mnt")
    assert "remote" not in json.loads((mount / ".ptio" / "status.json").read_text())
    assert not [name for name in metrics(mount) if name.startswith(("ptio_net", "ptio_tcp", "ptio_rdma"))]


def test_an_rdma_device_that_is_not_there_is_refused_with_a_sentence(daemon, scratch):
    point = scratch / "nowhere"
    point.mkdir()
    done = subprocess.run([str(PTIOFS), daemon.uri, str(point), "-f", "-o", f"secret_file={daemon.secret},rdma_device=ptio_none"],
                          capture_output=True, timeout=60)
    assert done.returncode != 0 and b"ptio_none" in done.stderr, done.stderr
    assert not os.path.ismount(point)
    done = subprocess.run([str(PTIOD), "mem:1M", "--listen", "127.0.0.1:0", "--secret-file", str(daemon.secret), "--rdma-device", "ptio_none"],
                          capture_output=True, timeout=60)
    assert done.returncode != 0 and b"ptio_none" in done.stderr, done.stderr


def test_a_store_is_reached_over_ipv6(mounts, scratch):
    daemon = Daemon(scratch, scratch / "exported", "--listen", "[::1]:0")
    daemon.start()
    port = next(line for line in daemon.process.stdout if "listening on [::1]:" in line).split("[::1]:")[1].split()[0]
    mount = mounts("mnt", f"ptio://[::1]:{port}", f"secret_file={daemon.secret},timeout=10")
    clients.write_numpy(X, mount.key("w") / "full", scratch)
    assert clients.read_bin_cp(mount / "w" / "full", X) == X
    status = json.loads((mount / ".ptio" / "status.json").read_text())
    assert status["remote"]["peer"] == f"[::1]:{port}" and status["remote"]["connected"]
    daemon.stop()


def test_the_daemon_collects_what_clients_that_died_left_and_nothing_that_is_held(mounts, scratch):
    daemon = Daemon(scratch, scratch / "exported", "--gc", "1", "--lease", "1").start()

    def objects():
        return {p for p in (scratch / "exported" / "objects").rglob("*") if p.is_file()}

    def wait_until(done):
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline, objects()
            time.sleep(0.1)

    try:
        mount = mounts("mnt", daemon.uri, f"secret_file={daemon.secret},timeout=5,gc=off")
        clients.write_torch(X, mount.key("w") / "full", scratch)
        first = objects()
        with open(mount / "w" / "full.bin", "rb", buffering=0) as f:
            assert f.read(1000) == X.data[:1000]
            clients.write_torch(Y, mount / "w" / "full", scratch)
            old = objects()
            assert len(old) == 2
            clients.write_torch(X, mount / "w" / "full", scratch)
            # What nobody reads goes; what is open stays, and is whole.
            wait_until(lambda: len(objects()) == 2)
            assert first < objects()
            assert f.readall() == X.data[1000:]
            mount.kill()
        wait_until(lambda: len(objects()) == 1)
        assert not first & objects()
        assert clients.read_bin_cp(mounts("again", daemon.uri, f"secret_file={daemon.secret},timeout=5,gc=off") / "w" / "full", X) == X
    finally:
        assert daemon.stop() == 0


def test_a_state_dict_of_many_tensors_is_one_commit_through_a_daemon(mounts, daemon, options):
    here, there = mounts("here", daemon.uri, options), mounts("there", daemon.uri, options)
    d = here.key("policy")
    (d / "tp_plan.json").write_text('{"*": "dim=0"}')
    for rank, mount in enumerate((here, there)):
        torch.save({f"l.{i}.w": torch.full((2, 4), float(10 * i + rank)) for i in range(150)} | {"step": 7}, mount / "policy" / f"tp={rank}of2" / "model.pt")
    for mount in (here, there):
        got = torch.load(mount / "policy" / "model.pt")
        assert len(got) == 151 and got["step"] == 7
        assert all(got[f"l.{i}.w"][:, 0].tolist() == [10 * i] * 2 + [10 * i + 1] * 2 for i in range(150))
