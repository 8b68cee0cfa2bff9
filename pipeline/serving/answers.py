"""What a server answers, made typed values in one place. Whatever it sends, nothing but AnswerError comes of it."""

from typing import Annotated, Any, TypeVar

import msgspec

from pipeline.visible import visible

_SHOWN = 300
FinishReason = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_ -]{1,32}$")]
T = TypeVar("T")


class AnswerError(Exception):
    """It is not what was asked for. The message says where, on one short line."""


class NotJsonError(AnswerError):
    """It cannot even be read as JSON."""


class Model(msgspec.Struct, frozen=True):
    """Of a list of models."""

    id: str
    max_model_len: int | None = None
    """vLLM's: tokens of prompt and answer together, at most."""


class Models(msgspec.Struct, frozen=True):
    data: list[Model]


class Message(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class Choice(msgspec.Struct, frozen=True):
    message: Message | None = None
    finish_reason: FinishReason | None = None
    token_ids: list[int] | None = None


class Usage(msgspec.Struct, frozen=True):
    completion_tokens: int | None = None


class Completion(msgspec.Struct, frozen=True):
    """Of vLLM's: ``prompt_token_ids`` and each choice's ``token_ids`` are there because of ``return_token_ids``."""

    choices: list[Choice] = []
    prompt_token_ids: list[int] | None = None
    model: str | None = None
    usage: Usage | None = None


def read(data: bytes, kind: type[T]) -> T:
    """An answer as ``kind``; what else is in it is passed over. Raises AnswerError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise AnswerError(shown(f"{error}: {_start(data)}")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJsonError(shown(f"{error}: {_start(data)}")) from None


def error_text(data: bytes) -> str:
    """The text of OpenAI's error object, or whatever came, on one short line."""
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return shown(_start(data))
    inner = value.get("error", value) if isinstance(value, dict) else value
    texts = [inner.get("message"), inner.get("detail")] if isinstance(inner, dict) else [inner]
    return shown(next((text for text in texts if isinstance(text, str)), _start(data)))


def shown(text: str) -> str:
    """Foreign text on one short line."""
    return visible(" ".join(text[: 4 * _SHOWN].split()))[:_SHOWN]


def _start(data: bytes) -> str:
    return data[: 2 * _SHOWN].decode(errors="replace")
