"""The verifier's own answers to prompts, with its token ids, each prompt exactly once.

Order: choose the prompts, look at what earlier attempts left, look at the server, ask, re-read everything, and only then say done.
"""

import argparse
import asyncio
import os
from collections import Counter
from typing import Any

from pipeline import interpreter, output_manifest
from pipeline.attempt import Attempt
from pipeline.contract import events
from pipeline.contract.telemetry import FINISHING, LOADING, STEADY, VERIFYING
from pipeline.errors import StageError
from pipeline.generation import identity
from pipeline.generation.asking import Asking, Files
from pipeline.generation.check import SHOWN_PROBLEMS, Check, Checked
from pipeline.generation.choice import HOLDOUT, TRAIN
from pipeline.generation.client import Client
from pipeline.generation.meter import Meter
from pipeline.generation.plan import Plan, output_directory
from pipeline.generation.records import FAILED, HOLDOUTS, RESPONSES, AppendFile
from pipeline.generation.server import Server, find_server
from pipeline.generation.watch import Watch
from pipeline.log import say
from pipeline.overrides import settle
from pipeline.schema import Settings

NEEDED_PACKAGES = ("msgspec", "openai", "httpx", "tenacity", "transformers", "datasets", "pyarrow")
_PACKAGES_KEPT = ("openai", "transformers", "tokenizers")


def check_interpreter() -> None:
    """Raise UserError when this interpreter lacks a package that the stage needs."""
    interpreter.require("generate", NEEDED_PACKAGES)


def outputs(settings: Settings, run_directory: str) -> list[str]:
    """Directories that this stage alone may write to while it runs."""
    return [output_directory(settings, run_directory)]


def run(attempt: Attempt, settings: Settings, run_directory: str, arguments: argparse.Namespace) -> None:
    """Answer what is not answered and check it, or (``--verify``) only check.

    ``--limit``: only the first that many prompts for training. ``--greedy-holdout``: instead of the setting.
    Raises StageError, UserError, Interrupted.
    """

    def look(doing: str) -> None:
        attempt.raise_if_stopped()
        attempt.progress.update(note=doing)

    attempt.progress.phase(LOADING)
    meter = Meter(attempt, settings.generate.require_reasoning)
    settings = identity.hold_out(settings, arguments.greedy_holdout)
    plan = Plan(settings, run_directory, arguments.limit, arguments.verify, look)
    try:
        settle(attempt, run_directory, arguments.override, plan.problems())
        meter.start(plan)
        served_as = identity.served_model(plan.found)
        if not arguments.verify:
            served_as = _ask(plan, attempt, meter) or served_as
        checked = _check(plan, attempt, meter, arguments.verify)
        _finish(plan, attempt, meter, checked, served_as, publish=not arguments.verify)
    finally:
        plan.chosen.close()


def _ask(plan: Plan, attempt: Attempt, meter: Meter) -> str | None:
    """Answer what is not answered. Returns the model's name at the server; None when there was nothing to ask."""
    unlisted = plan.unlisted()
    if not plan.asks and not unlisted:
        say("every prompt is answered or listed as failed; there is nothing to ask")
        return None
    server = None
    if plan.asks:
        attempt.progress.update(note="looking at the server")
        server = find_server(plan.settings, plan.tokens, plan.vocab_size, attempt.raise_if_stopped)
    try:
        if server is not None:
            plan.check_model(server.model)
        name = server.model if server else identity.served_model(plan.found)
        totals = {"answered": meter.counts.samples, "prompts": meter.total, "served_model": name}
        _publish(plan, attempt, complete=False, fingerprint=None, totals=totals)
        files = Files(*(AppendFile(os.path.join(plan.directory, name)) for name in (RESPONSES, HOLDOUTS, FAILED)))
        try:
            for failure in unlisted:
                files.failed.append(failure)
            files.sync()
            if server is not None:
                attempt.progress.phase(STEADY, note=None)
                meter.steady_begins()
                asyncio.run(_ask_all(plan, attempt, meter, server, files))
        finally:
            files.close()
    finally:
        if server is not None:
            server.close()
    return name


