"""Requests that fail in every way they can: each counted under its name, tried again where that helps, nothing lost in silence."""

import time
from pathlib import Path

import pytest
from generate_runs import answered, facts, failed, faulty, generate, lines, make_run, manifest, newest, numbered, output, question

from pipeline.generation import client
from tests.fakes import openai_server
from tests.fakes.openai_server import FakeServer

pytestmark = pytest.mark.usefixtures("quick")
ROWS = numbered(8)


def test_what_passes_is_tried_again_and_counted(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    faults = {0: "500", 1: "429", 2: "503", 3: "close", 4: "cut", 5: "no json", 6: "no choices", 7: "no ids", 8: "empty", 9: "unfinished"}
    faults |= {10: "abort", 11: "outside", 12: "drip", 13: "502", 14: "hang"}
    server.fault = faulty(faults, times=1)
    run = make_run(tmp_path / "run", chat_verifier, server, numbered(16), concurrency=16, request_timeout_s=4.0)
    began = time.monotonic()
    assert generate(run) == 0
    assert sorted(answered(run)) == sorted(f"q{number}" for number in range(16)) and failed(run) == {}
    assert time.monotonic() - began > 0.3, "Retry-After is waited for"
    retries = newest(run, "receipt.json")["retries"]
    assert retries == {
        "server error": 3,
        "server busy": 1,
        "connection closed before the whole answer": 2,
        "answer is no JSON": 1,
        "answer without choices": 1,
        "answer without token ids": 1,
        "answer without tokens": 1,
        "answer without a finish reason": 1,
        "aborted by the server": 1,
        "token ids outside the vocabulary": 1,
        "timed out": 2,
    }
    assert facts(run)["retries"][0].startswith("15: 3 server error") and set(server.asked.values()) == {1, 2}


def test_what_does_not_pass_is_listed_by_name_and_tried_again_only_where_that_helps(
    chat_verifier: Path, server: FakeServer, tmp_path: Path
) -> None:
    faults = {0: "400", 1: "422", 2: "413", 3: "500", 4: "no choices", 5: "no reasoning", 6: "403"}
    server.fault = faulty(faults)
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, require_reasoning=True)
    assert generate(run) == 0
    assert answered(run) == ["q7"] and failed(run) == {
        "q0": "too long",
        "q1": "rejected by the server",
        "q2": "too long",
        "q3": "server error",
        "q4": "answer without choices",
        "q5": "answer without reasoning",
        "q6": "access denied",
    }
    detail = {line["id"]: line for line in lines(run, "failed.jsonl")}
    assert detail["q0"]["detail"] == "HTTP 400: This model's maximum context length is 1024 tokens\\x1b[31m, the prompt is longer"
    assert {name: line["tries"] for name, line in detail.items()} == {"q0": 1, "q1": 1, "q2": 1, "q3": 3, "q4": 2, "q5": 2, "q6": 1}
    asked = [request for request in server.requests if request["messages"][-1]["content"] == question(5)]
    assert asked[0]["seed"] != asked[1]["seed"], "the same seed would give the same answer"
    receipt = newest(run, "receipt.json")
    assert (receipt["verified"], receipt["samples"], receipt["failed"], receipt["planned_samples"]) == (True, 1, 7, 8)
    assert receipt["failed_by_reason"]["too long"] == 2 and manifest(run)["complete"] is True
    text, level = facts(run)["failed"]
    assert text.startswith("7: 2 too long") and level == "bad"
    before = dict(server.asked)
    server.fault = lambda text, before: None
    assert generate(run) == 0
    assert sorted(answered(run)) == ["q3", "q4", "q5", "q6", "q7"], "those of the prompt itself are not asked again"
    assert {text: count - before[text] for text, count in server.asked.items()} == {
        question(number): int(number in (3, 4, 5, 6)) for number in range(8)
    }
    assert newest(run, "receipt.json")["failed_by_reason"] == {"too long": 2, "rejected by the server": 1}
    assert len(lines(run, "failed.jsonl")) == 7


def test_ids_and_texts_that_do_not_agree_are_marked_and_counted(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    server.fault = faulty({0: "odd ids", 1: "other template", 2: "other text", 3: "no reasoning"})
    run = make_run(
        tmp_path / "run", chat_verifier, server, [*ROWS[:5], {"id": "special", "prompt": "What does <|end|> mean, and <think>?"}]
    )
    assert generate(run) == 0
    by_id = {line["id"]: line for line in lines(run)}
    assert {name for name, line in by_id.items() if line["ids_match"] is not True} == {"q0", "q1", "q2"}
    assert by_id["q0"]["mismatch"]["part"] == "response" and by_id["q0"]["compared_by"] == "template"
    first = by_id["q0"]["mismatch"]
    assert by_id["q0"]["response_token_ids"][first["position"]] == first["server_id"] != first["template_id"]
    assert by_id["q1"]["mismatch"] | {"template_id": 0} == {
        "part": "prompt",
        "position": 3,
        "server_id": by_id["q1"]["prompt_token_ids"][3],
        "template_id": 0,
    }
    assert by_id["q2"]["marks"] == ["text is not what the ids decode to"] and by_id["q3"]["reasoning"] is None
    assert by_id["special"]["marks"] == ["special tokens in the prompt's text"] and by_id["special"]["ids_match"] is True
    receipt = newest(run, "receipt.json")
    assert receipt["mismatched"] == {"response": 2, "prompt": 1} and receipt["with_reasoning"] == pytest.approx(4 / 6, abs=1e-5)
    assert facts(run)["ids"] == ("not the template's: 2 response, 1 prompt", "warn")
    assert facts(run)["marked"][0] == "1 text is not what the ids decode to, 1 special tokens in the prompt's text"


def test_another_template_at_the_server_is_told_at_once(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fault = lambda text, before: "other template"
    assert generate(make_run(tmp_path / "run", chat_verifier, server, ROWS[:2])) == 0
    log = capsys.readouterr().out
    assert "the server's prompt ids are not what the chat template of model.path gives: at position 3" in log


def test_cut_answers_are_told(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, max_response_tokens=9)
    assert generate(run) == 0
    assert {line["finish_reason"] for line in lines(run)} == {"length"}
    assert {(line["ids_match"], line["compared_by"]) for line in lines(run)} == {(True, "template")}
    assert newest(run, "receipt.json")["truncated"] == 8 and facts(run)["cut"] == ("8 at the length limit", "warn")


def test_an_answer_without_end_is_cut_off(chat_verifier: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.fault = faulty({0: "drip"})
    monkeypatch.setattr(client, "_MOST_ANSWER_BYTES", 2000)
    monkeypatch.setattr(client, "_MOST_BYTES_A_TOKEN", 1)
    monkeypatch.setattr(openai_server, "DRIP", b" " * 500)
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:1], max_response_tokens=4)
    assert generate(run) == 1 and failed(run) == {"q0": "answer is too large"}
    assert output(run).is_dir()
