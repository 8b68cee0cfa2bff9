"""Before the training set is made: the answers, the verifier, its tokenizer, room for the rows."""

from typing import Any, cast

from pipeline import disk, output_manifest
from pipeline.paths import resolve
from pipeline.preflights import common
from pipeline.preflights.report import CannotTellError, NotSoError, Report
from pipeline.preparation.job import Job, open_job
from pipeline.schema import Settings
from pipeline.sizes import size
from pipeline.verifier_tokenizer import load_tokenizer

_A_TOKEN_BYTES = 20
"""int64 of the id and of the loss mask, and 4 in the file that is written first."""
_A_ROW_BYTES = 256


def add(report: Report, settings: Settings, run_directory: str) -> None:
    model = common.add_model(report, settings, run_directory)
    if model is None:
        for name in ("tokenizer", "answers", "output", "disk"):
            report.unknown(name, "the model")
        return
    report.check(
        "tokenizer", lambda: load_tokenizer(model.path, settings.model.trust_remote_code), lambda one: f"loads, {len(one):,} tokens"
    )
    job = report.check("output", lambda: _open(settings, run_directory), _about_output)
    if job is None:
        report.unknown("answers", "the output")
        report.unknown("disk", "the output")
        return
    report.check("answers", lambda: _answers(job), str)
    report.check("disk", lambda: _room(job), str)


def _open(settings: Settings, run_directory: str) -> Job:
    job = open_job(cast(Any, None), settings, run_directory)  # nothing that is asked of it here is the attempt's
    disk.check_writable(job.output, "prepare.output")
    return job


def _about_output(job: Job) -> str:
    return f"{job.output}: " + ("an earlier attempt's, which stays until a new one is checked" if job.found else "nothing of prepare's yet")


def _answers(job: Job) -> str:
    training, held_out = job.responses.count(), job.holdout.count()
    if not training:
        raise NotSoError(f"there is no answer in {job.responses.path}", "run generate first")
    return f"{training:,} answers in {job.responses.path}, {held_out:,} held out"


def _room(job: Job) -> str:
    """By the tokens that generate counted; nothing is cut yet, so it is the most."""
    generated = resolve(job.run_directory, job.settings.generate.output, "generate.output")
    totals = (output_manifest.load(generated, "generate.output") or {}).get("totals")
    counts = [totals.get(key) if isinstance(totals, dict) else None for key in ("tokens", "prompt_tokens", "answered")]
    tokens, prompt_tokens, answers = (count if type(count) is int else None for count in counts)
    if tokens is None or prompt_tokens is None or answers is None:
        raise CannotTellError("generate's manifest does not tell how many tokens there are", "run generate again, to its end")
    need = (tokens + prompt_tokens) * _A_TOKEN_BYTES + answers * _A_ROW_BYTES
    free = disk.check_room(job.output, "prepare.output", need, f"a dataset of {tokens + prompt_tokens:,} tokens")
    return f"{tokens + prompt_tokens:,} tokens take {size(need)} at the most; {size(free)} free"
