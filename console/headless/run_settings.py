"""The settings of a run before a launch: the operator's file and --set, and the host's copy, which rules once it is written."""

from dataclasses import dataclass
from typing import Any

import tomlkit

from console.core import sanitize
from pipeline import settings
from pipeline.errors import UserError


@dataclass(frozen=True)
class Wanted:
    """Settings to send: the text that the host keeps, and the same resolved."""

    toml: str
    resolved: dict[str, Any]


def from_file(path: str, overrides: list[str]) -> Wanted:
    """The operator's file, with ``--set`` applied. Raises UserError, which names file and key."""
    text = settings.read_text(path)
    return _wanted(text, path, overrides)


def from_text(text: str, origin: str, overrides: list[str]) -> Wanted:
    """The same from text that came from elsewhere; ``origin`` names it in errors. Raises UserError."""
    return _wanted(text, origin, overrides)


def differences(there: str, here: dict[str, Any]) -> list[str]:
    """Keys whose values differ between the host's copy and ``here``, as ``key: X there, Y here``, safe to print. Raises UserError."""
    return [sanitize.line(f"{key}: {_word(theirs)} there, {_word(ours)} here", 200) for key, theirs, ours in _pairs(there, here)]


def changes(there: str, here: dict[str, Any]) -> list[str]:
    """The same of a copy that is replaced, as ``key: old -> new``; of one that cannot be read that alone."""
    try:
        return [sanitize.line(f"{key}: {_word(old)} -> {_word(new)}", 200) for key, old, new in _pairs(there, here)]
    except UserError as error:
        return [sanitize.line(f"all of it, since the copy there cannot be read: {error}", 300)]


def resolved(text: str) -> dict[str, Any]:
    """The host's copy by section. Raises UserError when it cannot be read."""
    return settings.to_json(settings.parse(text, "the host's copy"))


def same(there: str, here: dict[str, Any]) -> bool:
    """Whether the host's copy means the same as ``here``; comments and layout aside."""
    try:
        return not differences(there, here)
    except UserError:
        return False


def conflict(host: str, run: str, there: str, here: dict[str, Any], hint: str = "") -> UserError:
    """The error for a run whose copy on the host is another one; ``hint`` says what to do, if it is not the usual."""
    try:
        rows = differences(there, here)
    except UserError as error:
        rows = [sanitize.line(str(error), 300)]
    what = "; ".join(rows[:4]) + (f"; and {len(rows) - 4} more" if len(rows) > 4 else "")
    usual = "leave out --settings and --set to use it, choose another --run, or add --replace-settings"
    return UserError(f"run {run} on {host} has other settings ({what}). The host's copy rules: {hint or usual}")


def _pairs(there: str, here: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """(key, the value there, the value here) of all that differ."""
    theirs, ours = _flat(resolved(there)), _flat(here)
    return [(key, theirs.get(key), ours.get(key)) for key in sorted(theirs.keys() | ours.keys()) if theirs.get(key) != ours.get(key)]


def _word(value: Any) -> str:
    return "not set" if value is None else repr(value)


def _wanted(text: str, origin: str, overrides: list[str]) -> Wanted:
    parsed = settings.parse(text, origin, overrides)
    if overrides:
        document = tomlkit.parse(text)  # keeps what the operator wrote beside the values
        for override in overrides:
            settings.apply_override(document, override)
        text = f"# {sanitize.line(origin, 300)} with {sanitize.line(' '.join(overrides), 600)}\n{tomlkit.dumps(document)}"
    return Wanted(text, settings.to_json(parsed))


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
