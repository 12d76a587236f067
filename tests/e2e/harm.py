"""What tests do to a daemon and to what it sends: a relay that damages what passes or stops passing it on, and damage on a disk and in a process's memory.

The relay is a process of its own: clients in the tests' process hold Python's lock while they wait for the filesystem.
"""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading


class Proxy:
    """The tests' end of it."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, __file__, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    @property
    def uri(self):
        return f"ptio://127.0.0.1:{self.port}"

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def flip(self, marker):
        """The first time that these bytes come by, whichever way, the last of them is damaged."""
        self.ask("flip " + marker.hex())

    def flipped(self):
        """How often that has happened."""
        return self.ask("flipped")

    def hold(self):
        """As a cable that is pulled: what is sent does not arrive, and nobody is told."""
        self.ask("hold")

    def release(self):
        self.ask("release")


def objects_of(store):
    """The files of a store's objects, the largest one last."""
    return sorted((p for p in (pathlib.Path(store) / "objects").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


def forget_verified(mnt):
    """As if nobody had verified anything of the mount's store on this machine (docs/SPEC-store.md "What has been verified")."""
    shutil.rmtree(pathlib.Path(mnt.store) / "verified")


def flip_on_disk(path, at):
    """Damages one bit of the byte at `at` of a file, as negative counted from its end."""
    path.chmod(0o600)
    with open(path, "r+b") as f:
        f.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 4]))


def flip_in_memory(pid, marker):
    """Damages one bit of each copy of marker that a process has in its own memory."""
    found = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            where, mode, _, _, inode = line.split()[:5]
            if not mode.startswith("rw"):
                continue
            begin, end = (int(x, 16) for x in where.split("-"))
            if end - begin > 1 << 30:           # a sanitizer's
                continue
            try:
                memory.seek(begin)
                data = memory.read(end - begin)
            except OSError:
                continue
            at = -1
            while (at := data.find(marker, at + 1)) >= 0:
                memory.seek(begin + at)
                memory.write(bytes([marker[0] ^ 1]))
                found += 1
    assert found, "the daemon does not have it in memory"
    return found


class Relay:
    def __init__(self, target):
        self.target = target
        self.marker = None
        self.flipped = 0
        self.going = threading.Event()
        self.going.set()
        self.lock = threading.Lock()            # marker, flipped
        self.listener = socket.create_server(("127.0.0.1", 0))

    def run(self, fn, *arguments):
        threading.Thread(target=fn, args=arguments, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                daemon = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self.run(self.pass_on, client, daemon)
            self.run(self.pass_on, daemon, client)

    def damaged(self, data, before):
        """before: the end of what came before it."""
        at = (before + data).find(self.marker)
        if at < 0:
            return data
        at = max(at + len(self.marker) - 1 - len(before), 0)
        self.marker, self.flipped = None, self.flipped + 1
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]

    def pass_on(self, source, sink):
        before = b""
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 18):
                self.going.wait()
                with self.lock:
                    if self.marker:
                        data = self.damaged(data, before)
                before = data[-200:]
                sink.sendall(data)
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def obey(self, line):
        what, _, value = line.partition(" ")
        with self.lock:
            if what == "flip":
                self.marker = bytes.fromhex(value)
            elif what == "hold":
                self.going.clear()
            elif what == "release":
                self.going.set()
            return self.flipped


if __name__ == "__main__":
    relay = Relay(int(sys.argv[1]))
    print(relay.listener.getsockname()[1], flush=True)
    relay.run(relay.accept)
    for request in sys.stdin:
        print(relay.obey(request.strip()), flush=True)
