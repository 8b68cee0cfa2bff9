"""The comparison of the server's ids with the chat template, for templates of several manners."""

from typing import Any

import pytest

from pipeline.generation.records import Answer
from pipeline.generation.tokens import BY_TEMPLATE, BY_TEXT, Tokens
from tests.fakes.chat_verifier import END, TEMPLATE, THINK, THOUGHT, save_verifier

PROMPT: list[Any] = [{"role": "user", "content": "What is light?"}]
REASONING, CONTENT = "I think about green stone, 東京 often", "It is green."
DROPS_REASONING = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['role'] == 'assistant' %}{{ message['content'].split('</think>')[-1] }}"
    "{% else %}{{ message['content'] }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|><think>{% endif %}"
)
"""As Kimi-K2's and DeepSeek-R1's: finished turns are shown without their reasoning."""
ENDS_WITH_NEWLINE = TEMPLATE.replace("{{ eos_token }}", "{{ eos_token }}\n")
"""As ChatML's: the line end after the end token is the template's, the model does not write it."""
REFUSES = "{% if messages|length > 1 %}{{ raise_exception('one turn only') }}{% endif %}" + TEMPLATE


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokens]:
    base = tmp_path_factory.mktemp("templates")
    templates = {"plain": TEMPLATE, "drops": DROPS_REASONING, "newline": ENDS_WITH_NEWLINE, "refuses": REFUSES}
    return {name: Tokens.load(str(save_verifier(base / name, text)), False, {}) for name, text in templates.items()}


def judge(tokens: Tokens, text: str, reasoning: "str | None", content: "str | None", finish: str = "stop", cut: "int | None" = None) -> Any:
    """A response of this text, or its first ``cut`` tokens."""
    prompt = tokens.prompt_ids(PROMPT)
    return tokens.judge(PROMPT, Answer(prompt, tokens._encode(text)[:cut], reasoning, content, finish))


FULL = f"{THINK}{REASONING}{THOUGHT}{CONTENT}{END}"


@pytest.mark.parametrize(
    ("name", "text", "by"), [("plain", FULL, BY_TEMPLATE), ("drops", FULL.removeprefix(THINK), BY_TEXT), ("newline", FULL, BY_TEMPLATE)]
)
def test_whole_cut_and_wrong_responses(name: str, text: str, by: str, made: dict[str, Tokens]) -> None:
    tokens = made[name]
    whole = judge(tokens, text, REASONING, CONTENT)
    assert (whole.ids_match, whole.mismatch, whole.compared_by, whole.marks) == (True, None, by, [])
    count = len(tokens._encode(text))
    for cut in range(4, count):  # in mid-word and in the middle of a character, too
        reasoning, _, content = tokens._decode(tokens._encode(text)[:cut]).removeprefix(THINK).partition(THOUGHT)
        verdict = judge(tokens, text, reasoning, content or None, "length", cut)
        assert verdict.ids_match is True and not verdict.marks, (cut, verdict)
    no_end: Any = judge(tokens, text, REASONING, CONTENT, cut=count - 1)
    if by == BY_TEMPLATE:
        assert no_end.mismatch.part == "response" and no_end.mismatch.position == count - 1 and no_end.mismatch.server_id is None
    prompt, ids = tokens.prompt_ids(PROMPT), tokens._encode(text)
    start = tokens._encode(text.removesuffix(CONTENT + END))
    odd = [*start, *(one for letter in CONTENT for one in tokens._encode(letter)), ids[-1]]
    wrong: Any = tokens.judge(PROMPT, Answer(prompt, odd, REASONING, CONTENT, "stop"))
    assert wrong.mismatch.part == "response" and len(start) < wrong.mismatch.position < len(ids)
    assert (odd[wrong.mismatch.position], ids[wrong.mismatch.position]) == (wrong.mismatch.server_id, wrong.mismatch.template_id)
    other: Any = tokens.judge(PROMPT, Answer([*prompt, 300], ids, REASONING, CONTENT, "stop"))
    assert (other.mismatch.part, other.mismatch.position, other.mismatch.server_id, other.mismatch.template_id) == (
        "prompt",
        len(prompt),
        300,
        None,
    )


def test_without_reasoning_and_without_content(made: dict[str, Tokens]) -> None:
    plain = made["plain"]
    assert judge(plain, CONTENT + END, None, CONTENT).ids_match is True
    assert judge(plain, END, None, None).ids_match is True
    assert judge(plain, f"{THINK}{REASONING}{THOUGHT}{END}", REASONING, None).ids_match is True
    assert judge(plain, CONTENT + END, None, "Something else.").marks == ["text is not what the ids decode to"]


def test_a_template_that_refuses_is_neither_right_nor_wrong(made: dict[str, Tokens]) -> None:
    verdict = judge(made["refuses"], FULL, REASONING, CONTENT)
    assert (verdict.ids_match, verdict.mismatch, verdict.compared_by) == (None, None, None)
    assert verdict.view[-1] == ("response_special", END)


def test_the_view_is_the_whole_sample(made: dict[str, Tokens]) -> None:
    verdict = judge(made["plain"], FULL, REASONING, CONTENT)
    assert "".join(text for kind, text in verdict.view if kind.startswith("response")) == FULL
    assert [text for kind, text in verdict.view if kind == "response_special"] == [THINK, THOUGHT, END]
    assert [text for kind, text in verdict.view if kind == "prompt"] == ["What is light?"]
    assert made["plain"].view([], [0, 0, 300]) == [("response_special", "<|begin|>")] * 2 + [("response", made["plain"]._decode([300]))]
