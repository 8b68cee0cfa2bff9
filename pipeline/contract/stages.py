"""The catalogue of stages and of actions: data that the console draws and that gating, launch and preflight read."""

from typing import Dict, NamedTuple, Optional, Tuple, Union


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
    does: str
    """One line, for help texts."""
    service: bool = False
    options: Tuple[str, ...] = ()
    """Of its command line, beside those that every stage has: ``limit``, ``verify``, ``greedy-holdout``."""
    built: bool = False
    """False: catalogued, but this version has no code for it yet."""
    grace_s: float = 30.0
    """Seconds between the one SIGTERM and SIGKILL."""


_ALL = (
    Stage(
        "serve",
        "serve",
        (),
        "all",
        None,
        "health answers and a one-token request works",
        "run the inference server of the verifier until it is stopped",
        service=True,
        built=True,
        grace_s=90.0,
    ),
    Stage(
        "generate",
        "gen",
        ("serve",),
        "server",
        "prompt",
        "every prompt answered, or listed as failed with its reason; token ids as the server gave them",
        "let the verifier answer the prompts, and keep its token ids",
        options=("limit", "verify", "greedy-holdout"),
        built=True,
        grace_s=60.0,
    ),
    Stage(
        "prepare",
        "prep",
        ("generate",),
        "none",
        "sample",
        "dataset written and spot-checked against the tokenizer",
        "make the training set of the answers",
        options=("verify",),
        built=True,
    ),
    Stage(
        "vocab",
        "vocab",
        ("prepare",),
        "none",
        "sample",
        "d2t and t2d written, coverage known",
        "choose the drafter's vocabulary by token frequency",
        options=("verify",),
        built=True,
    ),
    Stage(
        "extract",
        "EXTRACT",
        ("prepare",),
        "all",
        "sample",
        "ledger complete; headers and sizes right; count, tokens and bytes equal the plan; files re-read",
        "write the verifier's hidden states of every prepared sample",
        options=("limit", "verify"),
        built=True,
    ),
    Stage("train", "train", ("vocab", "extract"), "some", "step", "checkpoint loads", "train the drafter"),
    Stage("evaluate", "eval", ("train",), "all", "prompt", "acceptance by position, speed-up and a verdict", "measure the drafter"),
)

STAGES: Dict[str, Stage] = {stage.name: stage for stage in _ALL}
"""In the order of the pipeline."""


class Action(NamedTuple):
    """Something done on the host as an attempt, by the host program itself: no stage, and no step of the pipeline."""

    name: str
    label: str
    does: str
    grace_s: float = 30.0
    """As a stage's."""
    service: bool = False


ACTIONS: Dict[str, Action] = {
    "free-gpus": Action("free-gpus", "free GPUs", "end the confirmed processes that hold GPUs, and prove what the GPUs hold then"),
    "transition": Action("transition", "next", "go from one stage to the next, each step proven before the one after it", grace_s=60.0),
}
JOBS: Dict[str, Union[Stage, Action]] = {**STAGES, **ACTIONS}
"""Everything that attempts are made of."""

WATCH = "watch"
"""No stage: what op ``observe`` looks at, which nobody launched from here, goes by this name."""
