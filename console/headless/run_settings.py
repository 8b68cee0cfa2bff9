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
    """Keys whose values differ between the host's copy and ``here``, as ``key: there -> here``, safe to print."""
    theirs = _flat(settings.to_json(settings.parse(there, "the host's copy")))
    ours = _flat(here)
    rows = []
    for key in sorted(theirs.keys() | ours.keys()):
        if theirs.get(key) != ours.get(key):
            rows.append(sanitize.line(f"{key}: {theirs.get(key)!r} there, {ours.get(key)!r} here", 200))
    return rows


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
