"""``python -m pipeline preflight STAGE --run DIR``: a JSON object a line on stdout, one check each, and a last one: all were told.

Exit codes: 0 all are ok, 1 something is not, 2 usage or settings, 3 something cannot be told.
"""

import argparse
import importlib
import json
import os
import signal
import sys
import threading

from pipeline import settings as run_settings
from pipeline.contract import preflight
from pipeline.contract.stages import STAGES
from pipeline.errors import StageError, UserError
from pipeline.preflights import common, gpus
from pipeline.preflights.report import Report
from pipeline.schema import Settings
from pipeline.visible import visible

LONGEST_S = 3600


def run(argv: list[str]) -> int:
    """Look at everything and print it. A StageError is one line on stderr."""
    arguments = parser().parse_args(argv)
    out = sys.stdout
    if arguments.timeout_s is not None and threading.current_thread() is threading.main_thread():
        signal.alarm(arguments.timeout_s)  # whoever asked may be gone by now, and a disk may hang
    try:
        report = Report(lambda line: print(json.dumps(line), file=out, flush=True))
        ok = _look(report, arguments)
        print(json.dumps(preflight.end(report.lines)), file=out, flush=True)
        return preflight.exit_code(ok)
    except StageError as error:
        print(f"eaglewatch preflight: {visible(' '.join(str(error).split()))}", file=sys.stderr, flush=True)
        return error.exit_code
    finally:
        if arguments.timeout_s is not None and threading.current_thread() is threading.main_thread():
            signal.alarm(0)


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m pipeline preflight", description="Look at everything that a stage needs, before anything expensive."
    )
    found.add_argument("stage", choices=[stage.name for stage in STAGES.values() if stage.built], metavar="STAGE")
    found.add_argument("--run", required=True, metavar="DIR", help="the run's directory, with its settings.toml")
    found.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting; repeatable")
    part = found.add_mutually_exclusive_group()
    part.add_argument("--no-gpu", action="store_true", help="leave out what needs the GPUs to be looked at")
    part.add_argument("--gpu-only", action="store_true", help="only that")
    part.add_argument(f"--{preflight.VERSIONS}", action="store_true", help="only whether the packages' versions were tested")
    found.add_argument("--expected-gpus", type=int, metavar="N", help="how many GPUs this host must have; 0: none")
    found.add_argument("--gpu-uuids", default="", metavar="A,B", help="which ones; empty: any")
    found.add_argument("--wanted", default="", metavar="A,B", help="those that the stage is to have; empty: all")
    found.add_argument("--code", metavar="HASH", help="the code that this must be")
    found.add_argument("--timeout-s", type=_seconds, metavar="S", help="end then, whatever hangs")
    return found


def look(
    report: Report, stage: str, settings: Settings, run_directory: str, part: str, wanted: gpus.Wanted, code: str | None = None
) -> None:
    """Every line of a stage's preflight. ``part``: one of ``contract.preflight.PARTS``, or ``VERSIONS``."""
    stage_module = importlib.import_module(f"pipeline.stages.{stage}")
    if part == preflight.VERSIONS:
        return common.add_versions(report, common.needed(stage, stage_module, settings))
    lines = importlib.import_module(f"pipeline.preflights.{stage}")
    if part != preflight.GPU_ONLY:
        common.add(report, stage, stage_module, settings, run_directory, code)
        lines.add(report, settings, run_directory)
    if part == preflight.NO_GPU:
        return
    if hasattr(lines, "add_memory"):  # of the stages that work on GPUs themselves
        facts = gpus.add(report, run_directory, wanted)
        lines.add_memory(report, settings, run_directory, facts)
    elif part == preflight.GPU_ONLY:
        report.add("GPUs", True, f"{stage} uses none itself", gpu=True)


def _look(report: Report, arguments: argparse.Namespace) -> bool | None:
    run_directory = os.path.abspath(arguments.run)
    if not os.path.isdir(run_directory):
        raise UserError(f"{run_directory}: no such run directory; --run names the directory that holds the run's settings.toml")
    settings = run_settings.load(os.path.join(run_directory, "settings.toml"), arguments.set)
    asked = {preflight.NO_GPU: arguments.no_gpu, preflight.GPU_ONLY: arguments.gpu_only, preflight.VERSIONS: arguments.versions}
    part = next((name for name, wished in asked.items() if wished), preflight.ALL)
    uuids, some = ([one for one in text.split(",") if one] for text in (arguments.gpu_uuids, arguments.wanted))
    wanted = gpus.Wanted(arguments.expected_gpus, uuids, some)
    look(report, arguments.stage, settings, run_directory, part, wanted, arguments.code)
    return report.ok


def _seconds(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 1 to {LONGEST_S}")
    return int(text)
