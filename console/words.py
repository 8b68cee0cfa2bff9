"""The words of a command line: each function reads one, or says what is wrong with it (argparse's ``type``)."""

import argparse
import difflib

from pipeline.contract import transition
from pipeline.contract.layout import check_name
from pipeline.contract.rehearsal import parse_fault
from pipeline.contract.stages import ACTIONS, STAGES


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def reason(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("an override needs a reason: it is logged")
    return " ".join(text.split())


def preset(text: str) -> str:
    from console.headless.init import PRESETS

    if text not in PRESETS:
        near = difflib.get_close_matches(text, PRESETS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the presets are {', '.join(PRESETS)}"
        raise argparse.ArgumentTypeError(f"no preset {text!r}; {hint}")
    return text


def run_name(text: str) -> str:
    try:
        return check_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def logged(text: str) -> str:
    """A stage, or an action of the host: both leave a log."""
    return text if text in ACTIONS else stage(text)


def stage(text: str) -> str:
    if text in ACTIONS:
        command = "next" if text == transition.ACTION else text
        raise argparse.ArgumentTypeError(f"{text} is no stage: see `eaglewatch {command} --help`, options --show and --cancel")
    if text not in STAGES:
        near = difflib.get_close_matches(text.lower(), STAGES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the stages are {', '.join(STAGES)}"
        raise argparse.ArgumentTypeError(f"no stage {text!r}; {hint}")
    if not STAGES[text].built:
        built = ", ".join(stage.name for stage in STAGES.values() if stage.built)
        raise argparse.ArgumentTypeError(f"stage {text!r} is not in this version yet; it has {built}")
    return text


def fault(text: str) -> str:
    try:
        parse_fault(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text
