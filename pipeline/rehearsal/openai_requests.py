"""What a request to the rehearsal's server may say, and OpenAI's error objects for what it may not."""

import json
from typing import Annotated, Any, Literal, TypeVar

import msgspec


class ApiError(Exception):
    """An answer that is an error object."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


class Part(msgspec.Struct):
    type: Literal["text"]
    text: str


class Message(msgspec.Struct):
    role: Literal["system", "user", "assistant"]
    content: str | list[Part] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None

    def for_template(self) -> dict[str, Any]:
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content or ())
        reasoning = self.reasoning if self.reasoning is not None else self.reasoning_content
        return {"role": self.role, "content": content, **({} if reasoning is None else {"reasoning_content": reasoning})}


class Sampling(msgspec.Struct, kw_only=True):
    """What both endpoints take. Fields that are not named here are ignored, as vLLM does; those below the line are refused when they ask
    for what this server cannot do, because an answer that silently is another one would be worse than none."""

    model: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    return_token_ids: bool | None = False
    ignore_eos: bool = False
    # ----
    n: int | None = 1
    stop: str | list[str] | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | int | None = None
    response_format: dict[str, Any] | None = None

    def refuse_unsupported(self) -> None:
        neutral = {"n": 1, "top_k": (0, -1), "min_p": 0, "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0}
        for name in (*neutral, "stop", "logit_bias", "logprobs", "response_format"):
            value = getattr(self, name)
            allowed = neutral.get(name, ())
            if value and value not in (allowed if isinstance(allowed, tuple) else (allowed,)) and value != {"type": "text"}:
                raise ApiError(400, f"{name} = {value!r} is not supported by the rehearsal's server", param=name)


class ChatRequest(Sampling, kw_only=True):
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_completion_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[Any] | None = None

    def refuse_unsupported(self) -> None:
        super().refuse_unsupported()
        if self.tools:
            raise ApiError(400, "tools are not supported by the rehearsal's server", param="tools")


class CompletionRequest(Sampling, kw_only=True):
    prompt: str | list[int]


_Request = TypeVar("_Request", bound=Sampling)


def parse(body: bytes, kind: type[_Request]) -> _Request:
    """Raises ApiError (400)."""
    try:
        # json, because msgspec's own decoder takes a lone surrogate for the end of the text; whoever encodes the text finds it.
        parsed = msgspec.convert(json.loads(body, parse_constant=_no_number), kind)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or not such a request
        raise ApiError(400, f"the request's body is no such request: {error}") from None
    parsed.refuse_unsupported()
    return parsed


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
