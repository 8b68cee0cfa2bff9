"""From the HOST of a command line to how it is reached."""

import json
import re
from typing import TYPE_CHECKING

from console import config
from console.config import Host
from console.headless.output import Output

if TYPE_CHECKING:
    from console.rehearsal.start import RehearsalHost

_PLAIN_PYTHON = re.compile(r"[A-Za-z0-9_./-]+")


def find(name: str, output: Output) -> Host:
    """The host by its name; the rehearsal host is started when it does not run. Raises UserError or StageError."""
    return reach(start_rehearsal(output)) if name == config.REHEARSAL else config.resolve(name)


def start_rehearsal(output: Output, fresh: bool = False, fault: str | None = None) -> "RehearsalHost":
    """Start it, or find it. Raises UserError or StageError."""
    from console.rehearsal import start

    return start.ensure_running(fresh=fresh, fault=fault, say=output.say)


def reach(running: "RehearsalHost") -> Host:
    """How the rehearsal host is reached."""
    return Host(
        alias=config.REHEARSAL,
        ssh=f"{running.user}@{running.address}:{running.port}",
        data_dir=running.data_dir,
        # The command line of the host program takes plain names only; PATH there begins with this interpreter's directory.
        python=running.interpreter if _PLAIN_PYTHON.fullmatch(running.interpreter) else "python3",
        interpreters={config.EVERY_STAGE: running.interpreter},
        client_keys=(running.client_key,),
        known_hosts=running.known_hosts,
        use_ssh_config=False,
    )


def interpreter_of(host: Host, stage: str) -> str | None:
    """The interpreter that hosts.toml names for a stage; None when it names none."""
    return host.interpreters.get(stage) or host.interpreters.get(config.EVERY_STAGE)


def interpreter_lines(host: Host, stage: str, interpreter: str) -> list[str]:
    """What to write into hosts.toml so that a stage has its interpreter."""
    if host.alias in config.load():  # its table is there already, and TOML takes each table once
        return [f"[hosts.{host.alias}.interpreters]", f"{stage} = {json.dumps(interpreter)}"]
    setting = f"interpreters = {{ {stage} = {json.dumps(interpreter)} }}"
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", host.target.name).strip("-") or "gpu1"
    return [f"[hosts.{name}]", f"ssh = {json.dumps(str(host.target))}", setting]
