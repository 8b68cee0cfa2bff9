"""Before hours of answers: the prompts, the tokenizer, the server and its model, room for what it will say."""

import os

from pipeline import disk
from pipeline.generation import identity
from pipeline.generation.plan import Plan
from pipeline.generation.records import RESPONSES
from pipeline.generation.server import find_server
from pipeline.preflights.report import CannotTellError, NotSoError, Report
from pipeline.schema import Settings
from pipeline.sizes import size

_A_TOKEN_BYTES = 24
"""Of a line of responses.jsonl: an id and its comma, the text, and the text once more in the view."""
_A_LINE_BYTES = 2048
"""Beside that."""


def add(report: Report, settings: Settings, run_directory: str) -> None:
    plan = report.check("prompts", lambda: _plan(settings, run_directory), _about_prompts)
    if plan is None:
        for name in ("output", "server", "disk"):
            report.unknown(name, "the prompts")
        return
    try:
        report.check("output", lambda: disk.check_writable(plan.directory, identity.SETTING), lambda _: _about_output(plan))
        report.check("server", lambda: _server(plan), str)
        report.check("disk", lambda: _room(plan), str)
    finally:
        plan.chosen.close()


def _plan(settings: Settings, run_directory: str) -> Plan:
    """As the stage makes it, but nothing is written: a torn line stays."""
    return Plan(settings, run_directory, None, verify_only=True, look=lambda doing: None)


def _about_prompts(plan: Plan) -> str:
    chosen = plan.chosen
    bad = f", {len(chosen.bad):,} rows hold none" if chosen.bad else ""
    twice = f", {chosen.duplicates:,} came before" if chosen.duplicates else ""
    return (
        f"{plan.source}: {chosen.rows:,} rows read{bad}{twice}; {len(chosen.train):,} prompts for training, {len(chosen.holdout):,} held "
        f"out; the tokenizer loads, {len(plan.tokens):,} tokens"
    )


def _about_output(plan: Plan) -> str:
    answered = len(plan.earlier.digests)
    return f"{plan.directory}: {answered:,} prompts answered there, {len(plan.asks):,} to ask, {len(plan.kept):,} listed as failed for good"


def _server(plan: Plan) -> str:
    server = find_server(plan.settings, plan.tokens, plan.vocab_size, lambda: None)
    try:
        plan.check_model(server.model)
        return f"{server.endpoint} has {server.model!r}, and answered with one token and its id"
    finally:
        server.close()


def _room(plan: Plan) -> str:
    """By the mean of the answers that are there; without any, by the longest that there can be."""
    free = disk.free_bytes(plan.directory)
    longest = len(plan.asks) * (plan.settings.generate.max_response_tokens * _A_TOKEN_BYTES + _A_LINE_BYTES)
    answered = len(plan.earlier.digests)
    try:
        there = os.path.getsize(os.path.join(plan.directory, RESPONSES))
    except OSError:
        there = 0
    mean = f", {size(there / answered * len(plan.asks))} at the mean of the {answered:,} that are there" if answered and there else ""
    told = f"{len(plan.asks):,} answers take {size(longest)} at the most{mean}; {size(free)} free"
    if free >= longest:
        return told
    if mean and there / answered * len(plan.asks) > free:
        raise NotSoError(told, "free some space, or choose another generate.output")
    raise CannotTellError(f"{told}: enough only when most are shorter", "lower generate.max_response_tokens, or free some space")
