"""``eaglewatch config``: everything resolved, and where each value comes from."""

import argparse
import json

import msgspec

from console import config
from console.headless.output import Output, Result
from pipeline.errors import EXIT_DONE, UserError


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
    """The rows of one host; of one that is not configured, its defaults. Raises UserError."""
    if name == config.REHEARSAL:
        raise UserError(f"{name} is not configured: its own process tells how to reach it; `eaglewatch rehearse` starts it")
    keys = {f"hosts.{name}.{field}" for field in config.HostSettings.__struct_fields__}
    mine = [row for row in rows if row[0] in keys]
    if mine:
        return mine
    host = msgspec.to_builtins(config.resolve(name))
    return [(f"hosts.{name}.{key}", json.dumps(host[key]), "default") for key in config.HostSettings.__struct_fields__]
