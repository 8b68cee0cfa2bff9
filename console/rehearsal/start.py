"""Start the rehearsal host, or find the one that runs. Local by nature; what runs on it is learned through SSH alone."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import console
from console.rehearsal import home as homes
from pipeline.contract import rehearsal
from pipeline.contract.clock import boot_s
from pipeline.contract.files import write_json
from pipeline.errors import StageError, UserError

NEEDED = ("torch", "transformers", "datasets", "tokenizers", "safetensors", "starlette", "uvicorn")
START_WAIT_S = 60.0
LOCK_WAIT_S = 300.0
"""Another console may be building the home: about a minute, longer on a busy machine."""
END_WAIT_S = 10.0
_LOG_BYTES = 1 << 20


@dataclass(frozen=True)
class RehearsalHost:
    """How to reach the rehearsal host, and what its ``hosts.toml`` would say."""

    address: str
    port: int
    user: str
    client_key: str
    known_hosts: str
    data_dir: str
    interpreter: str
    settings_file: str
    """Settings of the rehearsal's run, as TOML."""
    home: str
    simulated: bool = True


def ensure_running(
    home: "str | None" = None,
    fresh: bool = False,
    fault: "str | None" = None,
    idle_s: "float | None" = None,
    say: Callable[[str], None] = lambda line: None,
) -> RehearsalHost:
    """Make the home and start its server where that is needed, and say how to reach it. Blocking; safe to call from two consoles at once.

    ``fresh`` ends what the rehearsal still runs and removes the home first. ``fault`` is armed as in ``rehearsal.parse_fault``; None
    leaves the armed one. ``say`` gets progress lines. Raises UserError (what is missing, or no fault of ours) and StageError.
    """
    if sys.platform != "linux":
        raise UserError("the rehearsal host runs on Linux only; elsewhere, point eaglewatch at a host of your own")
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"the rehearsal needs {', '.join(missing)}: pip install 'eaglewatch[rehearsal]'")
    if fault is not None:
        try:
            rehearsal.parse_fault(fault)
        except ValueError as error:
            raise UserError(f"--fault: {error}") from None
    home = os.path.abspath(home or homes.default_home())
    with homes.exclusive(rehearsal.start_lock_file(home), LOCK_WAIT_S) as alone:
        if not alone:
            raise StageError(f"{rehearsal.start_lock_file(home)}: another console has been starting the rehearsal for {LOCK_WAIT_S:.0f} s")
        if fresh:
            stop_all(home, say)
            if runs := homes.runs(home):
                say(f"--fresh removes the rehearsal's runs: {', '.join(runs)}")
            homes.remove(home)
        homes.make(home)
        write_json(homes.use_file(home), {"boot_s": boot_s()}, durable=False)
        server = homes.running_server(home)
        if server is None:
            _run_module("pipeline.rehearsal.build", [home], "building the rehearsal", say)
            server = _start_server(home, idle_s)
        if fault is not None:
            armed = rehearsal.parse_fault(fault)
            _run_module("pipeline.rehearsal.faults", [home, fault], "clearing the fault" if armed is None else "arming the fault", say)
            if armed is not None:
                say(f"fault {armed.name}: {rehearsal.FAULTS[armed.name]}; to clear it: eaglewatch rehearse --fault {rehearsal.NO_FAULT}")
    return _host(home, server)


def running(home: str) -> RehearsalHost | None:
    """The rehearsal host as it runs now; None when it does not. Starts nothing."""
    server = homes.running_server(home)
    return None if server is None else _host(home, server)


def _host(home: str, server: dict) -> RehearsalHost:
    return RehearsalHost(
        address="127.0.0.1",
        port=server["port"],
        user="rehearsal",
        client_key=rehearsal.client_key_file(home),
        known_hosts=rehearsal.known_hosts_file(home),
        data_dir=rehearsal.data_dir(home),
        interpreter=sys.executable,
        settings_file=rehearsal.settings_file(home),
        home=home,
    )


def _environment() -> "dict[str, str]":
    """For the server and the build: what a program needs to run, nothing of what the operator keeps in the environment."""
    kept = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
    root = str(Path(console.__file__).parent.parent)
    return {**{name: os.environ[name] for name in kept if name in os.environ}, "PYTHONPATH": root, "PYTHONUNBUFFERED": "1"}


def _run_module(module: str, arguments: "list[str]", what: str, say: Callable[[str], None]) -> None:
    """Run a module of the pipeline, which the console must not import, and pass its lines on. Raises StageError with the last of them."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    last = ""
    with process:
        for line in process.stdout:
            last = line.rstrip() or last
            say(last)
    if process.returncode:
        raise StageError(f"{what} failed (exit code {process.returncode}): {last or 'it said nothing'}")


def _start_server(home: str, idle_s: "float | None") -> dict:
    """Start the server and wait until it listens. Raises StageError with the end of its log."""
    path = Path(home, "server.log")
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    command = [sys.executable, "-P", "-m", "console.rehearsal.server", "--home", home]
    if idle_s is not None:
        command += ["--idle-s", str(idle_s)]
    with open(path, "ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home, env=_environment(), start_new_session=True
        )
    deadline = time.monotonic() + START_WAIT_S
    while time.monotonic() < deadline:
        server = homes.running_server(home)
        if server is not None:
            return server
        if process.poll() is not None:
            break
        time.sleep(0.02)
    lines = path.read_text(errors="replace").splitlines()
    raise StageError(f"the rehearsal's server did not start; {path} ends: {lines[-1] if lines else '(empty)'}")


def stop_all(home: str, say: Callable[[str], None] = lambda line: None) -> None:
    """End the server, then what its sessions started. Raises UserError when a stage that was started otherwise still runs."""
    if not Path(home, homes.MARKER).is_file():
        return
    server = homes.running_server(home)
    if server is not None:
        _end({server["pid"]: server["start_ticks"]})
    if processes := homes.session_processes(home):
        say(f"ending {len(processes)} processes of the rehearsal")
        _end(processes)
    deadline = time.monotonic() + END_WAIT_S
    while (held := homes.stage_locks_held(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if held:
        raise UserError(f"{held[0]}: held by a stage that the rehearsal's server did not start: end it, then try again")


def _end(processes: "dict[int, int]") -> None:
    """SIGTERM, and SIGKILL for who is left; each through a descriptor that was opened while pid and start ticks agreed."""
    descriptors = {}
    for pid, ticks in processes.items():
        with contextlib.suppress(ProcessLookupError):
            descriptors[pid] = os.pidfd_open(pid)
            if homes.start_ticks(pid) != ticks:
                os.close(descriptors.pop(pid))
    try:
        for number, wait_s in ((signal.SIGTERM, END_WAIT_S), (signal.SIGKILL, END_WAIT_S)):
            for descriptor in descriptors.values():
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)
                    signal.pidfd_send_signal(descriptor, signal.SIGCONT)  # a frozen one sees the first signal only then
            deadline = time.monotonic() + wait_s
            while time.monotonic() < deadline:
                if not any(homes.start_ticks(pid) == processes[pid] for pid in descriptors):
                    return
                time.sleep(0.05)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
