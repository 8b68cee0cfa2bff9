"""A row of a prompt source made a prompt: the turns to ask, and an id that is the same whenever the row is read.

The prompt is everything up to the last user turn before the first assistant turn; what follows is left out, because the verifier answers
itself. A row is one of::

    {"messages": [{"role": "user", "content": "..."}, ...]}
    {"prompt": "..."}
    {"conversations": [{"from": "human", "value": "..."}, ...]}      OpenPerfectBlend's shape

each with an optional ``id``.
"""

import hashlib
import json
import re
from typing import Any

UNREADABLE = "unreadable row"
NO_PROMPT = "no prompt in the row"
NO_USER_TURN = "no user turn"
EMPTY = "empty prompt"
SURROGATE = "lone surrogate"
NOT_TEXT = "content is no text"
ROLE = "unknown role"

_ROLES = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
}
_LONGEST_ID = 200
_BAD_ID = re.compile(r"row:\d|.*[\x00-\x1f\x7f]", re.DOTALL)
"""What rows without a prompt are called; and control characters, which end an id where it is hashed (docs/files.md)."""
_SHOWN = 80
SHOWN_CHARACTERS = 8192
"""Of a prompt that failed, kept beside its failure."""

Message = dict[str, str]


class BadRowError(Exception):
    """No prompt can be made of a row."""

    def __init__(self, reason: str, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        """One of the names above."""
        self.detail = detail


def canonical(messages: list[Message]) -> bytes:
    """The one text of a prompt: JSON with keys in order and no blanks, UTF-8. Raises UnicodeEncodeError for a lone surrogate."""
    return json.dumps(messages, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def digest(messages: list[Message]) -> str:
    """sha256 of the messages, 64 hex digits."""
    return hashlib.sha256(canonical(messages)).hexdigest()


def beginning(messages: list[Message], most: int = SHOWN_CHARACTERS) -> list[Message]:
    """The first turns, cut after so many characters."""
    kept: list[Message] = []
    for turn in messages:
        if most <= 0:
            break
        kept.append({"role": turn["role"], "content": turn["content"][:most]})
        most -= len(turn["content"]) + len(turn["role"])
    return kept


def own_id(row: Any) -> str | None:
    """The id that a row brings, as a string; None without one that can be used."""
    value = row.get("id") if isinstance(row, dict) else None
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID or _BAD_ID.match(value):
        return None
    return value if _encodable(value) else None


def bad_id(number: int, row: Any) -> str:
    """What a row is called that no prompt can be made of: its number, and its own id where it has one. No prompt has such an id."""
    own = own_id(row)
    return f"row:{number}" if own is None else f"row:{number}:{own}"


def messages_of(row: Any) -> list[Message]:
    """The turns to ask. Raises BadRowError."""
    turns = _until_answered(_turns(row))
    if not any(turn["content"].strip() for turn in turns if turn["role"] == "user"):
        raise BadRowError(EMPTY, "the user says nothing")
    for turn in turns:
        if not _encodable(turn["content"]):
            raise BadRowError(SURROGATE, f"in the {turn['role']} turn: half of a surrogate pair, which UTF-8 cannot encode")
    return turns


def _turns(row: Any) -> list[tuple[Any, Any]]:
    """(role, content) of every turn, as they stand."""
    if not isinstance(row, dict):
        raise BadRowError(UNREADABLE, f"an object is expected, it is {_shown(row)}")
    if row.get("messages") is not None:
        return _pairs(row["messages"], "messages", "role", "content")
    if row.get("conversations") is not None:
        return _pairs(row["conversations"], "conversations", "from", "value")
    if row.get("prompt") is not None:
        return [("user", row["prompt"])]
    raise BadRowError(NO_PROMPT, f"messages, prompt or conversations is expected; it has {_shown(', '.join(map(str, row)) or 'nothing')}")


def _pairs(value: Any, name: str, role: str, content: str) -> list[tuple[Any, Any]]:
    if isinstance(value, dict) and isinstance(value.get(role), list) and isinstance(value.get(content), list):
        return list(zip(value[role], value[content], strict=False))  # how some Arrow files hold a list of structs
    if not isinstance(value, list) or not all(isinstance(turn, dict) for turn in value):
        raise BadRowError(NO_PROMPT, f"{name} must be a list of turns, it is {_shown(value)}")
    return [(turn.get(role), turn.get(content)) for turn in value]


def _until_answered(turns: list[tuple[Any, Any]]) -> list[Message]:
    """Up to the last user turn before the first assistant turn."""
    kept: list[Message] = []
    last_user = 0
    for role, content in turns:
        known = _ROLES.get(role) if isinstance(role, str) else None
        if known is None:
            raise BadRowError(ROLE, f"{_shown(role)}; known are {', '.join(_ROLES)}")
        if known == "assistant":
            break
        if not isinstance(content, str):
            raise BadRowError(NOT_TEXT, f"the {known} turn holds {_shown(content)}")
        kept.append({"role": known, "content": content})
        if known == "user":
            last_user = len(kept)
    if not last_user:
        raise BadRowError(NO_USER_TURN, "none before the first answer")
    return kept[:last_user]


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    return repr(value)[:_SHOWN]
