"""Whether a stage's input is what it has to be: complete, of the present settings, of the present verifier. Asked before the stage's work.

What is not so ends the stage, unless the operator overrides it with a reason (``pipeline.overrides``). Manifests are compared with each
other, and with what they tell of: the file with the rows, the prompts, the tokenizer.
"""

import os
from typing import Any

from pipeline import rows_lock
from pipeline import settings as run_settings
from pipeline.attempt import Attempt
from pipeline.contract import layout, source_files
from pipeline.contract.lineage import OUTPUTS, fingerprint, outdated, output_directory, read_manifest
from pipeline.contract.stages import STAGES
from pipeline.generation.identity import made_by
from pipeline.log import say
from pipeline.overrides import Problem, settle
from pipeline.paths import resolve
from pipeline.preparation.dataset_files import HOLDOUT, dataset_sha256
from pipeline.provenance import Verifier
from pipeline.schema import Settings

_DONE = {"generate": "prompts answered", "prepare": "samples written"}
_LOCKS = {layout.OUTPUT_LOCK, rows_lock.NAME}


def check(attempt: Attempt, settings: Settings, run_directory: str, override: str | None, verifier: Verifier) -> None:
    """Look at what the attempt's stage reads. Raises UserError for input that is missing, or not good enough and not overridden.

    Raises StageError when an override cannot be recorded: then it is not done either.
    """
    problems, note = find(attempt.stage, settings, run_directory, verifier)
    if note:
        say(note)
    settle(attempt, run_directory, override, problems)
    if override and not problems:
        say(f"note: --override has nothing to override so far: the input of {attempt.stage} is complete and up to date, as far as is known")


def find(stage: str, settings: Settings, run_directory: str, verifier: Verifier) -> tuple[list[Problem], str]:
    """(what is not as it must be, a note): "" when there is nothing to note. Only a look."""
    resolved = run_settings.to_json(settings)
    foreign = _foreign_data(settings, run_directory, resolved) if stage == "extract" else None
    if foreign:
        return [], f"extract.data is {foreign}, which is not this run's prepare.output: nothing is known here of how it was made"
    sources = OUTPUTS[stage].inputs if stage in OUTPUTS else ()
    found = outdated(run_directory, resolved, look=source_files.changed_content) if sources else {}
    problems = [problem for source in sources for problem in _look_at(source, run_directory, resolved, found.get(source))]
    return problems + _other_verifier(stage, run_directory, resolved, verifier), ""


def _foreign_data(settings: Settings, run_directory: str, resolved: dict[str, Any]) -> str | None:
    """The data directory of an extraction that the run's own prepare does not write; None when it is prepare's."""
    data = resolve(run_directory, settings.extract.data, "extract.data")
    own = output_directory(run_directory, "prepare", resolved)
    return data if own is None or os.path.realpath(data) != os.path.realpath(own) else None


def _look_at(source: str, run_directory: str, resolved: dict[str, Any], why: str | None) -> list[Problem]:
    """``why``: it is outdated."""
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
    if why:
        return [Problem(f"{source} is outdated: {why}", f"run {source} again")]
    if fingerprint(source, manifest) is None:
        return [Problem(f"{shown}/{name} has no fingerprint of what it describes", f"run {source} again")]
    lacking = _lacking(source, manifest)
    if lacking:
        return [Problem(f"{shown}/{name} {lacking}: it is not as {source} wrote it", "put it back")]
    return _other_rows(directory, shown, manifest) if source == "prepare" else []


def _lacking(source: str, manifest: dict[str, Any]) -> str | None:
    """What a manifest does not say that its stage always says: without it, nothing is compared with it."""
    if manifest.get("stage") != source:
        return f"is of the stage {str(manifest.get('stage'))[:40]!r}"
    missing = next((key for key in ("inputs", "settings", "sources", "totals") if not isinstance(manifest.get(key), dict)), None)
    if missing is None and source == "generate" and type(manifest["totals"].get("answered")) is not int:
        missing = "totals.answered"
    return missing and f"has no {missing}"


def _other_rows(directory: str, shown: str, manifest: dict[str, Any]) -> list[Problem]:
    """The datasets' files, read whole, against their hash: loss masks and columns, which no fingerprint tells of, and held-out rows too."""
    totals = manifest.get("totals")
    problems = []
    for key, place in (("rows_sha256", ""), ("holdout_sha256", HOLDOUT)):
        told = totals.get(key) if isinstance(totals, dict) else None
        what = os.path.join(shown, place) if place else shown
        try:
            found = dataset_sha256(os.path.join(directory, place))
        except OSError as error:
            found, what = "", f"{what} ({os.path.basename(error.filename or what)}: {error.strerror})"
        if found != told or (told is None and not place):
            words = f"sha256 {found[:12]}" if found else "cannot be read" if found == "" else "none"
            told_words = f"sha256 {str(told)[:12]}" if told else "none"
            problems.append(
                Problem(
                    f"the rows in {what} are not those that prepare made: {words} there, {told_words} in its manifest", "run prepare again"
                )
            )
    return problems


def _other_verifier(stage: str, run_directory: str, resolved: dict[str, Any], verifier: Verifier) -> list[Problem]:
    """Answers of one model teach a drafter of another one nothing."""
    manifest = read_manifest(run_directory, "generate", resolved) if "generate" in _sources(stage) else None
    made_with = made_by(manifest)
    if manifest is None or made_with == verifier.fingerprint:
        return []
    there = f"the one in {verifier.path}"
    if made_with is None:
        what = f"cannot tell which verifier gave the answers, that it is {there}: their manifest has no fingerprint of it"
    elif verifier.fingerprint is None:
        what = f"cannot tell whether {there} is the verifier that answered (fingerprint {made_with[:12]}): {verifier.why}"
    else:
        what = f"the answers are of another verifier (fingerprint {made_with[:12]}) than {there} ({verifier.fingerprint[:12]})"
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
        return not set(os.listdir(directory)) - _LOCKS
    except OSError:
        return True
