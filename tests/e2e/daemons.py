"""A ptiod of the build under test."""
import signal
import socket
import subprocess

from conftest import BUILD

PTIOD = BUILD / "tools" / "ptiod" / "ptiod"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    def __init__(self, scratch, store, *arguments):
        self.scratch, self.store, self.arguments = scratch, store, arguments
        self.process, self.port = None, free_port()
        self.secret = scratch / "secret"
        self.secret.write_text("a secret of more than sixteen bytes\n")
        self.secret.chmod(0o600)

    @property
    def uri(self):
        return f"ptio://127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen([str(PTIOD), str(self.store), "--listen", f"127.0.0.1:{self.port}", "--secret-file", str(self.secret),
                                         *self.arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if "listening on" in line:
                return self
        raise RuntimeError("ptiod did not start")

    def stop(self, number=signal.SIGTERM):
        if self.process is None:
            return 0
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.process = None
        return code
