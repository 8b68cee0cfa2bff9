"""The training set: the verifier's answers as an Arrow dataset that speculators' trainer reads as it is.

Order: read all answers and choose; write the rows in the order of a hash; re-read and check them; only then let them take the place of
what an earlier attempt made. The same answers and settings give the same files, bit for bit, so that a killed attempt is simply run again.
"""

import argparse
import os

from pipeline import interpreter, rows_lock
from pipeline.attempt import Attempt
from pipeline.contract.telemetry import FINISHING, LOADING, STEADY, VERIFYING
from pipeline.disk_errors import naming, told
from pipeline.errors import StageError, UserError
from pipeline.log import say
from pipeline.overrides import settle
from pipeline.preparation import check, dataset_files, order, report
from pipeline.preparation.answers import AnswerFile, Tokens
from pipeline.preparation.inspection import against_manifest, inspect
from pipeline.preparation.job import Job, open_job, output_directory
from pipeline.preparation.outcome import MADE, UNCHANGED, VERIFIED, conclude
from pipeline.preparation.publication import publish
from pipeline.preparation.selection import Sample, Selection
from pipeline.preparation.source import Reading, differences, outdated
from pipeline.progress import WARN
from pipeline.schema import Settings
from pipeline.verifier_tokenizer import load_tokenizer

NEEDED_PACKAGES = ("datasets", "numpy", "transformers", "msgspec")
_LOOK_EVERY = 64


def check_interpreter() -> None:
    """Raise UserError when this interpreter lacks a package that the stage needs."""
    interpreter.require("prepare", NEEDED_PACKAGES)


def outputs(settings: Settings, run_directory: str) -> list[str]:
    """Directories that this stage alone may write to while it runs."""
    return [output_directory(settings, run_directory)]


def run(attempt: Attempt, settings: Settings, run_directory: str, arguments: argparse.Namespace) -> None:
    """Make the dataset, or (``--verify``) re-read and check the one that is there. Raises StageError, UserError, Interrupted."""
    attempt.progress.phase(LOADING, note="the model's config, the answers, the tokenizer")
    job = open_job(attempt, settings, run_directory)
    try:
        with rows_lock.held(job.output, write=not arguments.verify):
            if arguments.verify:
                _verify(job)
            else:
                _make(job, arguments.override)
    except OSError as error:
        raise StageError(told(error, job.output)) from None


def _make(job: Job, override: str | None) -> None:
    if not os.path.exists(job.responses.path):
        raise UserError(f"generate.output: there is no {job.responses.path}; run generate first")
    building = dataset_files.begin(job.output)
    tokenizer = load_tokenizer(job.model.path, job.settings.model.trust_remote_code)
    job.attempt.raise_if_stopped()
    held_out_answers = job.holdout.count()
    answers = job.responses.count() + held_out_answers
    say(f"{answers:,} answers in {os.path.dirname(job.responses.path)}")
    job.attempt.progress.phase(STEADY, total=answers, held_out_total=held_out_answers, note="reading the answers")
    reading = Reading()
    held_out = _select(job, job.holdout, os.path.join(building, "holdout-tokens"), reading)
    chosen = _select(job, job.responses, os.path.join(building, "tokens"), reading, frozenset(held_out.prompts))
    settle(job.attempt, job.run_directory, override, differences(reading, job.source, os.path.dirname(job.responses.path)))
    rows, train = _arrange(job, chosen)
    holdout_rows = sorted(held_out.samples, key=lambda sample: order.order_key(job.settings.prepare.seed, sample.id))
    job.attempt.progress.update(note="writing the rows")
    built = _write(job, building, "prepared", "tokens", rows)
    built_holdout = _write(job, building, dataset_files.HOLDOUT, "holdout-tokens", holdout_rows) if holdout_rows else None
    job.attempt.progress.phase(VERIFYING, verify_total=len(rows), verified=0, bad=0, note="re-reading the rows")
    inspected = inspect(job, tokenizer, built, built_holdout, train)
    inspected.problems.extend(check.compare(inspected.rows, rows))
    inspected.problems.extend(check.compare(inspected.holdout, holdout_rows) if inspected.holdout else [])
    job.attempt.raise_if_stopped()
    job.attempt.progress.phase(FINISHING, note=None)
    counted = {**report.counted(chosen.counts), "holdout": report.counted(held_out.counts)}
    unchanged = not inspected.problems and publish(job, built, built_holdout, inspected, counted, reading.fingerprint)
    conclude(
        job,
        inspected,
        counted,
        report.counts_facts(chosen.counts, held_out.counts, job.settings.prepare.max_length_tokens),
        UNCHANGED if unchanged else MADE,
    )


