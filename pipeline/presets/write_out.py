"""A run's settings written out whole: every key with its explanation; what is not set stands as a comment, with its default."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import msgspec
import tomlkit
import tomlkit.items

from pipeline import schema, settings

_Key = tuple[str, str]


def write_out(toml: str, origin: str, overrides: list[str]) -> str:
    """Settings as commented TOML that means the same as ``toml`` with ``overrides`` (``a.b=value``) applied.

    A comment in ``toml`` behind a value goes along as its source; the lines above its first section stay on top. Raises UserError.
    """
    tree = settings.parse_tree(toml, origin)
    sources = _comments(tomlkit.parse(toml))
    for override in overrides:
        settings.apply_override(tree, override)
        section, _, rest = override.partition("=")[0].strip().partition(".")
        sources[section, rest.partition(".")[0]] = "--set"
    settings.convert(tree, schema.Settings, origin)  # a wrong key is told with the nearest right one, before it is lost here
    lines = [line for line in toml.partition("\n[")[0].splitlines() if line.startswith("#")]
    fields = msgspec.structs.fields(schema.Settings)
    told = explanations(schema.Settings)
    for field in fields:
        if field.name in told:  # of the run as a whole: TOML has them before any section
            lines += ["", *_key(field, told[field.name], tree, sources.get((field.name, "")))]
    for section in fields:
        if section.name not in told:
            lines += _section(section.name, section.type, tree.get(section.name, {}), sources)
    return "\n".join(lines) + "\n"


def explanations(kind: type) -> dict[str, str]:
    """Field to the docstring that stands below it in ``pipeline.schema``; fields without one are left out."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        told = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(told, str):
            found[field.target.id] = inspect.cleandoc(told)
    return found


def _section(name: str, kind: type, values: dict[str, Any], sources: dict[_Key, str]) -> Iterator[str]:
    yield ""
    yield f"# {inspect.getdoc(kind) or ''}"
    yield f"[{name}]"
    explained = explanations(kind)
    for field in msgspec.structs.fields(kind):
        yield from _key(field, explained.get(field.name, ""), values, sources.get((name, field.encode_name)))


def _key(field: msgspec.structs.FieldInfo, explained: str, values: dict[str, Any], source: str | None) -> Iterator[str]:
    yield from _commented(explained)
    if field.encode_name in values:
        yield f"{field.encode_name} = {_toml(values[field.encode_name])}" + (f" # {source}" if source else "")
    else:
        yield f"#{field.encode_name} = {_toml(_default(field))}".rstrip()


def _commented(text: str) -> Iterator[str]:
    """Lines of a docstring for people who read TOML, where None is a key that is left out."""
    for line in text.replace("``", "").replace("None: ", "Left out: ").replace("; Left", "; left").splitlines():
        yield f"# {line}"


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else None


def _toml(value: Any) -> str:
    """A value as it stands in a TOML file; nothing for None, which TOML cannot say."""
    if value is None:
        return ""
    if isinstance(value, dict):
        table = tomlkit.inline_table()
        table.update(value)
        return table.as_string()
    return tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string()


def _comments(document: tomlkit.TOMLDocument) -> dict[_Key, str]:
    """(section, key) to the comment behind the value."""
    found = {}
    for section, table in document.items():
        if isinstance(table, tomlkit.items.Table):
            for key, item in table.value.body:
                if key is not None and item.trivia.comment:
                    found[section, key.key] = item.trivia.comment.lstrip("# ").strip()
    return found
