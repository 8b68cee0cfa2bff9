"""Where the stages may write: not among the verifier's weights, the prompts, the run's own files or another stage's output.

Looked at before a stage makes anything, for all stages at once and through symbolic links: a stage makes, replaces and removes files by
name, and whoever shares its directory loses them.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from pipeline import rows_lock
from pipeline.contract import layout
from pipeline.errors import UserError
from pipeline.generation import records, sources
from pipeline.paths import resolve
from pipeline.schema import Settings
from pipeline.settings import to_json

_STAGES = ("generate", "prepare", "vocab", "extract")
_RUN_FILES = ("settings.", "provenance.json", layout.ACCEPTED, ".settings.lock", ".provenance.lock", ".tmp-")
"""Beginnings of names in a run's directory."""
_RUN_DIRECTORIES = ("stages",)
_DATA_DIRECTORIES = ("code", "control")
_INNER_DIRECTORIES = {"prepare": ("holdout", ".building"), "vocab": (".building",)}
"""That a stage makes in its output, to write and to remove files there. extract opens its own without following (pipeline.partial)."""
_INNER_FILES = {
    "generate": (records.RESPONSES, records.HOLDOUTS, records.FAILED),
    "prepare": (rows_lock.NAME,),
    "extract": ("ledger-0.jsonl",),
}
"""That a stage opens by name and writes to; what it publishes by rename takes the place of a link."""


class _Place(NamedTuple):
    setting: str
    """Or what it is, in words."""
    path: str
    """As the settings have it."""
    real: str
    """Without symbolic links."""


def check(settings: Settings, run_directory: str) -> None:
    """Raise UserError, with setting and reason, for an output that lies where it must not, or where nothing can be written."""
    outputs = [_place(run_directory, f"{stage}.output", getattr(settings, stage).output) for stage in _STAGES]
    sources.check_place(settings.generate.prompts, run_directory, to_json(settings))
    others = list(_others(settings, run_directory, outputs[_STAGES.index("prepare")]))
    for number, output in enumerate(outputs):
        _check_whole(output, run_directory)
        for other in (*others, *outputs[:number]):
            _check_apart(output, other)
    for stage, output in zip(_STAGES, outputs, strict=True):
        _check_usable(output)
        _check_inner(stage, output)


def _place(run_directory: str, setting: str, value: str) -> _Place:
    path = resolve(run_directory, value, setting)
    return _Place(setting, path, os.path.realpath(path))


def _others(settings: Settings, run_directory: str, prepared: _Place) -> Iterator[_Place]:
    """What no output may hold, be or lie in."""
    yield _place(run_directory, "model.path", settings.model.path)
    if settings.generate.prompts != sources.SHIPPED:
        yield _place(run_directory, "generate.prompts", settings.generate.prompts)
    data = _place(run_directory, "extract.data", settings.extract.data)
    if data.real != prepared.real:
        yield data
    run = os.path.realpath(run_directory)
    for name in _RUN_DIRECTORIES:
        yield _Place("the run's own directory", os.path.join(run_directory, name), os.path.join(run, name))
    runs = os.path.dirname(run)
    if os.path.basename(runs) == os.path.basename(layout.runs_dir("")):
        for name in _DATA_DIRECTORIES:
            yield _Place("eaglewatch's own directory", *(os.path.join(os.path.dirname(runs), name),) * 2)


def _check_whole(output: _Place, run_directory: str) -> None:
    """The run itself, what holds it, the home directory and the root are nobody's output."""
    run = os.path.realpath(run_directory)
    home = os.path.realpath(os.path.expanduser("~"))
    for what, path in (("the run's own directory", run), ("your home directory", home)):
        if _within(path, output.real):
            which = "is" if path == output.real else "holds"
            raise UserError(f"{output.setting}: {output.path} {which} {what}; name a directory of its own, e.g. {_example(output)}")
    first = os.path.relpath(output.real, run).split(os.sep)[0]
    if _within(output.real, run) and first.startswith(_RUN_FILES):
        raise UserError(
            f"{output.setting}: {output.path} is one of the run's own files; name a directory of its own, e.g. {_example(output)}"
        )


def _check_apart(output: _Place, other: _Place) -> None:
    if output.real == other.real:
        how = "is the same directory as"
    elif _within(output.real, other.real):
        how = "lies in"
    elif _within(other.real, output.real):
        how = "holds"
    else:
        return
    named = f"{other.setting} ({other.path})"
    raise UserError(
        f"{output.setting}: {output.path} {how} {named}: a stage may remove what it finds there; choose another {output.setting}"
    )


def _check_usable(output: _Place) -> None:
    """Raise UserError for a file, and for a link to what is not there: a disk that is not mounted, most often."""
    path = output.path
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.exists(path):
        raise UserError(
            f"{output.setting}: {path} is a symbolic link to {os.readlink(path)}, which is not there; mount or make it, or remove the link"
        )
    if not os.path.isdir(path):
        raise UserError(f"{output.setting}: {path} is a file, not a directory; choose another {output.setting}, or move it away")


def _check_inner(stage: str, output: _Place) -> None:
    """Raise UserError for a link, or what is of another kind, where the stage makes a directory or a file of its own in its output."""
    directories = _INNER_DIRECTORIES.get(stage, ())
    for name in (*directories, *_INNER_FILES.get(stage, ()), layout.OUTPUT_LOCK):
        path = os.path.join(output.path, name)
        if os.path.islink(path):
            raise UserError(
                f"{output.setting}: {path} is a symbolic link to {os.readlink(path)}: {stage} would write, and may remove, files there; "
                f"remove the link, or choose another {output.setting}"
            )
        if name in directories and os.path.lexists(path) and not os.path.isdir(path):
            raise UserError(f"{output.setting}: {path} is a file, where {stage} makes a directory; move it away")


def _within(path: str, directory: str) -> bool:
    """Whether a path is a directory or lies in it; both without symbolic links."""
    return path == directory or path.startswith(os.path.join(directory, ""))


def _example(output: _Place) -> str:
    names = {"generate": "generated", "prepare": "prepared", "extract": "hidden_states"}
    stage = output.setting.partition(".")[0]
    return f"data/{names.get(stage, stage)}"