def _select(
    job: Job, source: AnswerFile, tokens_path: str, reading: Reading, held_out_prompts: frozenset[bytes] = frozenset()
) -> Selection:
    done = len(reading)
    with naming(tokens_path), open(tokens_path, "wb") as spill:
        selection = Selection(
            "holdout" if source is job.holdout else "train", job.settings.prepare, job.model.vocab_size, spill, held_out_prompts
        )
        for line, whole, answer in source.whole(Tokens):
            selection.take(answer, source.path, line)
            reading.add(answer, selection.split, whole, f"{source.path}: line {line}")
            if selection.counts.read % _LOOK_EVERY == 0:
                job.attempt.raise_if_stopped()
                job.attempt.progress.update(done=done + selection.counts.read, tokens=selection.tokens)
    job.attempt.progress.update(done=done + selection.counts.read, tokens=selection.tokens)
    if source.torn_bytes:
        say(f"note: the last line of {source.path} is cut off ({source.torn_bytes} bytes): generate is to ask for that answer again")
    return selection


def _arrange(job: Job, chosen: Selection) -> tuple[list[Sample], int]:
    """(samples in the order of the rows, how many of them train). Raises StageError, UserError."""
    prepare = job.settings.prepare
    if not chosen.samples:
        reasons = ", ".join(f"{count:,} {name}" for name, count in chosen.counts.left_out.items() if count)
        raise StageError(f"no sample is left to train on, of {chosen.counts.read:,} answers in {job.responses.path}: {reasons or 'none'}")
    places, train, forced = order.arrange([sample.id for sample in chosen.samples], prepare.seed, prepare.validation_share)
    if not train:
        raise UserError(f"prepare.validation_share: {prepare.validation_share} leaves no sample to train on; lower it")
    if forced:
        say(f"note: a share of {prepare.validation_share} chose none of {len(places)} samples for validation; the nearest one is taken")
    if train == len(places):
        say("note: no validation rows: speculators' own train command refuses such data; set prepare.validation_share above 0")
    return [chosen.samples[place] for place in places], train


def _write(job: Job, building: str, name: str, tokens: str, samples: list[Sample]) -> str:
    path, tokens_path = os.path.join(building, name), os.path.join(building, tokens)
    dataset_files.write(path, tokens_path, samples, os.path.join(building, "form"), lambda _: job.attempt.raise_if_stopped())
    os.unlink(tokens_path)
    return path


def _verify(job: Job) -> None:
    """Of what is there: the rows against themselves and the manifest, some of them against their answers."""
    if job.found is None:
        raise UserError(f"prepare.output: {job.output} holds nothing that prepare made; run prepare first")
    totals = job.found["totals"]
    planned, train = (totals[key] if type(totals.get(key)) is int else None for key in ("samples", "train_samples"))
    tokenizer = load_tokenizer(job.model.path, job.settings.model.trust_remote_code)
    job.attempt.progress.phase(VERIFYING, total=planned, verify_total=planned, verified=0, bad=0, note="re-reading the rows")
    holdout = job.holdout_output if totals.get("holdout_samples") else None
    inspected = inspect(job, tokenizer, job.output, holdout, train or 0)
    inspected.problems.extend(against_manifest(job, inspected, job.found))
    job.attempt.progress.phase(FINISHING, note=None, done=len(inspected.rows.ids))
    counted = {key: totals.get(key) for key in ("answers", "left_out", "cut", "cut_tokens", "mismatched", "unchecked", "holdout")}
    why = outdated(job)
    conclude(job, inspected, counted, [("outdated", why, WARN)] if why else [], VERIFIED, why)
