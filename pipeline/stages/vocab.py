"""The drafter's vocabulary: token frequencies of the prepared rows, and speculators' mapping between its ids and the verifier's.

Uses no GPU and one thread, at low priority: it may run beside the server. Nothing of an earlier attempt is taken over: the counting takes
less time than it would take to be sure of an old file.
"""

import argparse
import os
from dataclasses import dataclass
from typing import Any

from pipeline import interpreter, output_manifest, rows_lock
from pipeline.attempt import Attempt
from pipeline.checks_model import ModelInfo, check_model
from pipeline.contract import lineage
from pipeline.contract.telemetry import FINISHING, LOADING, STEADY, VERIFYING
from pipeline.digests import sha256_of
from pipeline.disk_errors import told
from pipeline.errors import StageError, UserError
from pipeline.paths import resolve
from pipeline.preparation.dataset_files import dataset_sha256
from pipeline.schema import Settings
from pipeline.verifier_tokenizer import load_tokenizer, tokenizer_fingerprint
from pipeline.vocabulary import files
from pipeline.vocabulary.counting import TokenCounts, count_tokens
from pipeline.vocabulary.mapping import Mapping
from pipeline.vocabulary.outcome import conclude, describe
from pipeline.vocabulary.special_tokens import forced_tokens

NEEDED_PACKAGES = ("torch", "transformers", "datasets", "numpy", "speculators", "msgspec")
PACKAGES = ("speculators", "transformers", "torch", "numpy")
_NICENESS = 10


def check_interpreter() -> None:
    """Raise UserError when this interpreter lacks a package that the stage needs."""
    interpreter.require("vocab", NEEDED_PACKAGES)


def outputs(settings: Settings, run_directory: str) -> list[str]:
    """Directories that this stage alone may write to while it runs."""
    return [resolve(run_directory, settings.vocab.output, "vocab.output")]


@dataclass(frozen=True)
class VocabJob:
    attempt: Attempt
    settings: Settings
    output: str
    prepared: str
    model: ModelInfo
    found: dict[str, Any] | None
    """The output's manifest, as it was at the start."""
    inputs: dict[str, str]
    """Fingerprints of what the mapping is made of; of the rows' token ids (``prepare``) once they are counted."""


def run(attempt: Attempt, settings: Settings, run_directory: str, arguments: argparse.Namespace) -> None:
    """Make the mapping, or (``--verify``) check the one that is there. Raises StageError, UserError, Interrupted."""
    _be_modest()
    attempt.progress.phase(LOADING, note="the model's config, the prepared rows, the tokenizer")
    try:
        with rows_lock.held(resolve(run_directory, settings.prepare.output, "prepare.output"), write=False):
            job = open_job(attempt, settings, run_directory)
            _verify(job) if arguments.verify else _make(job)
    except OSError as error:
        raise StageError(told(error, outputs(settings, run_directory)[0])) from None


def _be_modest() -> None:
    """Before anything heavy is imported: the server's GPUs are not seen, and its processors come first."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    os.nice(_NICENESS)


def open_job(attempt: Attempt, settings: Settings, run_directory: str) -> VocabJob:
    """Look at the model, the prepared rows, the tokenizer's files and the output. Raises UserError, OSError."""
    output = outputs(settings, run_directory)[0]
    found = files.load_manifest(output)
    model = check_model(resolve(run_directory, settings.model.path, "model.path"))
    size = settings.vocab.draft_vocab_size
    if size > model.vocab_size:
        raise UserError(f"vocab.draft_vocab_size: {size} is more than the verifier's vocabulary of {model.vocab_size}; lower it")
    prepared = resolve(run_directory, settings.prepare.output, "prepare.output")
    rows = dataset_sha256(prepared)  # the loss masks too, which prepare's fingerprint leaves out
    if rows is None:
        raise UserError(f"prepare.output: {prepared} holds no dataset that prepare made; run prepare first")
    inputs = {
        "rows": rows,
        "tokenizer": tokenizer_fingerprint(model.path),
        "model": model.fingerprint,
    }
    return VocabJob(attempt, settings, output, prepared, model, found, inputs)


