"""Hosts from ``hosts.toml``: what the operator wrote about each GPU host, or the defaults for one that is only named.

The file is ``$XDG_CONFIG_HOME/eaglewatch/hosts.toml`` (platformdirs' place where that variable is not set)::

    [hosts.gpu1]
    ssh = "user@gpu1.example:2222"     # default: the table's name, as an alias of your ssh config
    data_dir = "~/eaglewatch"
    interpreters = { default = "/opt/trainer/bin/python", serve = "/opt/vllm/bin/python" }
    server = { kind = "systemd", unit = "vllm.service" }
"""

import difflib
import os
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import platformdirs

from pipeline.contract.stages import STAGES
from pipeline.errors import UserError
from pipeline.settings import convert, parse_tree, read_text

APP = "eaglewatch"
REHEARSAL = "rehearsal"
"""The rehearsal host's name: never configured, its own process tells how to reach it."""
EVERY_STAGE = "default"

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._%+-]{0,253})")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+$\\-]{0,127}")
_SHELL_SAFE_PYTHON = re.compile(r"(?:~/)?[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_GPU_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+")


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the host's own inference server is run, for stopping and starting it."""

    kind: Literal["command", "systemd", "container"]
    command: tuple[str, ...] = ()
    """kind command: the program and its arguments."""
    unit: str | None = None
    """kind systemd: the unit."""
    container: str | None = None
    """kind container: its name."""


class HostSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a table of hosts.toml may say."""

    ssh: str | None = None
    """An alias of the ssh config, or user@host:port; None: the table's name."""
    data_dir: str = "~/eaglewatch"
    """On the host: bundles, runs, hidden states."""
    python: str = "python3"
    """Interpreter (3.8 or newer) of the host program; stages have their own."""
    expected_gpus: int = 8
    """0: none, so that nothing is verified before a stage that would need them."""
    gpu_uuids: tuple[str, ...] = ()
    """The GPUs that are meant; empty: any ``expected_gpus``."""
    interpreters: dict[str, str] = {}
    """Stage name or "default" to the interpreter on the host."""
    server: Server | None = None
    port: int | None = None
    user: str | None = None
    client_keys: tuple[str, ...] = ()
    """Private key files here, instead of those of the ssh config."""
    known_hosts: str | None = None
    """A known_hosts file here, instead of those of the ssh config."""
    use_ssh_config: bool = True
    """False: neither ssh config nor ssh agent, only what is given above."""


