"""Strict settings of a run: TOML by msgspec. An unknown key or a wrong type is an error that names file, key and nearest valid key."""

import difflib
import re
from typing import Any, TypeVar

import msgspec

from pipeline.errors import UserError
from pipeline.redaction import secret_of
from pipeline.schema import Settings

T = TypeVar("T")

FILL_IN = "FILL IN"
"""A value that begins so stands in a preset for what only the operator knows."""


def load(path: str, overrides: "list[str] | None" = None) -> Settings:
    """Read a run's settings; ``overrides`` are ``a.b=value`` with a TOML value (a bare word counts as a string). Raises UserError."""
    return parse(read_text(path), path, overrides)


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; settings are a TOML file") from None


def parse(text: str, origin: str, overrides: "list[str] | None" = None) -> Settings:
    """The same from text; ``origin`` names it in errors."""
    tree = parse_tree(text, origin)
    for override in overrides or []:
        apply_override(tree, override)
    if missing := unfilled(tree):
        raise UserError(f"{origin}: still to be filled in: {', '.join(missing)}; e.g. --set {missing[0]}=VALUE")
    return convert(tree, Settings, origin)


def unfilled(tree: dict[str, Any]) -> list[str]:
    """Keys whose values are still to be filled in, as ``section.key``."""
    return [
        f"{section}.{key}"
        for section, values in tree.items()
        if isinstance(values, dict)
        for key, value in values.items()
        if isinstance(value, str) and value.startswith(FILL_IN)
    ]


def parse_tree(text: str, origin: str) -> dict[str, Any]:
    try:
        return msgspec.toml.decode(text)
    except Exception as error:  # tomllib's and msgspec's decode errors share no base class worth naming
        raise UserError(f"{origin}: not valid TOML: {error}") from None


def convert(tree: Any, kind: type[T], origin: str) -> T:
    """``tree`` as ``kind``, strictly. Raises UserError."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{origin}: {_explain(str(error), kind)}") from None


def to_json(settings: Settings) -> dict[str, Any]:
    """Resolved settings as plain JSON, for the host program."""
    return msgspec.json.decode(msgspec.json.encode(settings))  # to_builtins would leave tuples, which compare to no list


def apply_override(tree: dict[str, Any], override: str) -> None:
    """Set one ``a.b=value`` in a tree of settings. Raises UserError; also for a key or password, which a command line is no place for."""
    key, equals, value = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(re.fullmatch(r"[A-Za-z0-9_-]+", part) for part in parts):
        raise UserError(f"--set {key}: write it as section.key=value")
    try:
        parsed = msgspec.toml.decode(f"value = {value}")["value"]
    except Exception:
        parsed = value.strip()
    if secret := secret_of(key.strip(), parsed):
        raise UserError(
            f"--set {secret}: a key or password; shells, process lists and logs keep a command line. "
            "Put it in the stage's environment (e.g. VLLM_API_KEY), or in the run's settings file on the host"
        )
    for part in parts[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise UserError(f"--set {key}: {part} is a value, not a section")
    tree[parts[-1]] = parsed


def _explain(message: str, kind: type) -> str:
    """msgspec's message with the key path in front, and the nearest valid key for an unknown one."""
    text, _, where = message.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    unknown = re.search(r"unknown field `(.*)`", text)
    if unknown:
        name = unknown.group(1)
        valid = _fields_at(kind, path)
        near = difflib.get_close_matches(name, valid, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; valid here: {', '.join(valid)}" if valid else ""
        return f"{'.'.join(part for part in (path, name) if part)}: unknown key{hint}"
    info = _type_at(kind, path)
    if text.startswith("Invalid enum value") and isinstance(info, msgspec.inspect.LiteralType):
        text = f"{text.removeprefix('Invalid enum value ')} is none of {', '.join(map(str, info.values))}"
    return f"{path}: {text}" if path else text


def _fields_at(kind: type, path: str) -> list[str]:
    """Names of the fields of the struct at a key path such as ``hosts[...].server``."""
    info = _type_at(kind, path)
    return [field.encode_name for field in info.fields] if isinstance(info, msgspec.inspect.StructType) else []


def _type_at(kind: type, path: str) -> Any:
    """msgspec's description of the type at a key path, or None."""
    info: Any = msgspec.inspect.type_info(kind)
    for part in [piece for piece in re.split(r"\.|(?=\[)", path) if piece]:
        info = _step(info, part)
    return info


def _step(info: Any, part: str) -> Any:
    if isinstance(info, msgspec.inspect.DictType):
        info = info.value_type
    elif isinstance(info, msgspec.inspect.StructType):
        info = next((field.type for field in info.fields if field.encode_name == part), None)
    if isinstance(info, msgspec.inspect.UnionType):
        info = next((one for one in info.types if isinstance(one, msgspec.inspect.StructType)), None)
    return info
