"""The catalogue of stages: data that the console draws and that gating, launch and preflight read."""

from typing import Dict, NamedTuple, Optional, Tuple


class Stage(NamedTuple):
    """One stage of the pipeline."""

    name: str
    label: str
    """At most eight columns, for the stage strip."""
    needs: Tuple[str, ...]
    """Stages that must be done (or up, for a service) before this one starts."""
    gpus: str
    """``all``, ``some`` (a number in the settings), ``server`` (through the serve stage) or ``none``."""
    unit: Optional[str]
    """What its progress counts; None for a service."""
    done_means: str
    service: bool = False
    built: bool = False
    """False: catalogued, but this version has no code for it yet."""
    grace_s: float = 30.0
    """Seconds between the one SIGTERM and SIGKILL."""


_ALL = (
    Stage("serve", "serve", (), "all", None, "health answers and a one-token request works", service=True, grace_s=60.0),
    Stage("generate", "gen", ("serve",), "server", "prompt", "every prompt answered, or listed as failed with its reason"),
    Stage("prepare", "prep", ("generate",), "none", "sample", "dataset written and spot-checked against the tokenizer"),
    Stage("vocab", "vocab", ("prepare",), "none", "token", "d2t and t2d written, coverage known"),
    Stage(
        "extract",
        "EXTRACT",
        ("prepare",),
        "all",
        "sample",
        "ledger complete; headers and sizes right; count, tokens and bytes equal the plan; files re-read",
        built=True,
    ),
    Stage("train", "train", ("vocab", "extract"), "some", "step", "checkpoint loads"),
    Stage("evaluate", "eval", ("train",), "all", "prompt", "acceptance by position, speed-up and a verdict"),
)

STAGES: Dict[str, Stage] = {stage.name: stage for stage in _ALL}
"""In the order of the pipeline."""
