"""The chats that the rehearsal's verifier learns, and the prompts of the rehearsal's run: a small grammar over names of Python.

What the answers say is true: the facts are those of the table, and what can be counted is counted. The sentences are few and short, so that
a minute of training on two cores is enough to speak them.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from pipeline.rehearsal.python_names import FACTS, WHERE

ORDINALS = ("First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth", "Ninth", "Tenth")
RUN_PROMPTS, HELD_OUT_PROMPTS = 160, 16


def _what(name: str) -> tuple[str, list[str], list[str]]:
    kind, does = FACTS[name]
    return (
        f"What does {name} do in Python?",
        [f"They want to know what {name} does.", _is(name), f"It {does}.", "That is the whole answer."],
        [f"The {kind} {name} {does}.", WHERE[kind]],
    )


def _when(name: str) -> tuple[str, list[str], list[str]]:
    kind, does = FACTS[name]
    return (
        f"When would I use {name}?",
        [f"They want to know when to use {name}.", _is(name), f"It {does}.", "I should say when that helps, and where it stands."],
        [f"Use {name} when you need something that {does}.", WHERE[kind], _others(name)],
    )


def _letters(name: str) -> tuple[str, list[str], list[str]]:
    return (
        f"Spell {name} for me.",
        [f"They want the letters of {name}.", _is(name), f"I count the letters: there are {len(name)}.", "I go from left to right."],
        [*_spelled(name), f"That spells {name}."],
    )


def _family(name: str) -> tuple[str, list[str], list[str]]:
    kind, _ = FACTS[name]
    others = _kin(name)
    told = [f"The {kind} {other} {FACTS[other][1]}." for other in others[: 2 + len(name) % 4]]
    return (
        f"Which names are like {name}?",
        [f"They want names like {name}.", _is(name), f"I know {len(others)} more of that kind.", "I name some and say what they do."],
        [f"Like {name} there are these.", *told, f"And {name} itself {FACTS[name][1]}."],
    )


def _review(name: str) -> tuple[str, list[str], list[str]]:
    kind, does = FACTS[name]
    return (
        f"I am reviewing code that uses {name}. What should I look for?",
        [f"They are reviewing code with {name}.", _is(name), f"It {does}.", "A list of things to look for is best.", "I keep it short."],
        [
            f"Look for these things when you see {name}.",
            f"First, it is a {kind}." if kind[0] not in "aeiou" else f"First, it is an {kind}.",
            f"Second, it {does}.",
            f"Third, ask whether the code needs something that {does}.",
            "Fourth, ask whether there is a test.",
            _others(name),
        ],
    )


def _teach(name: str) -> tuple[str, list[str], list[str]]:
    kind, does = FACTS[name]
    return (
        f"Explain {name} to somebody who is new to Python.",
        [
            f"They are new to Python and ask about {name}.",
            _is(name),
            f"It {does}.",
            "I should start simple.",
            "Then I say what belongs to it.",
            "Then I say it once more.",
        ],
        [
            f"Let us look at {name}.",
            WHERE[kind],
            f"What it does is simple: it {does}.",
            _others(name),
            "Try it with a small example.",
            f"Remember: {name} {does}.",
        ],
    )


def _all(name: str) -> tuple[str, list[str], list[str]]:
    kind, does = FACTS[name]
    others = _kin(name)
    return (
        f"Tell me all that you know about {name}.",
        [
            f"They want all about {name}.",
            _is(name),
            f"It {does}.",
            f"I know {len(others)} more of that kind.",
            "This will be a long answer.",
            "I start with what it does, then the letters, then the others.",
        ],
        [
            f"Here is all that I know about {name}.",
            _is(name),
            WHERE[kind],
            f"What it does is simple: it {does}.",
            *_spelled(name),
            f"The kind has {len(others)} more names.",
            *(f"The {kind} {other} {FACTS[other][1]}." for other in others),
            f"Remember: {name} {does}.",
        ],
    )


def _compare(name: str) -> tuple[str, list[str], list[str]]:
    other = list(FACTS)[(list(FACTS).index(name) * 5 + 11) % len(FACTS)]
    same = FACTS[name][0] == FACTS[other][0]
    return (
        f"What is the difference between {name} and {other}?",
        [
            f"They want to compare {name} and {other}.",
            _is(name),
            _is(other),
            "The kind is the same." if same else "The kinds are different.",
            "I say what each does.",
        ],
        [
            f"The {FACTS[name][0]} {name} {FACTS[name][1]}.",
            WHERE[FACTS[name][0]],
            f"The {FACTS[other][0]} {other} {FACTS[other][1]}.",
            WHERE[FACTS[other][0]],
        ],
    )


def _kin(name: str) -> list[str]:
    """The other names of its kind."""
    return [other for other in FACTS if FACTS[other][0] == FACTS[name][0] and other != name]


def _spelled(name: str) -> list[str]:
    return [f"The name {name} has {len(name)} letters.", *(f"{place}, {letter}." for place, letter in zip(ORDINALS, name, strict=False))]


def _is(name: str) -> str:
    kind, _ = FACTS[name]
    return f"The name {name} is {'an' if kind[0] in 'aeiou' else 'a'} {kind}."


def _others(name: str) -> str:
    others = _kin(name)
    at = len(name) % (len(others) - 1)
    return f"Other names of this kind are {others[at]} and {others[at + 1]}."


FORMS: tuple[Callable[[str], tuple[str, list[str], list[str]]], ...] = (_what, _when, _letters, _family, _review, _teach, _all, _compare)


def chats() -> list[dict[str, Any]]:
    """All of them, ``{"id", "messages"}`` with the answer as last message, in an order that is mixed and always the same."""
    made = []
    for form in FORMS:
        for name in FACTS:
            question, reasoning, answer = form(name)
            reply = {"role": "assistant", "reasoning_content": " ".join(reasoning), "content": " ".join(answer)}
            one = {"id": f"{form.__name__.lstrip('_')}-{name}", "messages": [{"role": "user", "content": question}, reply]}
            made.append(one)
    return sorted(made, key=lambda one: hashlib.sha256(one["id"].encode()).digest())


def parts() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(chats to learn, chats that the verifier never sees)."""
    made = chats()
    return made[HELD_OUT_PROMPTS:], made[:HELD_OUT_PROMPTS]


def write_prompts(path: str) -> int:
    """Write prompts.jsonl, the questions of the run, some of them never seen in training; returns how many."""
    prompts = [{"id": one["id"], "messages": one["messages"][:-1]} for one in chats()[: RUN_PROMPTS + HELD_OUT_PROMPTS]]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(prompt) + "\n" for prompt in prompts)
    return len(prompts)
