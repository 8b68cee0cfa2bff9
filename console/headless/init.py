"""``eaglewatch init``: write a run's settings on a host, every key explained, from a preset."""

import argparse
import os
from collections.abc import Coroutine
from typing import Any

from console.config import REHEARSAL, Host
from console.headless import hosts, launching, run_settings
from console.headless.output import Output, Result
from console.headless.run_settings import Wanted
from console.headless.session import Session
from pipeline import presets, settings
from pipeline.contract import rehearsal
from pipeline.errors import EXIT_DONE, UserError
from pipeline.presets.write_out import write_out

PRESETS = (*presets.names(), REHEARSAL)
"""The rehearsal host's is made with its model and data, by the host itself."""

_OTHERS = "choose another RUN, or add --replace-settings"
"""What can be done where the run has other settings."""


def command(arguments: argparse.Namespace, output: Output) -> "int | Coroutine[Any, Any, int]":
    if arguments.preset == REHEARSAL and arguments.host != REHEARSAL:
        raise UserError(f"preset {REHEARSAL} is the rehearsal host's; for {arguments.host} there are {', '.join(presets.names())}")
    host = None if arguments.print else hosts.find(arguments.host, output)  # the rehearsal host makes its preset when it starts
    text = write_out(_preset(arguments.preset), f"preset {arguments.preset}", arguments.overrides)
    if host is None:
        output.data(text.rstrip("\n"))
        output.json({**Result(EXIT_DONE, arguments.host == REHEARSAL, {}).to_json(), "toml": text})
        return EXIT_DONE
    wanted = run_settings.from_text(text, f"preset {arguments.preset}", [])
    return _write(arguments, host, wanted, output)


def _preset(name: str) -> str:
    """Its text. Raises UserError for the rehearsal's when there is no rehearsal host yet."""
    if name != REHEARSAL:
        return presets.text(name)
    from console.rehearsal.home import default_home

    path = rehearsal.settings_file(default_home())
    if not os.path.exists(path):
        raise UserError("preset rehearsal is made with the rehearsal host, which is not there yet: eaglewatch status rehearsal starts it")
    return settings.read_text(path)


async def _write(arguments: argparse.Namespace, host: Host, wanted: Wanted, output: Output) -> int:
    name, run = arguments.host, arguments.run
    async with Session(host, output, run) as session:
        await session.connect()
        there = await launching.host_copy(session, run)
        await launching.put_settings(session, name, run, wanted, arguments.replace_settings, _OTHERS)
        now = await launching.host_copy(session, run)
        state = "kept, it says the same already" if there is not None and now == there else "written"
        output.data(f"{'SIMULATED  ' if session.store.simulated else ''}settings of run {run} on {name}: {state}")
        output.say(f"eaglewatch: next: eaglewatch run serve --host {name} --run {run}")
        sha256 = now.sha256 if now else None
        output.json({**Result(EXIT_DONE, session.store.simulated, {}).to_json(), "settings_sha256": sha256})
        return EXIT_DONE
