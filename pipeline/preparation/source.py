"""Which answers a preparation really read, beside those that generate's manifest tells of."""

import os
from typing import Any

from pipeline import settings as run_settings
from pipeline.contract import lineage, source_files
from pipeline.errors import UserError
from pipeline.generation import identity
from pipeline.generation.fingerprint import Fingerprint
from pipeline.overrides import Problem
from pipeline.preparation.answers import Tokens, stored_id
from pipeline.preparation.job import Job

_LOOK_EVERY = 64


class Reading:
    """The answers read so far, of both splits; their fingerprint is generate's own (docs/files.md)."""

    def __init__(self) -> None:
        self._answers = Fingerprint()

    def add(self, answer: Tokens, split: str, line: bytes, where: str) -> None:
        """Raises UserError for a prompt that has an answer already, of the other split too: which of them was checked?"""
        if not self._answers.add(answer.id, split, line):
            raise UserError(
                f"{where}: {stored_id(answer.id)} was answered already, for training or held out; each prompt has one answer: "
                "was the file put together by hand? Take one of the lines out"
            )

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def fingerprint(self) -> str:
        return self._answers.hex()


def differences(reading: Reading, manifest: dict[str, Any] | None, directory: str) -> list[Problem]:
    """What is not as generate's manifest says; nothing where that has nothing to say yet: not complete, a problem of its own."""
    what = identity.other_answers(directory, manifest, reading.fingerprint, len(reading))
    return [Problem(what, "put the files back")] if what else []


def outdated(job: Job) -> str | None:
    """Why the rows that are there are not of the present settings, or of the answers as they are on disk now; None when they are."""
    resolved = run_settings.to_json(job.settings)
    why = lineage.outdated(job.run_directory, resolved, look=source_files.changed_content).get("prepare")
    if why or not os.path.isfile(job.responses.path):
        return why
    reading = Reading()
    try:
        for source, split in ((job.holdout, "holdout"), (job.responses, "train")):
            for line, whole, answer in source.whole(Tokens):
                reading.add(answer, split, whole, f"{source.path}: line {line}")
                if len(reading) % _LOOK_EVERY == 0:
                    job.attempt.raise_if_stopped()
    except UserError as error:
        return f"the answers are others than the rows were made of: {error}"
    made_of = job.found["inputs"].get("generate") if job.found else None
    if made_of == reading.fingerprint:
        return None
    return (
        f"the answers are others than the rows were made of: {len(reading):,} with the fingerprint {reading.fingerprint[:12]} are there, "
        f"{str(made_of)[:12]} had those"
    )
