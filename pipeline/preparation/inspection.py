"""The stage's check of its output: every row re-read, and some beside their answers. The same for new rows and for ``--verify``."""

import os
from dataclasses import dataclass
from typing import Any

from pipeline.contract import lineage
from pipeline.preparation import check, dataset_files, order, report
from pipeline.preparation.job import Job


@dataclass(frozen=True)
class Inspected:
    """Datasets as they were re-read."""

    rows: check.Rows
    holdout: check.Rows | None
    train: int
    """So many rows train, the others validate."""
    spot: check.SpotCheck | None
    """None: the answers are not there any more."""
    files: dict[str, Any]
    """``dataset_files.dataset_sha256`` of both."""
    problems: list[str]

    @property
    def totals(self) -> dict[str, Any]:
        """For the manifest: what a later look at the same files must find again."""
        ratio = order.train_ratio(self.train, len(self.rows.ids))
        return {**report.totals(self.rows, self.train, self.holdout), "train_ratio": ratio, **self.files}


def inspect(job: Job, tokenizer: Any, path: str, holdout_path: str | None, train: int) -> Inspected:
    """Read both datasets whole. Raises UserError for what is no dataset, Interrupted."""
    verified = 0

    def read(rows: int) -> None:
        nonlocal verified
        verified += rows
        job.attempt.raise_if_stopped()
        job.attempt.progress.update(verified=verified)

    rows = check.read_rows(path, job.model.vocab_size, read)
    problems = list(rows.problems)
    holdout = None
    if holdout_path is not None:
        holdout = check.read_rows(holdout_path, job.model.vocab_size, lambda _: job.attempt.raise_if_stopped())
        problems += [f"{dataset_files.HOLDOUT}: {problem}" for problem in holdout.problems]
    spot = None
    if os.path.isfile(job.responses.path):
        spot = check.spot_check(path, job.responses, tokenizer, job.attempt.id)
        problems += spot.problems
        if len(spot.other_text) * 2 > spot.checked:
            problems.append(
                f"{len(spot.other_text)} of {spot.checked} rows do not decode to the text of their answer, the first is "
                f"{spot.other_text[0]}: the tokenizer in {job.model.path} is not the one that the answers were made with"
            )
    files = {
        "rows_sha256": dataset_files.dataset_sha256(path),
        "holdout_sha256": holdout_path and dataset_files.dataset_sha256(holdout_path),
    }
    return Inspected(rows, holdout, train, spot, files, problems)


def against_manifest(job: Job, inspected: Inspected, found: dict[str, Any]) -> list[str]:
    """What the manifest says otherwise than the files."""
    totals = found["totals"]
    problems = [] if found.get("complete") is True else [f"{lineage.NAME} says that the dataset is not complete"]
    problems += [
        f"{key} is {value}, and {lineage.NAME} says {totals.get(key)}"
        for key, value in inspected.totals.items()
        if totals.get(key) != value
    ]
    if found.get("fingerprint") != inspected.rows.fingerprint:
        problems.append(f"the token ids have the fingerprint {inspected.rows.fingerprint}, and {lineage.NAME} says another one")
    problems += _order_problems(inspected, found["settings"])
    return problems


def _order_problems(inspected: Inspected, settings: dict[str, Any]) -> list[str]:
    seed, share = settings.get("prepare.seed"), settings.get("prepare.validation_share")
    if type(seed) is not int or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        return [f"{lineage.NAME} does not say by which seed and share the rows were ordered"]
    places, train, _ = order.arrange(inspected.rows.ids, seed, share)
    if places != list(range(len(places))) or train != inspected.train:
        return ["the rows are not in the order that their ids and prepare.seed give"]
    return []
