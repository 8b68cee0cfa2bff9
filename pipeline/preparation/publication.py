"""New rows take the place of the present ones, or those are found to be the same and stay."""

from typing import Any

from pipeline import output_manifest
from pipeline.contract import lineage
from pipeline.log import say
from pipeline.preparation import dataset_files
from pipeline.preparation.inspection import Inspected
from pipeline.preparation.job import Job

PACKAGES = ("datasets", "pyarrow", "numpy", "transformers", "msgspec")
SHAPING = ("max_length_tokens", "min_loss_tokens", "validation_share", "mismatched", "seed")
"""The settings that decide what the rows are."""


def publish(job: Job, built: str, built_holdout: str | None, inspected: Inspected, counted: dict[str, Any], answers: str) -> bool:
    """Publish the built datasets; True when the same ones are there already, and stay. Raises OSError, StageError.

    ``answers``: fingerprint of those that were read.

    Until the manifest says that nothing is complete, the earlier rows are what they were; from then on until the end, a kill leaves
    either the earlier rows or the new ones, and a manifest that lets nobody use them: the next attempt makes the same rows and ends it.
    """
    pairs = [(built, job.output), (built_holdout, job.holdout_output)]
    unchanged = all(dataset_files.is_same(one, target) for one, target in pairs)
    if not unchanged:
        _tell_replaced(job, inspected)
        for one, target in pairs:
            if one is not None:
                dataset_files.move_in(one, target)
        _manifest(job, inspected, counted, answers, complete=False)
        for one, target in pairs:
            dataset_files.switch(one, target)
    _manifest(job, inspected, counted, answers, complete=True)
    dataset_files.tidy(job.output)
    return unchanged


def _manifest(job: Job, inspected: Inspected, counted: dict[str, Any], answers: str, complete: bool) -> None:
    output_manifest.publish(
        job.output,
        "prepare",
        job.attempt.id,
        complete=complete,
        fingerprint=inspected.rows.fingerprint,
        inputs={"generate": answers, "model": job.model.fingerprint},
        settings={f"prepare.{key}": getattr(job.settings.prepare, key) for key in SHAPING},
        totals={**inspected.totals, **counted},
        packages=PACKAGES,
    )


def _tell_replaced(job: Job, inspected: Inspected) -> None:
    before = lineage.fingerprint("prepare", job.found)
    if before is None or before == inspected.rows.fingerprint:
        return
    say("the rows are others than those that are there, and take their place")
    if job.extracted(before):
        say("note: hidden states of the earlier rows are there: they do not fit these rows, extract anew")
