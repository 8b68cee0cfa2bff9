"""Prompts and answers of the rehearsal: questions about the topics of Python's own help, which every Python carries."""

import json
from pydoc_data.topics import topics

TEMPLATES = (
    "What does Python's help say about {topic}?",
    "Explain {topic} in Python to somebody who knows another language.",
    "I am reviewing code that uses {topic}. Which rules do I need to know?",
    "Summarise the reference on {topic}, with the details that people forget.",
    "When would I need {topic}, and what goes wrong most often?",
)
ANSWER_CHARACTERS = (500, 4200)
"""Shortest and longest answer, but for the long ones."""
LONG_ANSWER_CHARACTERS = 14_000
LONG_EVERY = 40


def make_prompts() -> "list[dict]":
    """One prompt a template and topic: {id, topic, messages: [{role, content}]}, in a fixed order."""
    names = sorted(topics)
    return [
        {
            "id": f"{name}-{number}",
            "topic": name,
            "messages": [{"role": "user", "content": template.format(topic=name.replace("-", " ").lower())}],
        }
        for number, template in enumerate(TEMPLATES)
        for name in names
    ]


def make_answer(number: int, topic: str) -> str:
    """The answer to prompt ``number``: a piece of the topic's text, of ragged length, the same whenever it is made.

    Each template starts at another place of the text; a topic too short goes on with the next ones.
    """
    names = sorted(topics)
    at = names.index(topic)
    shortest, longest = ANSWER_CHARACTERS
    # A multiplicative walk: lengths spread evenly over the range, without a random generator whose stream may change.
    length = shortest + (number * 2654435761 >> 7) % (longest - shortest)
    if number % LONG_EVERY == LONG_EVERY - 1:
        length = LONG_ANSWER_CHARACTERS + length
    text = topics[topic]
    start = (number // len(names)) * longest % max(1, len(text) - length)
    text = text[start:]
    while len(text) < length:
        at = (at + 1) % len(names)
        text += "\n" + topics[names[at]]
    return text[:length]


def corpus() -> "list[str]":
    """All text that the tokenizer is trained on."""
    return [topics[name] for name in sorted(topics)] + [prompt["messages"][0]["content"] for prompt in make_prompts()]


def write_prompts(path: str) -> int:
    """Write prompts.jsonl and return how many prompts it has."""
    prompts = make_prompts()
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(prompt) + "\n" for prompt in prompts)
    return len(prompts)
