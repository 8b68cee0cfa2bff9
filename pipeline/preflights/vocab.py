"""Before the drafter's vocabulary is chosen: the rows, the verifier, the sizes."""

import os
from typing import Any, cast

from pipeline import disk
from pipeline.paths import resolve
from pipeline.preflights import common
from pipeline.preflights.report import Report
from pipeline.schema import Settings
from pipeline.sizes import size
from pipeline.stages.vocab import open_job
from pipeline.verifier_tokenizer import load_tokenizer

_A_TOKEN_BYTES = 64
"""Of the verifier's vocabulary: its count in token_freq.pt, its bit in t2d, d2t, and all of it twice while it is replaced."""


def add(report: Report, settings: Settings, run_directory: str) -> None:
    model = common.add_model(report, settings, run_directory)
    if model is None:
        for name in ("tokenizer", "prepared data", "disk"):
            report.unknown(name, "the model")
        return
    report.check(
        "tokenizer", lambda: load_tokenizer(model.path, settings.model.trust_remote_code), lambda one: f"loads, {len(one):,} tokens"
    )
    size_asked = settings.vocab.draft_vocab_size
    report.check(
        "prepared data",
        lambda: open_job(cast(Any, None), settings, run_directory),  # nothing that is asked of it here is the attempt's
        lambda one: f"{one.prepared}; {size_asked:,} of {one.model.vocab_size:,} tokens are to be chosen",
    )
    report.check("disk", lambda: _room(settings, run_directory, model.vocab_size), str)


def _room(settings: Settings, run_directory: str, vocab_size: int) -> str:
    output = resolve(run_directory, settings.vocab.output, "vocab.output")
    disk.check_writable(output, "vocab.output")
    need = vocab_size * _A_TOKEN_BYTES
    free = disk.check_room(output, "vocab.output", need, "a mapping")
    return f"{os.path.basename(output)} takes {size(need)} at the most; {size(free)} free"
