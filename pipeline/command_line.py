"""Arguments and errors of ``python -m pipeline``."""

import argparse
import importlib
import os
import sys

from pipeline import attempt, hand_gate, inputs, places, provenance, settings
from pipeline.contract import preflight, transition
from pipeline.contract.rehearsal import ENV_HOME
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_DONE, StageError, UserError
from pipeline.visible import visible


def run(argv: list[str] | None) -> int:
    """Run one stage, or its preflight, and return the exit code. Raises KeyboardInterrupt; a StageError is told in one line."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == [preflight.COMMAND]:
        return importlib.import_module("pipeline.preflights.command").run(words[1:])
    arguments = _parser().parse_args(words)
    try:
        _run(arguments)
    except StageError as error:
        print(f"eaglewatch {arguments.stage}: {visible(' '.join(str(error).split()))}", file=sys.stderr, flush=True)
        return error.exit_code
    return EXIT_DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline",
        description="Run one stage of a run on this machine.",
        epilog=f"{preflight.COMMAND} STAGE --run DIR looks at everything that a stage needs, and runs nothing.",
    )
    stages = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for stage in STAGES.values():
        if stage.built:
            _add_options(stages.add_parser(stage.name, help=stage.does), stage.name)
    return parser


def _add_options(parser: argparse.ArgumentParser, stage: str) -> None:
    """``--run``, ``--set`` and ``--override`` are every stage's; of the others each has those that the catalogue or its GPUs call for."""
    parser.add_argument("--run", required=True, metavar="DIR", help="the run's directory, with its settings.toml")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help=f"override a setting, e.g. {stage}.KEY=VALUE; repeatable"
    )
    parser.add_argument("--override", type=_reason, metavar="REASON", help="go on with outdated or incomplete input; the reason is logged")
    if transition.needs_gpus(stage):
        help_text = "started by hand: go on though its GPUs are not verified free; the reason is logged"
        parser.add_argument(hand_gate.OPTION, type=_reason, metavar="REASON", help=help_text)
    for option in STAGES[stage].options:
        _OPTIONS[option](parser)


def _limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=_at_least_one, metavar="N", help="only the first N")


def _verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verify", action="store_true", help="make nothing; re-read and check all that is there")


def _greedy_holdout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--greedy-holdout", type=_at_least_one, metavar="N", help="answer N held-out prompts at temperature 0, kept apart")


_OPTIONS = {"limit": _limit, "verify": _verify, "greedy-holdout": _greedy_holdout}


def _reason(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("an override needs a reason: it is logged")
    return " ".join(text.split())


def _at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def _run(arguments: argparse.Namespace) -> None:
    if os.environ.get(ENV_HOME):  # only the rehearsal's own processes have it
        importlib.import_module("pipeline.rehearsal.hooks").stage_started(
            arguments.stage, transition.needs_gpus(arguments.stage) and not getattr(arguments, "verify", False)
        )
    run_directory = os.path.abspath(arguments.run)
    if not os.path.isdir(run_directory):
        raise UserError(f"{run_directory}: no such run directory; --run names the directory that holds the run's settings.toml")
    resolved = settings.load(os.path.join(run_directory, "settings.toml"), arguments.set)
    places.check(resolved, run_directory)
    stage = importlib.import_module(f"pipeline.stages.{arguments.stage}")
    if attempt.ENV_DIRECTORY not in os.environ:
        stage.check_interpreter()  # by hand: a start that cannot be is nothing to record
    gate = hand_gate.of(arguments.stage, resolved, run_directory, arguments)
    with attempt.enter(run_directory, arguments.stage, stage.outputs(resolved, run_directory), gate=gate) as current:
        stage.check_interpreter()
        verifier = provenance.Verifier(resolved, run_directory)
        provenance.record(current, resolved, run_directory, arguments, verifier)
        if not getattr(arguments, "verify", False):  # it makes nothing of its input
            inputs.check(current, resolved, run_directory, arguments.override, verifier)
        current.raise_if_stopped()
        stage.run(current, resolved, run_directory, arguments)
