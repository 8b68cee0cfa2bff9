"""Between text and token ids for the rehearsal's server: chat template, and reasoning parted from the answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeline.rehearsal.openai_requests import ApiError

REASONING_PARSERS = ("deepseek_r1", "kimi_k2")
"""vLLM's parsers of the form ``<think>reasoning</think>content``, the opening one optional; without a closing one all is reasoning."""
OPEN, CLOSE = "<think>", "</think>"


class ChatText:
    """One tokenizer, in a thread of its own: a megabyte takes a second, and a fast tokenizer is not for two threads at once."""

    def __init__(self, tokenizer: Any, reasoning: bool, defaults: tuple[float, float]):
        self.defaults = defaults
        """Temperature and top_p of requests that name none."""
        self._tokenizer = tokenizer
        self._reasoning = reasoning
        self._thread = ThreadPoolExecutor(1, "tokenizer")

    async def chat_ids(self, messages: list[dict[str, Any]], template_args: dict[str, Any]) -> list[int]:
        """The rendered chat, ready for the answer. Raises ApiError."""
        return await self._off_loop(self._render, messages, template_args)

    async def prompt_ids(self, prompt: str | list[int]) -> list[int]:
        """Text as token ids; ids are checked. Raises ApiError."""
        if isinstance(prompt, str):
            return await self._off_loop(lambda: self._tokenizer.encode(prompt))
        if any(not 0 <= token < len(self._tokenizer) for token in prompt):
            raise ApiError(400, f"token ids are from 0 to {len(self._tokenizer) - 1}", param="prompt")
        return prompt

    async def _off_loop(self, work: Any, *arguments: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        except (UnicodeEncodeError, TypeError) as error:  # the tokenizer's way to say that a text is no Unicode
            raise ApiError(400, f"the prompt is no valid Unicode text: {error}") from None

    def _render(self, messages: list[dict[str, Any]], template_args: dict[str, Any]) -> list[int]:
        from jinja2 import TemplateError

        arguments = {"add_generation_prompt": True, **template_args, "tokenize": False}
        try:
            rendered = self._tokenizer.apply_chat_template(messages, **arguments)
        except (TemplateError, ValueError) as error:
            raise ApiError(400, f"the chat template refuses these messages: {error}", param="messages") from None
        return self._tokenizer.encode(rendered, add_special_tokens=False)

    async def plain(self, ids: list[int]) -> str:
        """As text, without special tokens."""
        return await self._off_loop(self._plain, ids)

    async def parts(self, ids: list[int]) -> tuple[str | None, str | None]:
        """(reasoning, content) of an answer, each None when it is not there."""
        return await self._off_loop(self._parts, ids)

    def _plain(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def _parts(self, ids: list[int]) -> tuple[str | None, str | None]:
        text = self._plain(ids)
        if not self._reasoning:
            return None, text
        before, close, after = text.partition(CLOSE)
        reasoning = before.partition(OPEN)[2] if OPEN in before else before
        return reasoning, (after or None) if close else None

    async def delta(self, ids: list[int], sent: dict[str, str], chat: bool) -> dict[str, str]:
        """What the last of ``ids`` adds to what was ``sent``; a character whose bytes are not complete waits."""
        reasoning, content = await self.parts(ids) if chat else (None, await self.plain(ids))
        added = {}
        for name, whole in (("reasoning", reasoning), ("content", content)):
            if whole and len(whole) > len(sent[name]) and not whole.endswith("�"):
                added[name] = whole[len(sent[name]) :]
                sent[name] = whole
        return added
