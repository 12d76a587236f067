"""What ptio is compared with, where `scripts/setup --bench` put it: Mooncake, JuiceFS, libfuse's passthrough_hp. What is not there is left out, and said so."""
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(os.environ.get("PTIO_BENCH_PEERS") or HERE.parent.parent / ".bench-peers")


class Absent(Exception):
    """Why there is no such peer here."""


def program(name):
    path = FOLDER / "bin" / name
    found = str(path) if path.exists() else shutil.which(name)
    if not found:
        raise Absent(f"{name} is not installed; scripts/setup --bench installs it where it can be had")
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_mounted(point, child, log):
    deadline = time.monotonic() + 30
    while not os.path.ismount(point):
        if child.poll() is not None or time.monotonic() > deadline:
            raise Absent("it did not mount: " + log.read_text(errors="replace")[-300:].strip())
        time.sleep(0.05)


def mounted(stack, argv, point, log, unmount):
    """Runs a filesystem in the foreground until the stack is left."""
    point.mkdir(parents=True)
    with open(log, "wb") as out:
        child = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    stack.callback(child.wait)
    stack.callback(subprocess.run, [*unmount, str(point)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_mounted(point, child, log)


def have_passthrough_hp():
    """Raises Absent where it is not there."""
    program("passthrough_hp")


def passthrough_hp(stack, folder):
    """folder as it shows it, kernel passthrough included where it can. Its log is in the folder."""
    hp = program("passthrough_hp")
    point = folder.parent / (folder.name + "-hp")
    stack.callback(shutil.rmtree, point, ignore_errors=True)
    mounted(stack, [hp, "--foreground", folder, point], point, folder / "hp.log", ["fusermount3", "-u", "-z"])
    return point


def juicefs(stack, folder):
    """An empty volume, its blocks and its index below folder."""
    exe = program("juicefs")
    base, meta = folder / "juicefs", f"sqlite3://{folder}/juicefs.db"
    done = subprocess.run([exe, "format", "--storage", "file", "--bucket", f"{base}/", meta, "bench"], capture_output=True, text=True)
    if done.returncode:
        raise Absent("juicefs format failed: " + done.stderr[-300:].strip())
    mounted(stack, [exe, "mount", "--no-usage-report", "--cache-dir", "memory", "--metrics", f"127.0.0.1:{free_port()}", meta, folder / "jfs"],
            folder / "jfs", folder / "jfs.log", [exe, "umount"])
    return folder / "jfs"


class Mooncake:
    """A master, a process that lends memory, and one that is a client (mooncake_peer.py)."""

    def __init__(self, stack, folder, array_file):
        if not (FOLDER / "mooncake").is_dir():
            raise Absent("mooncake-transfer-engine-non-cuda is not installed; scripts/setup --bench installs it where it can be had")
        if importlib.util.find_spec("torch") is None:
            raise Absent("Mooncake's tensor calls need torch")
        rpc, http, metrics = free_port(), free_port(), free_port()
        libraries = os.pathsep.join(str(p) for p in FOLDER.glob("nvidia/*/lib"))
        self.environment = dict(os.environ, PYTHONPATH=str(FOLDER), LD_LIBRARY_PATH=libraries, MC_TCP_BIND_ADDRESS="127.0.0.1")
        self.log = open(folder / "mooncake.log", "wb")
        stack.callback(self.log.close)
        self.stack, self.children = stack, []
        stack.callback(self.stop)
        # Not the script of that name, whose child would stay when it is ended.
        self.child([str(FOLDER / "mooncake/mooncake_master"), "--rpc_address=127.0.0.1", f"--rpc_port={rpc}", "--enable_http_metadata_server=true",
                    "--http_metadata_server_host=127.0.0.1", f"--http_metadata_server_port={http}", f"--metrics_port={metrics}"])
        deadline = time.monotonic() + 30
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", rpc)) == 0:
                    break
            if time.monotonic() > deadline:
                raise Absent("its master did not start")
            time.sleep(0.1)
        peer = [sys.executable, "-B", str(HERE / "mooncake_peer.py"), str(http), str(rpc), str(array_file)]
        self.ask(self.child([*peer, "lend"]), None)
        self.client = self.child([*peer, "use"])
        self.version = self.ask(self.client, None)["version"]

    def child(self, argv):
        p = subprocess.Popen(argv, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.children.append(p)
        return p

    def ask(self, child, what):
        if what:
            child.stdin.write(what + "\n")
            child.stdin.flush()
        for line in child.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                if "error" in answer:
                    raise Absent(answer["error"])
                return answer
        raise Absent("it ended; see its log")

    def seconds(self, what, dim):
        """write, full, shard: of one round, with a set that is split on dim 0 or 1; the result was equal to what it should be."""
        return self.ask(self.client, f"{what} {dim}")["seconds"]

    def stop(self):
        for p in reversed(self.children):
            p.terminate()
        for p in self.children:
            try:
                p.wait(timeout=20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
            p.stdin.close()
            p.stdout.close()


def version(package):
    found = list(FOLDER.glob(package + "-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").rsplit("-", 1)[1] if found else ""
