"""A real OpenSSH server on the loopback address: own keys, own configuration, own home for whoever logs in."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil

from console.config import Host

PROGRAM = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
WAIT_S = 20.0


def make_key(path: Path, passphrase: str = "") -> Path:
    """An ed25519 key pair at ``path`` and ``path``.pub."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arguments = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(arguments, check=True, timeout=30, stdin=subprocess.DEVNULL)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_gone(processes: list[psutil.Process]) -> None:
    """Until all have ended. A zombie has; init takes its time to bury it."""
    deadline = time.monotonic() + WAIT_S
    while any(_alive(process) for process in processes):
        assert time.monotonic() < deadline, f"still there: {processes}"
        time.sleep(0.01)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Sshd:
    """One server. ``directives`` are lines of sshd_config put before the usual ones (the first value counts)."""

    def __init__(self, root: Path, *directives: str):
        assert PROGRAM, "no sshd: install openssh-server"
        self.root = root
        self.port = free_port()
        self.home = root / "home"
        self.home.mkdir(parents=True)
        self.host_key = make_key(root / "host_key")
        self.client_key = make_key(root / "client_key")
        self.known_hosts = root / "known_hosts"
        self.trust(self.host_key)
        self._config = root / "sshd_config"
        self._process: subprocess.Popen[bytes] | None = None
        (root / "authorized_keys").write_bytes((root / "client_key.pub").read_bytes())
        self.configure(*directives)

    def configure(self, *directives: str) -> None:
        """Takes effect at the next start."""
        lines = [
            *directives,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.host_key}",
            f"AuthorizedKeysFile {self.root / 'authorized_keys'}",
            f"PidFile {self.root / 'sshd.pid'}",
            # HOME: so that the login's start-up files are this test's, and ~ is its own.
            f"SetEnv HOME={self.home}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "PrintMotd no",
        ]
        self._config.write_text("\n".join(lines) + "\n")

    def trust(self, key: Path) -> None:
        """Make ``key`` the one that the client expects of this server."""
        kind, data, *_ = key.with_suffix(".pub").read_text().split()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {data}\n")

    def host(self, **changes: object) -> Host:
        """How the console reaches it."""
        fields: dict = {
            "alias": "loop",
            "ssh": f"127.0.0.1:{self.port}",
            "user": getpass.getuser(),
            "client_keys": (str(self.client_key),),
            "known_hosts": str(self.known_hosts),
            "use_ssh_config": False,
        }
        return Host(**{**fields, **changes})  # type: ignore[arg-type]

    def start(self) -> "Sshd":
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with open(self.root / "sshd.log", "ab") as log:
            # sshd starts itself anew for each connection, so it wants its absolute path.
            self._process = subprocess.Popen(
                [str(PROGRAM), "-D", "-e", "-f", str(self._config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.02)
        raise AssertionError(f"sshd did not start: {(self.root / 'sshd.log').read_text()}")

    def sessions(self) -> list[psutil.Process]:
        """The server's processes for connections, without the one that listens and without what runs in the sessions."""
        if self._process is None or self._process.poll() is not None:
            return []
        children = psutil.Process(self._process.pid).children(recursive=True)
        return [child for child in children if child.is_running() and _name(child).startswith("sshd")]

    def drop(self) -> int:
        """SIGKILL every connection; the server goes on listening. How many processes there were."""
        return self._signal(self.sessions(), signal.SIGKILL)

    def freeze(self) -> int:
        """SIGSTOP every connection: a half-open link."""
        return self._signal(self.sessions(), signal.SIGSTOP)

    def thaw(self) -> int:
        return self._signal(self.sessions(), signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL the server and every connection."""
        if self._process is None:
            return
        sessions = self.sessions()
        self._process.kill()
        self._process.wait(WAIT_S)
        self._signal(sessions, signal.SIGKILL)
        wait_gone(sessions)
        self._process = None

    stop = kill

    @staticmethod
    def _signal(processes: list[psutil.Process], number: signal.Signals) -> int:
        for process in processes:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue
        return len(processes)


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""
