"""What an output directory is the answers of: two attempts may fill it together only when that is the same."""

import os
from typing import Any

import msgspec

from pipeline import output_manifest
from pipeline.errors import UserError
from pipeline.generation.records import FAILED, HOLDOUTS, RESPONSES
from pipeline.schema import Generate, Settings

SETTING = "generate.output"
_SHAPING = (
    "prompts",
    "max_prompts",
    "greedy_holdout",
    "seed",
    "max_response_tokens",
    "temperature",
    "top_p",
    "chat_template_args",
    "require_reasoning",
)
"""Settings that shape the content; an output is outdated when the run's are others."""
_GROWING = ("prompts", "max_prompts", "greedy_holdout")
"""Of those: the ones by which a directory may grow. The prompts themselves are compared, one by one."""


def shaping(settings: Generate) -> dict[str, Any]:
    """As the manifest has them."""
    values = msgspec.to_builtins(settings)
    return {f"generate.{name}": values[name] for name in _SHAPING}


def hold_out(settings: Settings, count: int | None) -> Settings:
    """The settings, with another number of held-out prompts where one is given: it decides the split, and the manifest must say it."""
    if count is None:
        return settings
    return msgspec.structs.replace(settings, generate=msgspec.structs.replace(settings.generate, greedy_holdout=count))


def load(directory: str) -> dict[str, Any] | None:
    """The directory's manifest. Raises UserError for one that is damaged, and for answers without one."""
    found = output_manifest.load(directory, SETTING)
    if found is not None and found.get("stage") != "generate":
        raise UserError(f"{SETTING}: {directory} is the output of {found.get('stage')!r}; choose another {SETTING}")
    if found is None:
        there = [name for name in (RESPONSES, HOLDOUTS, FAILED) if _holds_something(os.path.join(directory, name))]
        if there:
            raise UserError(
                f"{SETTING}: {directory} holds {', '.join(there)} but no {output_manifest.NAME}, so that nothing tells how they were made; "
                f"choose another {SETTING}, or move them away"
            )
    return found


def check_settings(directory: str, found: dict[str, Any] | None, settings: Generate) -> None:
    """Raise UserError when the directory's answers were sampled by other settings."""
    then = (found or {}).get("settings")
    if not isinstance(then, dict):
        return
    differences = [
        f"{name} was {_shown(then[name])} there, it is {_shown(now)} now"
        for name, now in shaping(settings).items()
        if name.removeprefix("generate.") not in _GROWING and name in then and then[name] != now
    ]
    _refuse(directory, differences)


def check_model(directory: str, found: dict[str, Any] | None, fingerprint: str | None, served: str | None) -> None:
    """Raise UserError when another model gave the directory's answers: by its fingerprint; where there is none, by its name."""
    then = made_by(found)
    if then is not None and fingerprint is not None:
        if then != fingerprint:
            _refuse(directory, [f"the verifier had the fingerprint {then[:16]} there, it has {fingerprint[:16]} now"])
        return
    named = served_model(found)
    if named is not None and served is not None and named != served:
        _refuse(directory, [f"the model was {named!r} there, it is {served!r} now"])


def made_by(found: dict[str, Any] | None) -> str | None:
    """Fingerprint of the verifier that answered; None where the manifest does not tell."""
    inputs = (found or {}).get("inputs")
    then = inputs.get("model") if isinstance(inputs, dict) else None
    return then if isinstance(then, str) else None


def other_answers(directory: str, found: dict[str, Any] | None, fingerprint: str, count: int) -> str | None:
    """What of the answers that are there is not as their manifest says.

    None, too, for a manifest that has no fingerprint and is not complete: an attempt was appending, and nothing tells of the lines.
    """
    if found is None or (found.get("fingerprint") is None and found.get("complete") is not True):
        return None
    totals = found.get("totals")
    told, answered = found.get("fingerprint"), totals.get("answered") if isinstance(totals, dict) else None
    if told == fingerprint and answered == count:
        return None
    counted = f"{answered:,} answers" if type(answered) is int else "answers, it does not say how many,"
    return (
        f"the answers in {directory} are not those that generate checked: {count:,} answers with the fingerprint {fingerprint[:12]} "
        f"are there, {counted} with {str(told)[:12]} in {os.path.join(directory, output_manifest.NAME)}"
    )


def served_model(found: dict[str, Any] | None) -> str | None:
    """The name under which the model was asked."""
    totals = (found or {}).get("totals")
    name = totals.get("served_model") if isinstance(totals, dict) else None
    return name if isinstance(name, str) else None


def _refuse(directory: str, differences: list[str]) -> None:
    if differences:
        raise UserError(
            f"{SETTING}: {directory} holds answers made otherwise: {'; '.join(differences)}. "
            f"Choose another {SETTING}, restore the settings, or move that directory away"
        )


def _holds_something(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except OSError:
        return False


def _shown(value: Any) -> str:
    return repr(value)[:80]
