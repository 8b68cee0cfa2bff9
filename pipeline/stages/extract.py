"""The extraction: prefill every prepared sample once and publish the hidden states of the chosen layers.

Order: look at everything (preflight), load, run the planned batches that miss a sample, re-read what was written, and only then say done.
"""

import argparse
import random
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

from pipeline import interpreter, ledger, manifest, preflight, rows_lock, verify
from pipeline.attempt import Attempt
from pipeline.contract import events
from pipeline.contract.telemetry import FINISHING, LOADING, STEADY, VERIFYING
from pipeline.engines import Engine, make_engine
from pipeline.errors import StageError, UserError
from pipeline.partial import clean_up
from pipeline.paths import resolve
from pipeline.preflight import Plan
from pipeline.schema import Settings
from pipeline.sizes import size
from pipeline.stages.extract_meter import Meter
from pipeline.store import Store

NEEDED_PACKAGES = ("torch", "transformers", "safetensors", "datasets", "numpy", "msgspec")
REREAD_ALL_BELOW_SAMPLES = 400
REREAD_ALL_UP_TO_BYTES = 2 * 10**9
REREAD_SHARE = 0.01
REREAD_AT_LEAST = 20
SHOWN_PROBLEMS = 20


def check_interpreter() -> None:
    """Raise UserError when this interpreter lacks a package that the stage needs."""
    interpreter.require("extract", NEEDED_PACKAGES)


def outputs(settings: Settings, run_directory: str) -> list[str]:
    """Directories that this stage alone may write to while it runs."""
    return [preflight.output_directory(settings, run_directory)]


def run(attempt: Attempt, settings: Settings, run_directory: str, arguments: argparse.Namespace) -> None:
    """Extract what is missing and check it, or (``--verify``) re-read everything that is there.

    ``--limit``: only the first that many rows. Raises StageError, UserError, Interrupted.
    """
    with rows_lock.held(resolve(run_directory, settings.extract.data, "extract.data"), write=False):
        _run(attempt, settings, run_directory, arguments)


def _run(attempt: Attempt, settings: Settings, run_directory: str, arguments: argparse.Namespace) -> None:
    limit, verify_only = arguments.limit, arguments.verify
    meter = Meter(attempt)
    attempt.progress.phase(LOADING, note="checking the input")
    plan = preflight.make_plan(settings, run_directory, limit, verify_only)
    meter.start(plan)
    attempt.raise_if_stopped()
    if plan.others:
        _verify_others(plan, attempt, meter)
    if plan.missing and not verify_only:
        clean_up(plan.output)  # before the space is measured, and before half an hour of loading
        preflight.check_space(plan)
        _produce(plan, attempt, meter)
    attempt.progress.phase(VERIFYING, note=None)
    problems, reread = _check(plan, attempt, meter, everything=verify_only)
    attempt.progress.phase(FINISHING)
    _finish(plan, attempt, meter, problems, reread)


def _produce(plan: Plan, attempt: Attempt, meter: Meter) -> None:
    extract = plan.settings.extract
    engine = make_engine(plan.settings, plan.model, plan.layer_ids)
    meter.say(f"loading {plan.model.model_type} from {plan.model.path} ({plan.model.weight_files} files, {size(plan.model.weight_bytes)})")
    attempt.progress.update(note=f"{plan.model.weight_files} weight files, {size(plan.model.weight_bytes)}")
    _load(engine, attempt, meter)
    about = engine.about()
    meter.say("loaded: " + ", ".join(f"{key} {value}" for key, value in about.items()))
    _publish_manifest(plan, meter, about)
    store = Store(
        plan.output,
        plan.layer_ids,
        plan.missing_bytes,
        extract.writer_threads,
        extract.buffer_bytes,
        extract.min_free_bytes,
        on_published=meter.published,
    )
    meter.steady_begins()
    attempt.progress.phase(STEADY, note=f"on {about['device']}")  # a GPU host without its driver works on the CPU: be seen
    try:
        for index, token_ids, states in engine.run(plan.batches(), plan.data):
            attempt.raise_if_stopped()
            if index in plan.missing:
                store.put(index, token_ids, states)
        store.flush()
    finally:
        store.close()  # publishes what was put, so that a stop loses nothing that is finished
        meter.tell()


def _load(engine: Engine, attempt: Attempt, meter: Meter) -> None:
    """Load in a thread, because a signal must be able to end a load of half an hour."""
    ended = threading.Event()
    failure: list[BaseException] = []

    def work() -> None:
        try:
            engine.load(meter.weights)
        except BaseException as error:
            failure.append(error)
        finally:
            ended.set()

    try:
        threading.Thread(target=work, name="model-load", daemon=True).start()
    except RuntimeError as error:
        raise StageError(f"the thread that loads the model cannot start: {error}; look at the host's limit on processes") from None
    while not ended.wait(0.1):
        attempt.raise_if_stopped()
    if failure:
        raise failure[0]
    attempt.raise_if_stopped()


