"""The server's token ids against the chat template, and a sample as the model saw it."""

import re
from typing import Any, NamedTuple

from pipeline.errors import UserError
from pipeline.generation.prompts import Message
from pipeline.generation.records import Answer, Mismatch
from pipeline.verifier_tokenizer import load_tokenizer

PROMPT, RESPONSE = "prompt", "response"
BY_TEMPLATE, BY_TEXT = "template", "text"
"""How a response was compared: as a turn that the chat template renders; or, where the template gives finished turns another shape than
the model writes them in (Kimi-K2's and DeepSeek-R1's drop the reasoning), as the tokens of its own text after the template's prompt."""
SPECIAL_IN_PROMPT = "special tokens in the prompt's text"
OTHER_TEXT = "text is not what the ids decode to"
TOO_MUCH_TEXT = "text is longer than its ids can be, and cut"
_MOST_HALF_CHARACTER = 4
"""Tokens that a cut may leave of one character: UTF-8 has at most four bytes."""


class Verdict(NamedTuple):
    """What the tokenizer says of an answer."""

    ids_match: bool | None
    mismatch: Mismatch | None
    compared_by: str | None
    marks: list[str]
    view: list[tuple[str, str]]


class Tokens:
    """The verifier's tokenizer and chat template. Not for two threads at once."""

    def __init__(self, tokenizer: Any, template_args: dict[str, Any]):
        self._tokenizer = tokenizer
        self._template_args = template_args
        added = getattr(tokenizer, "added_tokens_decoder", {})
        self._special = {int(number) for number, token in added.items() if str(token).strip()} | set(tokenizer.all_special_ids)
        texts = sorted({text for text in map(self._decode_one, sorted(self._special)) if text.strip()}, key=len, reverse=True)
        self._special_text = re.compile("|".join(map(re.escape, texts))) if texts else None

    @classmethod
    def load(cls, directory: str, trust_remote_code: bool, template_args: dict[str, Any]) -> "Tokens":
        """Raises UserError."""
        tokenizer = load_tokenizer(directory, trust_remote_code)
        if not getattr(tokenizer, "chat_template", None):
            raise UserError(f"model.path: the tokenizer in {directory} has no chat template; generate asks by chat turns")
        return cls(tokenizer, template_args)

    def __len__(self) -> int:
        return len(self._tokenizer)

    def prompt_ids(self, messages: list[Message]) -> list[int]:
        """What the template makes of a prompt. Raises whatever the template raises."""
        return self._encode(self._render(messages, add_generation_prompt=True))

    def judge(self, messages: list[Message], answer: Answer) -> Verdict:
        """Compare an answer with what the chat template gives, and look at its texts.

        Texts that are too long for the ids are not looked at: tokenizing a server's megabytes would hold up everything else.
        """
        view, ids = self.view(answer.prompt_token_ids, answer.response_token_ids), answer.response_token_ids
        if len(answer.reasoning or "") + len(answer.content or "") > self.most_characters(ids):
            mismatch = Mismatch(part=RESPONSE, position=len(ids), server_id=None, template_id=None)
            return Verdict(False, mismatch, BY_TEXT, [*self._prompt_marks(messages), TOO_MUCH_TEXT], view)
        try:
            mismatch, by = self._compare(messages, answer)
            match = mismatch is None
        except Exception:  # a template may refuse a conversation with an error of its own making
            mismatch, by, match = None, None, None
        return Verdict(match, mismatch, by, self._marks(messages, answer), view)

    def most_characters(self, ids: list[int]) -> int:
        """Of any text that these ids stand for.

        A token's own string has a character for each byte (byte-level BPE, ``<0x0A>``) or for each character of its text, and a decoder
        puts one blank between two tokens at most; a byte that is no UTF-8 becomes one character.
        """
        strings = self._tokenizer.convert_ids_to_tokens(ids)
        return sum(len(one or "") + 1 for one in strings)

    def within(self, ids: list[int], text: str | None) -> str | None:
        """A text, cut where it is longer than these ids can be: to one character more, so that it still is."""
        return None if text is None else text[: self.most_characters(ids) + 1]

    def view(self, prompt_ids: list[int], response_ids: list[int]) -> list[tuple[str, str]]:
        """[(kind, text)]: prompt, prompt_special, response, response_special; a special token is a piece of its own."""
        return [*self._pieces(prompt_ids, PROMPT), *self._pieces(response_ids, RESPONSE)]

    def compare_prompt(self, messages: list[Message], prompt_ids: list[int]) -> Mismatch | None:
        """Raises whatever the template raises."""
        return _first_difference(prompt_ids, self.prompt_ids(messages))

    def _compare(self, messages: list[Message], answer: Answer) -> tuple[Mismatch | None, str]:
        prompt_ids, response_ids, reasoning, content, finish_reason = answer
        cut = finish_reason == "length"
        prompt = self._render(messages, add_generation_prompt=True)
        mismatch = _first_difference(prompt_ids, self._encode(prompt))
        if mismatch is not None:
            return mismatch, BY_TEMPLATE
        turn: dict[str, Any] = {"role": "assistant", "content": content or ""}
        if reasoning is not None:
            turn |= {"reasoning_content": reasoning, "reasoning": reasoning}
        ids = self._without_half_character(response_ids) if cut else response_ids
        text = self._render([*messages, turn], add_generation_prompt=False)
        by = BY_TEMPLATE
        if not text.startswith(prompt) or not all((part or "").strip() in text[len(prompt) :] for part in (reasoning, content)):
            text, by = prompt + self._decode(ids), BY_TEXT
        expected = self._encode(text)
        there = [*prompt_ids, *ids]
        if expected[: len(there)] == there and (cut or not self._decode(expected[len(there) :]).strip()):
            return None, by
        return _first_difference(there, expected, len(prompt_ids)), by  # in the prompt: it is rendered otherwise once an answer follows

    def _marks(self, messages: list[Message], answer: Answer) -> list[str]:
        marks = self._prompt_marks(messages)
        text = _plain(self._tokenizer.decode(answer.response_token_ids, skip_special_tokens=True))
        at = 0
        for part in (answer.reasoning, answer.content):
            wanted = _plain(part or "")
            at = text.find(wanted, at)
            if at < 0:
                marks.append(OTHER_TEXT)
                break
            at += len(wanted)
        return marks

    def _prompt_marks(self, messages: list[Message]) -> list[str]:
        special = self._special_text is not None and any(self._special_text.search(turn["content"]) for turn in messages)
        return [SPECIAL_IN_PROMPT] if special else []

    def _pieces(self, ids: list[int], kind: str) -> list[tuple[str, str]]:
        pieces = []
        start = 0
        for at, token in enumerate(ids):
            if token in self._special:
                if at > start:
                    pieces.append((kind, self._decode(ids[start:at])))
                pieces.append((f"{kind}_special", self._decode_one(token)))
                start = at + 1
        if start < len(ids):
            pieces.append((kind, self._decode(ids[start:])))
        return pieces

    def _without_half_character(self, ids: list[int]) -> list[int]:
        for dropped in range(min(_MOST_HALF_CHARACTER, len(ids))):
            if not self._decode(ids[-8 - dropped : len(ids) - dropped]).endswith("\ufffd"):
                return ids[: len(ids) - dropped]
        return ids

    def _render(self, messages: list[Any], add_generation_prompt: bool) -> str:
        return self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=add_generation_prompt, **self._template_args
        )

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]  # its length is not the tokenizer's to judge

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _decode_one(self, token: int) -> str:
        return self._decode([token])


def _first_difference(there: list[int], expected: list[int], response_from: int | None = None) -> Mismatch | None:
    """``response_from``: where the response begins; None: all of it is prompt."""
    if there == expected:
        return None
    at = next((at for at, (one, other) in enumerate(zip(there, expected, strict=False)) if one != other), min(len(there), len(expected)))
    part, start = (PROMPT, 0) if response_from is None or at < response_from else (RESPONSE, response_from)
    return Mismatch(part=part, position=at - start, server_id=_at(there, at), template_id=_at(expected, at))


def _at(ids: list[int], position: int) -> int | None:
    return ids[position] if position < len(ids) else None


def _plain(text: str) -> str:
    """Text as far as servers agree on it: without what stands for half a character, and without blanks around."""
    return text.replace("\ufffd", "").strip()
