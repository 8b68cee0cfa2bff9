"""One archive with all that tells of a moment: it says what is in it and what is missing, and holds no key or password."""

import html
import io
import json
import re
import tarfile
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from pipeline import redaction

README = "README.txt"
_SHORTEST_SECRET = 4
"""A shorter word is in every text."""
_MOST_MEMBER_BYTES = 16 << 20
_GIVEN = re.compile(rf"(--api-key[\"']?(?:=|,?\s+|&#160;)[\"']?|\bBearer(?:\s+|&#160;))(?!{re.escape(redaction.HIDDEN)})[^\s\"'&<>,]+")
"""A key on a command line, or in a request, as others' logs have it."""


class Part(NamedTuple):
    """A file of the archive."""

    name: str
    data: bytes
    about: str


class Incident:
    """Fill it with ``text``, ``json`` and ``lines``; name what cannot be had with ``miss``; ``archive`` it."""

    def __init__(self, title: Sequence[tuple[str, str]], name: str, wall_s: float):
        """``title``: the first rows of the README, such as host, run and when. ``name``: of the folder inside."""
        self._title, self.name, self._wall_s = title, name, wall_s
        self.parts: list[Part] = []
        self.missing: list[tuple[str, str]] = []
        self._secrets: list[str] = []

    def hide(self, secrets: Iterable[str]) -> None:
        """Words that must be nowhere in it; to be told before anything is added."""
        found = {one for one in secrets if len(one) >= _SHORTEST_SECRET}
        written = {form for one in found for form in _forms(one)}
        self._secrets = sorted(written, key=len, reverse=True)  # one that holds another goes first

    def text(self, name: str, text: str, about: str) -> None:
        self._add(name, self._clean(text).encode("utf-8", "replace"), about)

    def json(self, name: str, value: Any, about: str) -> None:
        """``value``: what msgspec can write."""
        try:
            data = json.dumps(self._walked(msgspec.to_builtins(value)), indent=1, sort_keys=True).encode()
        except RecursionError:
            self.miss(name, "it is nested too deeply to be written down")
        else:
            self._add(name, data + b"\n", about)

    def lines(self, name: str, values: Iterable[Any], about: str) -> None:
        """An object a line; ``bytes`` are JSON already."""
        objects = (_decoded(one) if isinstance(one, bytes) else one for one in values)
        self._add(name, b"".join(self._line(one) + b"\n" for one in objects), about)

    def miss(self, what: str, why: str) -> None:
        """What cannot be had, and why."""
        self.missing.append((what, self._clean(why)))

    def archive(self) -> bytes:
        """The archive: tar, gzip; the README first."""
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w:gz", compresslevel=6) as tar:
            for part in (Part(README, self.readme().encode("utf-8", "replace"), ""), *self.parts):
                member = tarfile.TarInfo(f"{self.name}/{part.name}")
                member.size, member.mtime, member.mode = len(part.data), int(self._wall_s), 0o600
                tar.addfile(member, io.BytesIO(part.data))
        return target.getvalue()

    def readme(self) -> str:
        """What is what, what is missing and why."""
        told = [(part.name, f"{part.about} ({len(part.data):,} bytes)") for part in self.parts]
        lines = ["eaglewatch incident bundle", "", *_rows(self._title), "", "What is in it", *_rows(told)]
        lines += ["", "What is missing, and why", *(_rows(self.missing) if self.missing else ["  nothing that was looked for"])]
        lines += [
            "",
            "Keys and passwords that the run's settings, addresses and command lines hold are replaced by",
            f"{redaction.HIDDEN}.",
        ]
        lines += ["Everything else is as it was: file names, prompts in the log, host and user names. Read it before you pass it on."]
        return "\n".join(lines) + "\n"

    def _add(self, name: str, data: bytes, about: str) -> None:
        if len(data) > _MOST_MEMBER_BYTES:
            self.miss(name, f"it has {len(data):,} bytes, too many for a bundle")
        else:
            self.parts.append(Part(name, data, about))

    def _line(self, value: Any) -> bytes:
        try:
            return json.dumps(self._walked(value)).encode()
        except RecursionError:
            return b'{"unreadable": "nested too deeply"}'

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, redaction.HIDDEN)
        return _GIVEN.sub(rf"\1{redaction.HIDDEN}", redaction.without_secrets(text))

    def _walked(self, value: Any, key: str = "") -> Any:
        """The same without secrets; inside of JSON, where a pattern over its text could tear it."""
        if isinstance(value, str):
            return redaction.HIDDEN if key and redaction.secret_of(key, value) else self._clean(value)
        if isinstance(value, dict):
            return {self._clean(str(name)): self._walked(one, str(name)) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            texts = [one for one in value if isinstance(one, str)]
            return [self._walked(one) for one in (redaction.words(texts) if len(texts) == len(value) else value)]
        return value


def secrets_of(value: Any, key: str = "") -> set[str]:
    """The keys and passwords that resolved settings hold, as they stand there."""
    if isinstance(value, dict):
        return {found for name, one in value.items() for found in secrets_of(one, f"{key}.{name}")}
    if isinstance(value, (list, tuple)):
        words = [one for one in value if isinstance(one, str)]
        if key.endswith("alerts.command"):
            return {one for one in words[1:] if len(one) >= 2 * _SHORTEST_SECRET}  # a header with a token, as like as not
        kept = redaction.words(words)
        return {_secret_part(word, shown) for word, shown in zip(words, kept, strict=True) if word != shown}
    if isinstance(value, str) and redaction.secret_of(key, value):
        return {value, *_paths(value)}
    return set()


def file_name(host: str, run: str, stamp: str) -> str:
    """``HOST-RUN-20260101-030700Z``, in letters that every file system takes."""
    return "-".join(re.sub(r"[^A-Za-z0-9._-]+", "_", one).strip("_.-")[:80] or "none" for one in (host, run)) + f"-{stamp}"


def _forms(secret: str) -> tuple[str, ...]:
    """As it stands in a text, in JSON, in HTML, and in a picture of the screen."""
    escaped = html.escape(secret)
    return secret, json.dumps(secret)[1:-1], escaped, escaped.replace(" ", "&#160;")


def _secret_part(word: str, shown: str) -> str:
    """What was hidden of a word."""
    start = shown.partition(redaction.HIDDEN)[0]
    return word[len(start) :] if word.startswith(start) else word


def _paths(address: str) -> set[str]:
    """Of an address the part after its host: other records leave the host alone."""
    rest = address.partition("://")[2].partition("/")[2]
    return {rest} if len(rest) >= 2 * _SHORTEST_SECRET else set()


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return {"unreadable": line.decode("utf-8", "replace")}


def _rows(pairs: Sequence[tuple[str, str]]) -> list[str]:
    wide = max((len(name) for name, _ in pairs), default=0)
    return [f"  {name:<{wide}}  {text}" for name, text in pairs]
