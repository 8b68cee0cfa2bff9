"""Arguments and errors of ``python -m pipeline``."""

import argparse
import importlib
import os
import sys

from pipeline import attempt, settings
from pipeline.contract.rehearsal import ENV_HOME
from pipeline.errors import EXIT_DONE, StageError, UserError
from pipeline.visible import visible


def run(argv: list[str] | None) -> int:
    """Run one stage and return its exit code. Raises KeyboardInterrupt; a StageError is told in one line."""
    arguments = _parser().parse_args(argv)
    try:
        _run(arguments)
    except StageError as error:
        print(f"eaglewatch {arguments.stage}: {visible(' '.join(str(error).split()))}", file=sys.stderr, flush=True)
        return error.exit_code
    return EXIT_DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline", description="Run one stage of a run on this machine.")
    stages = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    extract = stages.add_parser("extract", help="write the verifier's hidden states of every prepared sample")
    extract.add_argument("--run", required=True, metavar="DIR", help="the run's directory, with its settings.toml")
    extract.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting, e.g. extract.batch_samples=4; repeatable"
    )
    extract.add_argument("--limit", type=_at_least_one, metavar="N", help="only the first N samples")
    extract.add_argument("--verify", action="store_true", help="make nothing; re-read and check all that is there")
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def _run(arguments: argparse.Namespace) -> None:
    if os.environ.get(ENV_HOME):  # only the rehearsal's own processes have it
        importlib.import_module("pipeline.rehearsal.hooks").stage_started(arguments.stage)
    run_directory = os.path.abspath(arguments.run)
    if not os.path.isdir(run_directory):
        raise UserError(f"{run_directory}: no such run directory; --run names the directory that holds the run's settings.toml")
    resolved = settings.load(os.path.join(run_directory, "settings.toml"), arguments.set)
    stage = importlib.import_module(f"pipeline.stages.{arguments.stage}")
    if attempt.ENV_DIRECTORY not in os.environ:
        stage.check_interpreter()  # by hand: a start that cannot be is nothing to record
    with attempt.enter(run_directory, arguments.stage, stage.outputs(resolved, run_directory)) as current:
        stage.check_interpreter()
        stage.run(current, resolved, run_directory, arguments.limit, arguments.verify)