async def _ask_all(plan: Plan, attempt: Attempt, meter: Meter, server: Server, files: Files) -> None:
    generate = plan.settings.generate
    client = Client(server.endpoint, server.key, server.model, generate, plan.vocab_size)
    watch = Watch(server.api, server.one_token, generate.breaker_failures, plan.settings.serve.ready_timeout_s, say)
    try:
        await Asking(attempt, generate, server.model, plan.chosen, client, plan.tokens, watch, files, meter).run(plan.asks)
    finally:
        meter.tell(watch)
        meter.say_progress()
        await client.close()


def _check(plan: Plan, attempt: Attempt, meter: Meter, verify: bool) -> Checked:
    lines = meter.counts.samples
    attempt.progress.phase(VERIFYING, note=None, verified=0, bad=0, verify_total=lines)

    def each(read: int, problems: int) -> None:
        attempt.raise_if_stopped()
        attempt.progress.update(verified=read, bad=problems)

    say(f"re-reading {lines:,} answers")
    checked = Check(plan.directory, plan.tokens, plan.vocab_size, attempt.id, each).run(plan.chosen, lines)
    if verify:
        edited = identity.other_answers(plan.directory, plan.found, checked.fingerprint, checked.counts.samples)
        checked.problems.extend([edited] if edited else [])
    attempt.event(events.VERIFIED, files=checked.counts.samples, bad=len(checked.problems))
    return checked


def _publish(plan: Plan, attempt: Attempt, complete: bool, fingerprint: str | None, totals: dict[str, Any]) -> None:
    output_manifest.publish(
        plan.directory,
        "generate",
        attempt.id,
        complete=complete,
        fingerprint=fingerprint,
        inputs={"model": plan.made_by, "prompts": plan.chosen.fingerprint()},
        settings=identity.shaping(plan.settings.generate),
        totals=totals,
        packages=_PACKAGES_KEPT,
        sources=plan.source_files,
    )


def _finish(plan: Plan, attempt: Attempt, meter: Meter, checked: Checked, served_as: str | None, publish: bool) -> None:
    attempt.progress.phase(FINISHING)
    counts, problems = checked.counts, checked.problems
    sound = not problems and counts.samples > 0
    reasons = Counter(failure.reason for failure in checked.failures.values())
    totals = {
        "samples": counts.answered[TRAIN],
        "holdout": counts.answered[HOLDOUT],
        "answered": counts.samples,
        "prompts": meter.total,
        "failed": reasons.total(),
        "tokens": counts.tokens,
        "prompt_tokens": counts.prompt_tokens,
        "served_model": served_as,
    }
    if publish and (plan.found is not None or counts.samples):
        _publish(plan, attempt, complete=plan.whole and sound, fingerprint=checked.fingerprint if sound else None, totals=totals)
    attempt.receipt(
        {
            **totals,
            "verified": sound,
            "bad": len(problems),
            "problems": problems[:SHOWN_PROBLEMS],
            "planned_samples": meter.total,
            "limit": None if plan.whole else len(plan.chosen.train),
            "duplicates": plan.chosen.duplicates,
            "with_reasoning": round(counts.with_reasoning / counts.samples, 6) if counts.samples else None,
            "finish_reasons": dict(counts.finish_reasons),
            "truncated": counts.truncated,
            "failed_by_reason": dict(reasons),
            "mismatched": dict(counts.mismatched),
            "marks": dict(counts.marks),
            "retries": dict(meter.retries),
            "judged_again": checked.judged_again,
            "fingerprint": checked.fingerprint if sound else None,
            "output": plan.directory,
            **meter.rates(),
        }
    )
    for problem in problems[:SHOWN_PROBLEMS]:
        say(f"BAD {problem}")
    if problems:
        raise StageError(
            f"{len(problems)} problems in {plan.directory}, the first is {problems[0]}. "
            "Put back what was edited, delete the lines that are damaged or doubled (the log names them), and start the stage again: "
            "it asks for what is lacking"
        )
    if not counts.samples:
        shown = ", ".join(f"{count:,} {name}" for name, count in reasons.most_common())
        first = next(iter(checked.failures.values()), None)
        raise StageError(f"no prompt was answered: {shown}" + (f"; the first: {first.id}: {first.detail}" if first else ""))
    say(
        f"done: {counts.samples:,} answers, {counts.tokens:,} tokens, {reasons.total():,} failed; "
        f"{checked.judged_again:,} judged again, all sound"
        + (
            "; start the stage again to try those that failed by the server's fault"
            if any(not one.permanent for one in checked.failures.values())
            else ""
        )
    )
