"""The questions that come with eaglewatch."""

import json
from collections import Counter

from pipeline.prompts import shipped_path


def test_the_shipped_prompts_are_many_of_several_kinds_and_chats_that_end_with_a_question() -> None:
    with shipped_path() as path, open(path, encoding="utf-8") as file:
        prompts = [json.loads(line) for line in file]
    assert len(prompts) >= 200
    assert len({prompt["id"] for prompt in prompts}) == len({json.dumps(prompt["messages"]) for prompt in prompts}) == len(prompts)
    kinds = Counter(prompt["id"].rpartition("-")[0] for prompt in prompts)
    assert len(kinds) >= 8 and min(kinds.values()) >= 10
    for prompt in prompts:
        roles = [message["role"] for message in prompt["messages"]]
        turns = roles[1:] if roles[0] == "system" else roles
        assert turns == ["user", "assistant"] * (len(turns) // 2) + ["user"]
        assert all(message["content"].strip() for message in prompt["messages"])