class Host(HostSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host, resolved."""

    alias: str

    @property
    def target(self) -> "Target":
        """Where to connect, ``port`` and ``user`` counted in. Raises UserError."""
        target = parse_target(self.ssh or self.alias, f"host {self.alias}")
        return Target(target.name, self.user or target.user, self.port or target.port)


class Target(NamedTuple):
    """``name`` is an ssh alias, host name or address; None leaves the rest to the ssh config."""

    name: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return (f"{self.user}@" if self.user else "") + name + (f":{self.port}" if self.port else "")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hosts: dict[str, dict[str, Any]] = {}


def config_dir() -> Path:
    """Where hosts.toml is. XDG_CONFIG_HOME counts on every platform."""
    return _xdg("XDG_CONFIG_HOME") or platformdirs.user_config_path(APP)


def state_dir() -> Path:
    """Where this machine keeps what must last: the audit log, the rehearsal's home. XDG_STATE_HOME counts on every platform."""
    return _xdg("XDG_STATE_HOME") or platformdirs.user_state_path(APP)


def hosts_file() -> Path:
    return config_dir() / "hosts.toml"


def load() -> dict[str, Host]:
    """The configured hosts by alias; empty without a file. Raises UserError."""
    return {alias: host for alias, (host, _) in _read().items()}


def resolve(name: str) -> Host:
    """A configured alias, else an ssh alias or ``user@host:port`` with the defaults. Raises UserError.

    The rehearsal host is not for here: its process tells how to reach it (console.rehearsal).
    """
    if name == REHEARSAL:
        raise UserError(f"{REHEARSAL} is the rehearsal host's name: start it with `{APP} rehearse`")
    hosts = load()
    if name in hosts:
        return hosts[name]
    target = parse_target(name, "host")
    return Host(alias=str(target), ssh=name)


def describe() -> list[tuple[str, str, str]]:
    """Rows (key, value, origin) of everything resolved; origin is ``default``, an environment variable or the file."""
    rows = [
        ("hosts_file", str(hosts_file()), _origin("XDG_CONFIG_HOME") + ("" if hosts_file().exists() else ", not there")),
        ("state_dir", str(state_dir()), _origin("XDG_STATE_HOME")),
    ]
    for alias, (host, written) in _read().items():
        values = msgspec.to_builtins(host)
        for key in HostSettings.__struct_fields__:
            value = alias if key == "ssh" and values[key] is None else values[key]
            rows.append((f"hosts.{alias}.{key}", msgspec.json.encode(value).decode(), "hosts.toml" if key in written else "default"))
    return rows


def parse_target(text: str, what: str) -> Target:
    """``alias``, ``host:port``, ``user@host:port``, an IPv6 address in brackets. Raises UserError; ``what`` names it there."""
    shape = f"{what} {text!r}: write an ssh alias, host:port or user@host:port"
    user, at, rest = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise UserError(f"{shape}; {user!r} is no user name")
    if rest.startswith("["):
        name, bracket, port = rest[1:].partition("]")
        if not bracket or not _IPV6.fullmatch(name) or (port and not port.startswith(":")):
            raise UserError(f"{shape}; brackets are for an IPv6 address, as in [::1]:22")
        port = port[1:] if port else None
    elif rest.count(":") > 1:
        raise UserError(f"{shape}; put an IPv6 address in brackets, as in [::1]:22")
    else:
        name, colon, port = rest.partition(":")
        port = port if colon else None
        if not _HOST_NAME.fullmatch(name):
            raise UserError(f"{shape}; {name!r} is no host name")
    if port is not None and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise UserError(f"{shape}; the port is a number from 1 to 65535, not {port!r}")
    return Target(name, user if at else None, int(port) if port is not None else None)


def _read() -> dict[str, tuple[Host, set[str]]]:
    """Alias to (host, keys that its table has)."""
    path = hosts_file()
    if not path.exists():
        return {}
    tree = parse_tree(read_text(str(path)), str(path))
    for key, value in tree.items():
        if key != "hosts" and isinstance(value, dict) and "hosts" not in difflib.get_close_matches(key, ["hosts"]):
            raise UserError(f"{path}: {key}: unknown key; a host's table is written [hosts.{key}]")
    file = convert(tree, _File, str(path))
    found = {}
    for alias, table in file.hosts.items():
        where = f"{path}: hosts.{alias}"
        if not _ALIAS.fullmatch(alias):
            raise UserError(f"{where}: a host's name has letters, digits, '.', '_' or '-' only, at most 64")
        if alias == REHEARSAL:
            raise UserError(f"{where}: this name belongs to the rehearsal host; choose another")
        settings = convert(table, HostSettings, where)
        _check(settings, where)
        host = Host(alias=alias, **{key: getattr(settings, key) for key in HostSettings.__struct_fields__})
        parse_target(host.ssh or alias, f"{where}.ssh:")
        found[alias] = host, set(table)
    return found


def _check(host: HostSettings, where: str) -> None:
    """What types alone do not say. Raises UserError."""
    if not _SHELL_SAFE_PYTHON.fullmatch(host.python):
        # It is the one value that a login shell of unknown kind reads.
        raise UserError(f"{where}.python: {host.python!r} may only have letters, digits and _ . / -, and ~/ in front")
    if not host.data_dir.startswith(("/", "~/")) or not host.data_dir.isprintable():
        raise UserError(f"{where}.data_dir: {host.data_dir!r} must be an absolute path, or start with ~/")
    if host.port is not None and not 1 <= host.port <= 65535:
        raise UserError(f"{where}.port: {host.port} is not from 1 to 65535")
    if host.user is not None and not _USER.fullmatch(host.user):
        raise UserError(f"{where}.user: {host.user!r} is no user name")
    if host.expected_gpus < 0:
        raise UserError(f"{where}.expected_gpus: {host.expected_gpus} is negative")
    for uuid in host.gpu_uuids:
        if not _GPU_UUID.fullmatch(uuid):
            raise UserError(f"{where}.gpu_uuids: {uuid!r} is no UUID as `nvidia-smi -L` prints it (GPU-...)")
    if host.gpu_uuids and len(set(host.gpu_uuids)) != host.expected_gpus:
        raise UserError(f"{where}: gpu_uuids names {len(set(host.gpu_uuids))} GPUs, expected_gpus is {host.expected_gpus}; make them agree")
    for stage, interpreter in host.interpreters.items():
        if stage != EVERY_STAGE and stage not in STAGES:
            near = difflib.get_close_matches(stage, [EVERY_STAGE, *STAGES], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the stages are {', '.join(STAGES)}, and {EVERY_STAGE!r} is for all"
            raise UserError(f"{where}.interpreters.{stage}: no such stage; {hint}")
        if not interpreter.startswith(("/", "~/")) or not interpreter.isprintable():
            raise UserError(f"{where}.interpreters.{stage}: {interpreter!r} must be an absolute path, or start with ~/")
    if host.server:
        needed = {"command": "command", "systemd": "unit", "container": "container"}[host.server.kind]
        if not getattr(host.server, needed):
            raise UserError(f"{where}.server: kind {host.server.kind!r} needs {needed!r}")


def _xdg(variable: str) -> Path | None:
    value = os.environ.get(variable, "")
    return Path(value) / APP if value.startswith("/") else None


def _origin(variable: str) -> str:
    return variable if _xdg(variable) else "default"
