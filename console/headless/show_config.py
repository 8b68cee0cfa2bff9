"""``eaglewatch config``: everything resolved, and where each value comes from."""

import argparse
import difflib
import secrets
import subprocess

import msgspec

from console import config
from console.headless import hosts
from console.headless.output import Output, Result
from pipeline.errors import EXIT_DONE, UserError

_SSH_S = 15.0
"""``ssh -G`` runs the ``Match exec`` commands of the config."""


def command(arguments: argparse.Namespace, output: Output) -> int:
    rows = config.describe()
    if arguments.host is not None:
        rows = _of_host(arguments.host, rows)
    for key, value, origin in rows:
        output.data(f"{key} = {value}   # {origin}")
    listed = [{"key": key, "value": value, "origin": origin} for key, value, origin in rows]
    output.json({**Result(EXIT_DONE, False, {}).to_json(), "config": listed})
    return EXIT_DONE


def _of_host(name: str, rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The rows of one host; of one that is only an address or known to ssh, the defaults. Raises UserError for a name that is neither."""
    if name == config.REHEARSAL:
        return _rehearsal()
    keys = {f"hosts.{name}.{field}" for field in config.HostSettings.__struct_fields__}
    mine = [row for row in rows if row[0] in keys]
    if mine:
        return mine
    host = config.resolve(name)
    if not set(name) & set("@:.") and not _ssh_knows(name):
        known = [*config.load(), config.REHEARSAL]
        near = difflib.get_close_matches(name, known, 1, 0.7)
        hint = f"did you mean {near[0]!r}?" if near else f"those that can be named: {', '.join(known)}."
        raise UserError(f"no host {name!r} in {config.hosts_file()} or in your ssh config; {hint} An address is written user@host:port")
    return _values(name, host, "default")


def _rehearsal() -> list[tuple[str, str, str]]:
    """How the rehearsal host is reached, while it runs. Raises UserError when it does not."""
    from console.rehearsal import home, start

    running = start.running(home.default_home())
    if running is None:
        raise UserError(
            f"the {config.REHEARSAL} host does not run now, and has no configuration but what it tells then: `eaglewatch rehearse`"
        )
    return _values(config.REHEARSAL, hosts.reach(running), "the rehearsal host")


def _values(name: str, host: config.Host, origin: str) -> list[tuple[str, str, str]]:
    told = msgspec.to_builtins(host)
    return [(f"hosts.{name}.{key}", msgspec.json.encode(told[key]).decode(), origin) for key in config.HostSettings.__struct_fields__]


def _ssh_knows(name: str) -> bool:
    """Whether OpenSSH's configuration says anything of this name that it does not say of every name. True without an ssh command."""
    told = [_ssh_says(one) for one in (name, f"{name}-{secrets.token_hex(4)}")]
    return None in told or told[0] != told[1]


def _ssh_says(name: str) -> list[str] | None:
    try:
        done = subprocess.run(["ssh", "-G", "--", name], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SSH_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return [line.replace(name, "NAME") for line in done.stdout.splitlines()] if done.returncode == 0 else None
