"""Records that somebody edited, and answers whose text is not their ids': reported by name, in bounded time."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from generate_runs import generate, lines, make_run, newest, numbered, output, question, refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.generation.check import Check
from pipeline.generation.earlier import read_earlier
from pipeline.generation.records import Failure, LineError, Record, read_lines
from pipeline.generation.tokens import TOO_MUCH_TEXT, Tokens
from tests.fakes.odd_json import JSON
from tests.fakes.openai_server import FakeServer

ROWS = numbered(4)


RECORD_KEYS = [*Record.__struct_fields__, "prompt_token_ids.0", "response_token_ids.0", "messages.0", "messages.0.role", "view.0"]


@pytest.fixture(scope="module")
def one_answer(chat_verifier: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Tokens]:
    with FakeServer(chat_verifier) as server:
        run = make_run(tmp_path_factory.mktemp("one") / "run", chat_verifier, server, ROWS[:1])
        assert generate(run) == 0
    return output(run), lines(run)[0], Tokens.load(str(chat_verifier), False, {})


class NoPrompts:
    """What ``Check`` asks of the chosen prompts, of none."""

    bad: tuple[()] = ()

    def asks(self) -> list[Any]:
        return []


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(key=st.sampled_from(RECORD_KEYS), value=JSON)
def test_whatever_stands_in_a_record_it_is_sound_or_reported(
    key: str, value: Any, one_answer: tuple[Path, dict[str, Any], Tokens], tmp_path: Path
) -> None:
    _, record, tokens = one_answer
    record = json.loads(json.dumps(record))
    at, *rest = [int(step) if step.isdigit() else step for step in key.split(".")]
    place: Any = record
    for step in rest:
        place, at = place[at], step
    place[at] = value
    (tmp_path / "responses.jsonl").write_text(json.dumps(record) + "\n")
    checked = Check(str(tmp_path), tokens, 500, "seed", lambda *_: None).run(NoPrompts(), 1)  # type: ignore[arg-type]
    assert all("\n" not in problem for problem in checked.problems)
    assert read_earlier(str(tmp_path), strict=False).counts.samples <= 1
    if key.startswith(("prompt_token_ids", "response_token_ids")) and not (key.endswith("0") and isinstance(value, int)):
        assert checked.problems or value == record[key.partition(".")[0]]


@pytest.mark.parametrize("value", [2**70, -(2**70), "7", None, 1.5, [1], {"a": 1}, True])
def test_verify_and_resume_report_ids_that_no_tokenizer_has(
    value: Any, one_answer: tuple[Path, dict[str, Any], Tokens], chat_verifier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, record, _ = one_answer
    run, path = directory.parents[1], directory / "responses.jsonl"
    whole = path.read_bytes()
    for key in ("prompt_token_ids", "response_token_ids"):
        path.write_text(json.dumps({**record, key: [*record[key], value]}) + "\n")
        wanted = f"{key.partition('_')[0]} token ids outside" if type(value) is int else f"$.{key}["
        assert wanted in refused(run, capsys, "--verify", code=1), key
        told = refused(run, capsys, "--override", "to see what it says of the ids", code=1)
        assert ("outside" if type(value) is int else f"$.{key}[") in told, key
    path.write_bytes(whole)
    assert generate(run) == 0 and generate(run, "--verify") == 0


def test_far_more_text_than_ids_is_a_mismatch_by_name_without_being_tokenized(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(text: str, answer: dict[str, Any]) -> dict[str, Any]:
        if text in (question(0), question(1)):
            message = answer["choices"][0]["message"]
            message["content" if text == question(0) else "reasoning"] = "colour " * 1_000_000  # as much as may come for 8192 tokens
        return answer

    longest = [0]
    real = Tokens._encode

    def encode(self: Tokens, text: str) -> list[int]:
        longest[0] = max(longest[0], len(text))
        return real(self, text)

    monkeypatch.setattr(Tokens, "_encode", encode)
    server.change = change
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:4])
    assert generate(run) == 0
    by_id = {line["id"]: line for line in lines(run)}
    for name in ("q0", "q1"):
        line = by_id[name]
        assert line["marks"] == [TOO_MUCH_TEXT] and line["ids_match"] is False and line["mismatch"]["part"] == "response"
        assert len(line["content"]) + len(line["reasoning"]) < 20_000, "nor is it kept"
    assert by_id["q2"]["ids_match"] is by_id["q3"]["ids_match"] is True and 0 < longest[0] < 20_000
    assert newest(run, "receipt.json")["marks"] == {TOO_MUCH_TEXT: 2} and generate(run, "--verify") == 0


def test_the_bound_on_text_holds_for_every_text(one_answer: tuple[Path, dict[str, Any], Tokens]) -> None:
    _, _, tokens = one_answer

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.integers(0, len(tokens) - 1), max_size=12), st.text(max_size=20))
    def holds(ids: list[int], text: str) -> None:
        assert len(tokens._decode(ids)) <= tokens.most_characters(ids)
        assert len(text) <= tokens.most_characters(tokens._encode(text))

    holds()


def test_a_text_beyond_the_tokenizers_own_length_warns_nobody(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)  # its own handler holds the stderr of its import
    model = tmp_path / "model"
    model.mkdir()
    for file in chat_verifier.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    config = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 8}))
    assert generate(make_run(tmp_path / "run", model, server, ROWS[:2])) == 0
    assert "longer than the specified maximum" not in caplog.text


def test_old_failures_without_messages_are_read(tmp_path: Path) -> None:
    old = {
        "id": "a",
        "reason": "too long",
        "detail": "x",
        "tries": 1,
        "wall_s": 1.0,
        "split": None,
        "permanent": True,
        "prompt_sha256": None,
    }
    (tmp_path / "failed.jsonl").write_text(json.dumps(old) + "\n")
    found = [one for _, one in read_lines(str(tmp_path / "failed.jsonl"), Failure)]
    assert not isinstance(found[0], LineError) and found[0].messages is None