def _publish_manifest(plan: Plan, meter: Meter, about: dict[str, Any]) -> None:
    """Before the first sample. What an earlier attempt recorded stays; what is different now is added."""
    made_with = manifest.made_with(plan.settings.extract, about)
    if plan.found_manifest is None:
        manifest.publish(plan.output, {**plan.manifest, "made_with": made_with})
        return
    found = {**plan.found_manifest, "complete": False}
    changed = manifest.changes(found, made_with)
    if changed:
        meter.say(f"note: not as the earlier samples were made, the last bits may differ: {changed}")
        found["continued"] = [*found.get("continued", []), {"wall_s": meter.wall_s(), "changes": changed}]
    manifest.publish(plan.output, found)


def _check(plan: Plan, attempt: Attempt, meter: Meter, everything: bool) -> tuple[list[verify.Problem], int]:
    """(problems, files re-read). Every name, size and header; then whole files: all of them, or a random share of a large set."""
    try:
        records = ledger.read_ledgers(plan.output)
        problems = verify.check_manifest(plan, records) + verify.check_headers(plan, records)
    except OSError as error:
        raise StageError(f"{plan.output}: {error.strerror}") from None
    bad_names = {name for name, _ in problems}
    indices: Sequence[int] = range(plan.samples)
    if not everything and plan.samples >= REREAD_ALL_BELOW_SAMPLES and plan.total_bytes > REREAD_ALL_UP_TO_BYTES:
        count = max(REREAD_AT_LEAST, round(plan.samples * REREAD_SHARE))
        indices = sorted(random.Random(attempt.id).sample(indices, count))
    indices = [index for index in indices if f"hs_{index}.safetensors" not in bad_names]
    meter.say(f"{plan.samples:,} names, sizes and headers checked, {len(problems)} bad; re-reading {len(indices):,} files")
    meter.verifying_begins(len(indices), len(problems))
    problems += verify.check_files(plan, records, indices, plan.settings.extract.writer_threads, meter.verified, attempt.stop)
    attempt.raise_if_stopped()
    attempt.event(events.VERIFIED, files=len(indices) + len(bad_names), bad=len(problems))
    return problems, len(indices) - (len(problems) - len(bad_names))


def _verify_others(plan: Plan, attempt: Attempt, meter: Meter) -> NoReturn:
    """Re-read files that are of other data than the present, by their writer's record, and say both. Always ends in an error."""
    attempt.progress.phase(VERIFYING, note="of other data or another model")
    indices = sorted(plan.ledger)
    meter.verifying_begins(len(indices), 0)
    threads = plan.settings.extract.writer_threads
    problems = verify.check_files(plan, plan.ledger, indices, threads, meter.verified, attempt.stop, verify.check_by_ledger)
    attempt.raise_if_stopped()
    attempt.event(events.VERIFIED, files=len(indices), bad=len(problems))
    shown = [f"{name}: {problem}" for name, problem in problems[:SHOWN_PROBLEMS]]
    sound = len(indices) - len(problems)
    receipt = {"verified": False, "verified_samples": sound, "bad": len(problems), "bad_files": shown, "others": plan.others}
    attempt.receipt({**receipt, "samples": len(indices), "output": plan.output})
    for line in shown:
        meter.say(f"BAD {line}")
    words = f"{len(indices):,} files re-read, {len(problems):,} bad" + (
        f", the first: {shown[0]}" if shown else ", all as they were written"
    )
    raise (StageError if problems else UserError)(f"{words}; but {plan.others}")


def _finish(plan: Plan, attempt: Attempt, meter: Meter, problems: list[verify.Problem], sound: int) -> None:
    whole = plan.samples == len(plan.data)
    found = manifest.load(plan.output)
    if any(name == manifest.NAME for name, _ in problems):
        found = None  # a damaged one stays as it is, for whoever repairs it
    if found is not None and (whole or problems):
        totals = {"samples": plan.samples, "tokens": plan.tokens, "bytes": plan.total_bytes}
        manifest.publish(plan.output, {**found, "complete": whole and not problems, "totals": None if problems else totals})
    attempt.receipt(
        {
            "verified": not problems,
            "samples": meter.done,
            "tokens": meter.tokens,
            "bytes": meter.bytes,
            "verified_samples": sound,
            "bad": len(problems),
            "bad_files": [f"{name}: {problem}" for name, problem in problems[:SHOWN_PROBLEMS]],
            "planned_samples": len(plan.data),
            "limit": None if whole else plan.samples,
            "layer_ids": plan.manifest["hidden_states"]["layer_ids"],
            "convention": plan.manifest["hidden_states"]["convention"],
            "output": plan.output,
            **meter.rates(),
        }
    )
    for name, problem in problems[:SHOWN_PROBLEMS]:
        meter.say(f"BAD {name}: {problem}")
    if problems:
        name, problem = problems[0]
        if name == manifest.NAME:
            raise StageError(
                f"{plan.output}/{name} is damaged: {problem}; put it back from a copy, or choose another extract.output. "
                f"Of the files beside it {len(problems) - 1} of {plan.samples} are bad"
            )
        raise StageError(
            f"{len(problems)} of {plan.samples} files in {plan.output} are bad, the first is {name}: {problem}. "
            "Delete the bad files (the log and the receipt name them) and start the stage again: it makes only those"
        )
    meter.say(f"done: {meter.done:,} samples, {meter.tokens:,} tokens, {size(meter.bytes)}; {sound:,} files re-read, all sound")
