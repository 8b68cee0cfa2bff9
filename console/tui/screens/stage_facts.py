"""What a stage's sheet tells besides its attempt: the settings that matter, what it counted, what it ran with."""

from typing import Any

from rich.cells import cell_len

from console.core import fmt, reading, sanitize
from console.core import receipt as receipts
from console.core.attempt import Attempt
from console.tui import serving
from console.tui.state import ConsoleState
from console.tui.widgets import facts

_SETTINGS = {
    "serve": ("program", "host", "port", "tensor_parallel", "gpu_memory_utilization", "max_model_len_tokens", "reasoning_parser"),
    "generate": (
        "prompts", "max_prompts", "greedy_holdout", "endpoint", "max_response_tokens", "temperature", "concurrency", "require_reasoning",
    ),
    "prepare": ("output", "max_length_tokens", "validation_share", "mismatched"),
    "vocab": ("output", "draft_vocab_size"),
    "extract": ("data", "output", "engine", "layer_ids", "max_length_tokens", "batch_samples"),
}  # fmt: skip
_PACKAGES = ("torch", "transformers", "vllm", "speculators", "datasets", "openai")
_MAX_CHARS = 80


def settings(state: ConsoleState, stage: str) -> list[tuple[str, str]]:
    """Those of the stage that a person would ask for, a line each; what is not set is left out."""
    section = reading.mapping(state.resolved, stage) or {}
    known = [key for key in _SETTINGS.get(stage, ()) if section.get(key) not in (None, "", [], ())]
    return _listed("settings", [(key, _value(section[key])) for key in known])


def counted(one: Attempt) -> list[tuple[str, str]]:
    """The facts that it tells while it runs, and the numbers of its receipt, a line each."""
    told = one.progress.facts if one.progress else ()
    pairs = _listed("counted", facts.rows(told))
    return pairs + (receipts.rows(one.receipt) if one.receipt is not None else [])


def servers(state: ConsoleState, stage: str) -> list[list[tuple[str, str]]]:
    """Of the service's sheet: every server on the host that is not this run's, a block each; and whether there may be more."""
    if stage != serving.STAGE or state.view is None:
        return []
    blocks = [serving.rows(one, state.host) for one in serving.others(state)]
    if state.view.servers is None:
        blocks.append([("others", "not looked at yet whether other servers run there")])
    elif state.view.servers_unseen:
        blocks.append([("others", f"there may be more: {state.view.servers_unseen}")])
    return blocks


def provenance(value: dict[str, Any]) -> list[tuple[str, str]]:
    """What the attempt ran with, from its provenance.json."""
    packages = reading.mapping(value, "packages") or {}
    versions = [f"{name} {found}" for name in _PACKAGES if (found := reading.text(packages, name, 40))]
    model = reading.mapping(value, "model")
    inputs = [f"{sanitize.line(name, 20)} {str(found)[:12]}" for name, found in (reading.mapping(value, "inputs") or {}).items() if found]
    override = reading.text(value, "override", 300)
    git = reading.mapping(value, "git")
    commit = reading.text(git, "commit", 12) + (" with changes" if reading.flag(git, "dirty") else "")
    pairs = [
        ("made with", f"Python {reading.text(value, 'python') or '?'}, {', '.join(versions) or 'no known package'}"),
        ("interpreter", reading.text(value, "interpreter", 200)),
        ("git", commit),
        ("verifier", reading.text(model, "fingerprint", 12) or reading.text(model, "why_not", 200)),
        ("made of", sanitize.line(", ".join(inputs), 200)),
        ("OVERRIDE", override),
    ]
    return [(name, text) for name, text in pairs if text]


def _listed(title: str, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Rows of names and values in two columns, under one title."""
    wide = max((cell_len(name) for name, _ in pairs), default=0)
    return [(title if number == 0 else "", f"{name}{' ' * (wide - cell_len(name))}  {text}") for number, (name, text) in enumerate(pairs)]


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return sanitize.line(" ".join(map(str, value)), _MAX_CHARS)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return fmt.count(value) if isinstance(value, int) and value > 99_999 else sanitize.line(value, _MAX_CHARS)
