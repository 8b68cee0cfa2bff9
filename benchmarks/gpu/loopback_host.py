"""This machine as the host of the console's commands: an SSH server on the loopback address that runs each session's command here."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import asyncssh

ALIAS = "gpu"


class LoopbackHost:
    """``with LoopbackHost(folder, ...) as host``: the server in a thread, and a configuration that names it.

    ``environment`` is added to that of the sessions' commands. ``drop`` closes the server and all connections for good.
    """

    def __init__(self, folder: Path, expected_gpus: int, environment: "dict[str, str] | None" = None):
        self._folder = folder
        self._expected_gpus = expected_gpus
        self._environment = {**os.environ, **(environment or {})}
        self._connections: list[asyncssh.SSHServerConnection] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.data = folder / "data"

    def __enter__(self) -> "LoopbackHost":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def drop(self) -> None:
        def close() -> None:
            self._acceptor.close()
            for connection in self._connections:
                connection.abort()

        self._loop.call_soon_threadsafe(close)

    async def _listen(self) -> None:
        host_key, client_key = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
        client_key.write_private_key(str(self._folder / "client"))
        connections = self._connections

        class Server(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                connections.append(conn)

        self._acceptor = await asyncssh.create_server(
            Server,
            "127.0.0.1",
            0,
            server_host_keys=[host_key],
            authorized_client_keys=asyncssh.import_authorized_keys(client_key.export_public_key().decode()),
            process_factory=self._session,
            encoding=None,
        )
        port = self._acceptor.get_port()
        (self._folder / "known").write_text(f"[127.0.0.1]:{port} {host_key.export_public_key().decode()}")
        configuration = self._folder / "config" / "eaglewatch"
        configuration.mkdir(parents=True)
        values = {
            "ssh": f"127.0.0.1:{port}",
            "user": "me",
            "client_keys": [str(self._folder / "client")],
            "known_hosts": str(self._folder / "known"),
            "use_ssh_config": False,
            "data_dir": str(self.data),
            "python": sys.executable,
            "expected_gpus": self._expected_gpus,
        }
        lines = [f"[hosts.{ALIAS}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        lines += [f"[hosts.{ALIAS}.interpreters]", f"default = {json.dumps(sys.executable)}"]
        (configuration / "hosts.toml").write_text("\n".join(lines) + "\n")

    async def _session(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        child = await asyncio.create_subprocess_shell(
            str(process.command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
        process.exit(await child.wait())

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start ``eaglewatch WORDS`` beside what runs here; its output is a pipe."""
        words = (sys.executable, "-m", "console", *words)
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=self._operator())

    def _operator(self) -> dict[str, str]:
        return {**os.environ, "XDG_CONFIG_HOME": str(self._folder / "config"), "XDG_STATE_HOME": str(self._folder / "state")}

    def command(self, *words: str, limit_s: float = 400.0) -> dict[str, Any]:
        """Run ``eaglewatch WORDS`` as an operator would: {words, rc, seconds, out, err, last: the object in the last line with --json}."""
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "console", *words], capture_output=True, text=True, timeout=limit_s, env=self._operator(), check=False
        )
        seconds = round(time.monotonic() - began, 2)
        print(f"--- eaglewatch {' '.join(words)}  (rc {done.returncode}, {seconds} s)")
        print(done.stdout[-3000:] + done.stderr[-1500:], flush=True)
        found: dict[str, Any] = {"words": list(words), "rc": done.returncode, "seconds": seconds, "out": done.stdout, "err": done.stderr}
        if "--json" in words:
            with contextlib.suppress(ValueError, IndexError):
                found["last"] = json.loads(done.stdout.splitlines()[-1])
        return found
