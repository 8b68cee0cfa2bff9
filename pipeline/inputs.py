"""Whether a stage's input is what it has to be: complete, of the present settings, of the present verifier. Asked before the stage's work.

What is not so ends the stage, unless the operator overrides it with a reason. Then the reason is kept with the attempt: in its log, its
events and its receipt, and in the host's audit log.
"""

import json
import os
import time
from typing import Any, NamedTuple

from pipeline import settings as run_settings
from pipeline.attempt import Attempt
from pipeline.contract import events, layout
from pipeline.contract.clock import boot_id, boot_s
from pipeline.contract.lineage import OUTPUTS, fingerprint, outdated, output_directory, read_manifest
from pipeline.contract.stages import STAGES
from pipeline.errors import StageError, UserError
from pipeline.log import say
from pipeline.paths import resolve
from pipeline.provenance import Verifier
from pipeline.schema import Settings

_DONE = {"generate": "prompts answered", "prepare": "samples written"}
_OUTPUT_LOCK = {layout.OUTPUT_LOCK}


class Problem(NamedTuple):
    """Something about the input that must not be. ``fatal``: nothing is there that an override could let through."""

    what: str
    mend: str
    fatal: bool = False


def check(attempt: Attempt, settings: Settings, run_directory: str, override: str | None, verifier: Verifier) -> None:
    """Look at what the attempt's stage reads. Raises UserError for input that is missing, or not good enough and not overridden.

    Raises StageError when an override cannot be recorded: then it is not done either.
    """
    problems, note = find(attempt.stage, settings, run_directory, verifier)
    if note:
        say(note)
    fatal = [problem for problem in problems if problem.fatal]
    if fatal or (problems and not override):
        first = (fatal or problems)[0]
        more = f" (and {len(problems) - 1} more: {'; '.join(one.what for one in problems[1:])})" if len(problems) > 1 and not fatal else ""
        choice = "" if first.fatal else ", or add --override REASON, which is logged"
        raise UserError(f"{first.what}{more}; {first.mend}{choice}")
    if override and not problems:
        say(f"note: --override has nothing to override: the input of {attempt.stage} is complete and up to date, as far as it is known")
    elif override:
        _record(attempt, run_directory, override, [problem.what for problem in problems])


def find(stage: str, settings: Settings, run_directory: str, verifier: Verifier) -> tuple[list[Problem], str]:
    """(what is not as it must be, a note): "" when there is nothing to note. Only a look."""
    resolved = run_settings.to_json(settings)
    foreign = _foreign_data(settings, run_directory, resolved) if stage == "extract" else None
    if foreign:
        return [], f"extract.data is {foreign}, which is not this run's prepare.output: nothing is known here of how it was made"
    sources = OUTPUTS[stage].inputs if stage in OUTPUTS else ()
    problems = [problem for source in sources for problem in _look_at(source, run_directory, resolved)]
    return problems + _other_verifier(stage, run_directory, resolved, verifier), ""


def _foreign_data(settings: Settings, run_directory: str, resolved: dict[str, Any]) -> str | None:
    """The data directory of an extraction that the run's own prepare does not write; None when it is prepare's."""
    data = resolve(run_directory, settings.extract.data, "extract.data")
    own = output_directory(run_directory, "prepare", resolved)
    return data if own is None or os.path.realpath(data) != os.path.realpath(own) else None


def _look_at(source: str, run_directory: str, resolved: dict[str, Any]) -> list[Problem]:
    directory = output_directory(run_directory, source, resolved) or ""
    shown = os.path.relpath(directory, run_directory) if directory.startswith(run_directory + os.sep) else directory
    name = OUTPUTS[source].manifest
    manifest = read_manifest(run_directory, source, resolved)
    again = f"run {source} first"
    if manifest is None and os.path.lexists(os.path.join(directory, name)):
        return [Problem(f"{shown}/{name} is damaged: nothing tells what {source} made there", f"run {source} again")]
    if manifest is None:
        if _is_empty(directory):
            return [Problem(f"{source} has not made {shown} yet", again, fatal=True)]
        return [Problem(f"{shown} has no {name}: {source} has not finished there, or something else made it", again)]
    if manifest.get("complete") is not True:
        return [Problem(f"{source} is not complete{_how_far(source, manifest)}", "finish it")]
    why = outdated(run_directory, resolved).get(source)
    if why:
        return [Problem(f"{source} is outdated: {why}", f"run {source} again")]
    if fingerprint(source, manifest) is None:
        return [Problem(f"{shown}/{name} has no fingerprint of what it describes", f"run {source} again")]
    return []


def _other_verifier(stage: str, run_directory: str, resolved: dict[str, Any], verifier: Verifier) -> list[Problem]:
    """Answers of one model teach a drafter of another one nothing."""
    if "generate" not in _sources(stage) or verifier.fingerprint is None:
        return []
    inputs = (read_manifest(run_directory, "generate", resolved) or {}).get("inputs")
    made_with = inputs.get("model") if isinstance(inputs, dict) else None
    if not isinstance(made_with, str) or made_with == verifier.fingerprint:
        return []
    what = (
        f"the answers are of another verifier (fingerprint {made_with[:12]}) than the one in {verifier.path} ({verifier.fingerprint[:12]})"
    )
    return [Problem(what, "set model.path to the verifier that answered, or generate anew")]


def _sources(stage: str) -> set[str]:
    """Every stage that a stage's input comes from, directly or not."""
    direct = set(OUTPUTS[stage].inputs if stage in OUTPUTS else STAGES[stage].needs)
    return direct.union(*(_sources(one) for one in direct))


def _how_far(source: str, manifest: dict[str, Any]) -> str:
    """Its totals in words, where they tell: ``: 812 of 10,000 prompts answered``."""
    totals = manifest.get("totals")
    totals = totals if isinstance(totals, dict) else {}
    done = next((totals[key] for key in ("answered", "samples") if type(totals.get(key)) is int), None)
    planned = next((totals[key] for key in ("prompts", "planned", "planned_samples") if type(totals.get(key)) is int), None)
    words = _DONE.get(source, "samples")
    if done is None:
        return ""
    return f": {done:,} {words}" if planned is None else f": {done:,} of {planned:,} {words}"


def _is_empty(directory: str) -> bool:
    try:
        return not set(os.listdir(directory)) - _OUTPUT_LOCK
    except OSError:
        return True


def _record(attempt: Attempt, run_directory: str, reason: str, what: list[str]) -> None:
    for line in what:
        say(f"OVERRIDE ({reason}): {line}")
    attempt.overridden = {"reason": reason, "what": what}
    _audit(attempt, run_directory, reason, what)
    attempt.event(events.OVERRIDE, reason=reason, what=what)


def _audit(attempt: Attempt, run_directory: str, reason: str, what: list[str]) -> None:
    """A line in ``DATA/audit.jsonl``; a run that lies in no data directory has no such log."""
    runs, run = os.path.split(run_directory)
    if os.path.basename(runs) != os.path.basename(layout.runs_dir("")):
        return
    line: dict[str, Any] = {
        "what": "override",
        "run": run,
        "stage": attempt.stage,
        "attempt": attempt.id,
        "by": attempt.by,
        "reason": reason,
    }
    line.update(overridden=what, wall_s=round(time.time(), 3), boot_id=boot_id(), boot_s=round(boot_s(), 3))
    path = os.path.join(os.path.dirname(runs), layout.AUDIT)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, json.dumps(line, separators=(",", ":"), sort_keys=True).encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise StageError(f"{path}: {error.strerror}; an override that cannot be recorded is not done") from None
