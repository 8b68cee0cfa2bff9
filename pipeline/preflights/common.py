"""What every stage needs: the code that was shipped, an interpreter, the versions, nobody else at it, inputs that are good enough."""

import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from pipeline import inputs, interpreter
from pipeline.attempt_locks import check_not_held
from pipeline.checks_model import ModelInfo, check_model
from pipeline.contract import bundle, checkout, layout, preflight, versions
from pipeline.contract.lineage import OUTPUTS
from pipeline.host import spawn
from pipeline.manifest import code_hash
from pipeline.paths import resolve
from pipeline.preflights.report import CannotTellError, NotSoError, Report
from pipeline.provenance import Verifier
from pipeline.schema import Settings
from pipeline.sizes import size
from pipeline.visible import visible


def add(report: Report, stage: str, module: Any, settings: Settings, run_directory: str, code: str | None) -> None:
    """``module`` is the stage's; ``code`` is the hash that whoever asks has of the code, None: they do not say."""
    report.check("code", lambda: _check_code(code), str)
    packages = needed(stage, module, settings)
    report.check(
        "interpreter", lambda: _check_interpreter(module), lambda python: f"{sys.executable}, Python {python}, has all of {_list(packages)}"
    )
    add_versions(report, packages)
    report.check("nobody else", lambda: _check_free(stage, module, settings, run_directory), str)
    if stage in OUTPUTS and OUTPUTS[stage].inputs:
        report.check("inputs", lambda: _check_inputs(stage, settings, run_directory), str)


def add_versions(report: Report, packages: Sequence[str]) -> None:
    """Tested or not: an untested one is told as that, and nothing more is known of it."""
    report.check(preflight.VERSIONS, lambda: _check_versions(packages), str)


def add_model(report: Report, settings: Settings, run_directory: str) -> ModelInfo | None:
    """Every weight file against the index, its header and its size."""
    return report.check("model", lambda: open_model(settings, run_directory), about_model)


def open_model(settings: Settings, run_directory: str) -> ModelInfo:
    """Raises UserError."""
    return check_model(resolve(run_directory, settings.model.path, "model.path"))


def needed(stage: str, module: Any, settings: Settings) -> Sequence[str]:
    """Distributions that the stage works with."""
    vllm = ("vllm",) if stage == "serve" and not settings.serve.program else ()
    return (*module.NEEDED_PACKAGES, *vllm)


def about_model(model: ModelInfo) -> str:
    positions = f", {model.max_positions:,} positions" if model.max_positions else ""
    files = "1 weight file" if model.weight_files == 1 else f"{model.weight_files} weight files"
    return (
        f"{files}, {size(model.weight_bytes)}: names, headers and sizes as the index says; {model.model_type}, "
        f"{model.num_layers} layers, hidden size {model.hidden_size:,}, vocabulary {model.vocab_size:,}{positions}"
    )


def _check_code(expected: str | None) -> str:
    root = spawn.code_root()
    if not os.path.exists(os.path.join(root, ".complete")):
        git = checkout.here() or {}
        where = (
            f"a checkout, commit {str(git['commit'])[:12]}{', changed since' if git.get('dirty') else ''}" if git else "no shipped bundle"
        )
        if expected is not None:
            raise NotSoError(f"this is {where} ({root}), not the code {expected}", "start the shipped one")
        return f"{where}: {code_hash()}"
    name, found = os.path.basename(root), bundle.hash_of(root)
    if found != name:
        raise NotSoError(
            f"the code in {root} is not what was shipped: its files have the hash {found}",
            "end what runs from there and remove that directory: the console ships it anew",
        )
    if expected not in (None, name):
        raise NotSoError(f"the code here is {name}, not {expected}", "connect again, so that the console ships its own")
    return f"{name}, the same as shipped, by the hash of all its files"


def _check_interpreter(module: Any) -> str:
    module.check_interpreter()
    python = platform.python_version()
    if versions.numbers(python) < versions.numbers(str(versions.PYTHON.oldest)):
        raise NotSoError(f"{sys.executable} is Python {python}", f"name one of {versions.PYTHON.oldest} or newer")
    return python


def _check_versions(packages: Sequence[str]) -> str:
    """Older ones than will do are the interpreter's line; here: tested or not."""
    tested, untested = [], {}
    for name in packages:
        found = interpreter.version(name)
        if found is not None and versions.tested(name, found):
            tested.append(f"{name} {found}")
        else:
            known = versions.MATRIX[name].tested if name in versions.MATRIX else ()
            untested[name] = f"{name} {found or 'of unknown version'} (tested: {_list(known) or 'none'})"
    told = "; ".join(
        filter(None, (f"tested: {_list(tested)}" if tested else "", f"not tested: {_list([*untested.values()])}" if untested else ""))
    )
    deciding = [text for name, text in untested.items() if name in versions.DECIDING]
    if deciding:
        raise CannotTellError(told, "try a few samples first, or install a tested version", untested=[visible(one) for one in deciding])
    return told


def _check_free(stage: str, module: Any, settings: Settings, run_directory: str) -> str:
    check_not_held(os.path.join(layout.stage_dir(run_directory, stage), layout.LOCK), f"stage {stage} of {run_directory}")
    outputs = module.outputs(settings, run_directory)
    for output in outputs:
        check_not_held(os.path.join(output, layout.OUTPUT_LOCK), f"output directory {output}")
    return f"no live attempt of {stage} in this run" + (f"; {_list(outputs)} is not locked" if outputs else "")


def _check_inputs(stage: str, settings: Settings, run_directory: str) -> str:
    problems, note = inputs.find(stage, settings, run_directory, Verifier(settings, run_directory))
    if problems:
        raise NotSoError("; ".join(one.what for one in problems), problems[0].mend)
    if note:
        raise CannotTellError(note)
    return f"{_list(OUTPUTS[stage].inputs)}: complete, made with the present settings, of this verifier"


def _list(words: Sequence[str]) -> str:
    return ", ".join(words)