def _make(job: VocabJob) -> None:
    vocab = job.settings.vocab
    building = files.begin(job.output, job.found)
    tokenizer = load_tokenizer(job.model.path, job.settings.model.trust_remote_code)
    counts = _count(job)
    forced = forced_tokens(tokenizer, job.model.path, counts.anywhere)
    job.attempt.raise_if_stopped()
    outcome = describe(counts, forced, vocab.draft_vocab_size, vocab.coverage_sizes)
    files.write(building, counts.frequencies(), outcome.mapping.d2t, outcome.mapping.t2d)
    sums = {name: sha256_of(os.path.join(building, name)) for name in files.names(vocab.draft_vocab_size)}
    job.attempt.progress.phase(VERIFYING, note="reading the files back")
    totals = {**outcome.totals, "files": sums}
    problems = files.damage(building, {"totals": totals}) + _read_back(building, counts, outcome.mapping)
    job.attempt.raise_if_stopped()
    job.attempt.progress.phase(FINISHING, note=None)
    unchanged = not problems and _publish(job, building, totals, sums)
    outcome_words = "nothing to do: the same mapping is there" if unchanged else "done"
    conclude(job.attempt, job.output, totals, problems, outcome_words, files.mend(job.output, job.found))


def _count(job: VocabJob) -> TokenCounts:
    def counted(rows: int, tokens: int) -> None:
        job.attempt.raise_if_stopped()
        job.attempt.progress.update(done=rows, tokens=tokens)

    source = output_manifest.load(job.prepared, "prepare.output")
    samples = source["totals"].get("samples") if source else None
    job.attempt.progress.phase(STEADY, total=samples if type(samples) is int else None, note="counting tokens")
    counts = count_tokens(job.prepared, job.model.vocab_size, counted)
    if not counts.distinct:
        raise StageError(f"{job.prepared}: none of the tokens of its {counts.rows:,} rows is learnt from; run prepare again")
    job.inputs["prepare"] = counts.fingerprint  # of what was read, whatever prepare's manifest tells of
    return counts


def _read_back(directory: str, counts: TokenCounts, mapping: Mapping) -> list[str]:
    """As the trainer loads them."""
    import numpy
    import torch

    size = len(mapping.d2t)
    problems = []
    if torch.load(os.path.join(directory, files.FREQUENCIES), weights_only=True) != counts.frequencies():
        problems.append(f"{files.FREQUENCIES} does not hold what was counted")
    for name, array in ((files.d2t_name(size), mapping.d2t), (files.t2d_name(size), mapping.t2d)):
        if not numpy.array_equal(numpy.load(os.path.join(directory, name)), array):
            problems.append(f"{name} does not hold what was written")
    return problems


def _publish(job: VocabJob, building: str, totals: dict[str, Any], sums: dict[str, str]) -> bool:
    """Rename the files into place, the manifest last; True when the same ones are there, and stay."""
    unchanged = (job.found or {}).get("complete") is True and files.are_there(job.output, sums)
    replaced = files.told_of(job.found) - sums.keys()
    if not unchanged:
        _manifest(job, {**totals, "replaces": sorted(replaced)}, complete=False)
        files.move_in(building, job.output, sums)
    files.tidy(job.output, replaced)  # while a manifest still tells of them
    _manifest(job, totals, complete=True)
    return unchanged


def _manifest(job: VocabJob, totals: dict[str, Any], complete: bool) -> None:
    output_manifest.publish(
        job.output,
        "vocab",
        job.attempt.id,
        complete=complete,
        fingerprint=files.fingerprint(totals["files"]),
        inputs=dict(job.inputs),
        settings={"vocab.draft_vocab_size": job.settings.vocab.draft_vocab_size},
        totals=totals,
        packages=PACKAGES,
    )


def _verify(job: VocabJob) -> None:
    """The files against the manifest, the manifest against the present rows, tokenizer and sizes, the counts against the rows."""
    if job.found is None:
        raise UserError(f"vocab.output: {job.output} holds nothing that vocab made; run vocab first")
    totals, forced = job.found["totals"], files.forced_of(job.found)
    counts = _count(job)
    wrong = files.differences(job.found, job.inputs, job.settings.vocab.draft_vocab_size, job.model.vocab_size)
    if wrong:
        raise UserError(f"vocab.output: {job.output}: {'; '.join(wrong)}; {files.mend(job.output, job.found)}")
    problems = [] if job.found.get("complete") is True else [f"{lineage.NAME} says that the mapping is not complete"]
    problems += files.damage(job.output, job.found)
    job.attempt.progress.phase(VERIFYING, note="comparing")
    if not problems and forced is not None:
        outcome = describe(counts, forced, job.settings.vocab.draft_vocab_size, job.settings.vocab.coverage_sizes)
        problems += _read_back(job.output, counts, outcome.mapping)
        totals = {**outcome.totals, "files": totals["files"]}
    job.attempt.progress.phase(FINISHING, note=None)
    conclude(job.attempt, job.output, totals, problems, "verified", files.mend(job.output, job.found))
