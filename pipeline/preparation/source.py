"""Which answers a preparation really read, beside those that generate's manifest tells of."""

import hashlib
import os
from array import array
from typing import Any

from pipeline import settings as run_settings
from pipeline.contract import lineage, source_files
from pipeline.errors import UserError
from pipeline.overrides import Problem
from pipeline.preparation.answers import Tokens
from pipeline.preparation.job import Job

_LOOK_EVERY = 64


class Reading:
    """The answers read so far, of both splits; their fingerprint is generate's own (docs/files.md)."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    def add(self, answer: Tokens, split: str) -> None:
        """Raises OverflowError for an id that no vocabulary has."""
        ids = array("q", [len(answer.prompt_token_ids), *answer.prompt_token_ids, *answer.response_token_ids])
        self._lines[answer.id] = f"{split}\0{hashlib.sha256(ids.tobytes()).hexdigest()}"

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, value in sorted(self._lines.items()):
            digest.update(f"{name}\0{value}\n".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def differences(reading: Reading, manifest: dict[str, Any] | None, directory: str) -> list[Problem]:
    """What is not as generate's manifest says; nothing while that is not complete, which is a problem of its own."""
    if manifest is None or manifest.get("complete") is not True or manifest.get("fingerprint") == reading.fingerprint:
        return []
    told, count = manifest.get("fingerprint"), manifest["totals"].get("answered")
    counted = f"{count:,} answers" if type(count) is int else "answers"
    what = (
        f"the answers in {directory} are not those that generate checked: {len(reading):,} answers with the fingerprint "
        f"{reading.fingerprint[:12]} are there, {counted} with {str(told)[:12]} in {os.path.join(directory, 'eaglewatch.json')}"
    )
    return [Problem(what, "put the files back, or run generate again, which asks for what is lacking (with --verify it only checks)")]


def outdated(job: Job) -> str | None:
    """Why the rows that are there are not of the present settings, or of the answers as they are on disk now; None when they are."""
    resolved = run_settings.to_json(job.settings)
    why = lineage.outdated(job.run_directory, resolved, look=source_files.changed_content).get("prepare")
    if why or not os.path.isfile(job.responses.path):
        return why
    reading = Reading()
    try:
        for source, split in ((job.holdout, "holdout"), (job.responses, "train")):
            for _, answer in source.answers(Tokens):
                reading.add(answer, split)
                if len(reading) % _LOOK_EVERY == 0:
                    job.attempt.raise_if_stopped()
    except (UserError, OverflowError) as error:
        return f"the answers are others than the rows were made of: {error}"
    made_of = job.found["inputs"].get("generate") if job.found else None
    if made_of == reading.fingerprint:
        return None
    return (
        f"the answers are others than the rows were made of: {len(reading):,} with the fingerprint {reading.fingerprint[:12]} are there, "
        f"{str(made_of)[:12]} had those"
    )
