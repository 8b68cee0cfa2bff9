"""generate and a server that lies or never ends: each under its own name, in bounded time, and never a traceback."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from generate_runs import answered, failed, generate, lines, make_run, numbered, question, refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import StageError
from pipeline.generation import asking, client, failures
from pipeline.generation.client import Client
from pipeline.generation.failures import RequestError
from pipeline.generation.records import Answer
from pipeline.generation.watch import Watch
from pipeline.schema import Generate
from pipeline.serving.api import Api
from tests.fakes.bad_http import BadServer
from tests.fakes.odd_json import DEEP, JSON, PLACES, changed
from tests.fakes.openai_server import FakeServer

ROWS = numbered(6)


@pytest.fixture(autouse=True)
def short_health(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a health that never ends, of a test's size; and so the pauses."""
    monkeypatch.setattr("pipeline.serving.api.HEALTH_TIMEOUT_S", 0.5)


def test_a_health_that_drips_holds_neither_the_start_nor_the_watch(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, concurrency=1, max_retries=0, breaker_failures=2)
    server.healthy = "drip"
    assert "/health: no whole answer within" in refused(run, capsys) and server.asked.total() == 0
    server.healthy = True

    def fault(text: str, before: int) -> "str | None":
        if text == question(2):
            server.healthy = "drip"
            return "close"
        return None

    server.fault = fault
    error = refused(run, capsys, "--set", "serve.ready_timeout_s=0.3", code=1)
    assert "the server has been gone for" in error and "/health: no whole answer within" in error
    assert answered(run) == ["q0", "q1"] and failed(run) == {}


def test_a_stop_does_not_wait_for_a_look_at_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.serving.api.HEALTH_TIMEOUT_S", 30.0)
    with BadServer({"/health": "drip"}) as bad:
        api = Api(bad.url, None)

        async def stopped() -> None:
            looking = Watch(api, lambda: asyncio.sleep(0), 5, 60.0, lambda _: None)
            task = asyncio.create_task(looking.is_gone(RequestError(failures.REFUSED, "x")))
            assert await asyncio.to_thread(bad.requested.wait, 20)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        began = time.monotonic()
        asyncio.run(stopped())
        assert time.monotonic() - began < 15, "less than the look's own deadline"
        api.close()


@pytest.mark.parametrize("fault", ["drip", "drip head", "drip error"])
def test_answers_that_never_end_are_timed_out_by_name(fault: str, chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    server.fault = lambda text, before: fault if text == question(0) else None
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:2], concurrency=2, max_retries=0, request_timeout_s=1.0)
    assert generate(run) == 0 and failed(run) == {"q0": "timed out"} and answered(run) == ["q1"]
    assert lines(run, "failed.jsonl")[0]["messages"] == [{"role": "user", "content": question(0)}], "what `s` shows of it"


def test_a_long_error_is_not_read_to_its_end(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_MOST_ERROR_BYTES", 500)
    monkeypatch.setattr("tests.fakes.openai_server.DRIP", b"x" * 100)
    server.fault = lambda text, before: "drip error" if text == question(0) else None
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:2], max_retries=0, request_timeout_s=60.0)
    assert generate(run) == 0 and failed(run) == {"q0": "server error"}
    assert lines(run, "failed.jsonl")[0]["detail"].startswith("HTTP 500: xxxx")


def test_an_answer_may_be_as_large_as_what_was_asked_for(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    def change(text: str, answer: dict[str, Any]) -> dict[str, Any]:
        if text in (question(0), question(1)):
            answer["choices"][0]["message"]["content"] = "x" * (3 << 20 if text == question(0) else 1 << 20)
        return answer

    server.change = change
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:2], max_response_tokens=32, max_retries=0)
    assert generate(run) == 0 and failed(run) == {"q0": "answer is too large"} and answered(run) == ["q1"]


def test_a_long_prompt_has_many_ids(chat_verifier: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_ANSWER_BYTES", 16 << 10)
    run = make_run(tmp_path / "run", chat_verifier, server, [{"id": "long", "prompt": "\u6771" * 9_000}], max_response_tokens=32)
    assert generate(run) == 0
    ids = json.dumps(lines(run)[0]["prompt_token_ids"], separators=(",", ":"))
    assert len(ids) > (16 + 32) << 10, "more than an answer may have beside what was asked for"


def test_a_disk_that_fails_at_the_end_leaves_no_thread(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def sync(_: Any) -> None:
        if threading.current_thread().name.startswith("answers"):
            raise StageError("the disk failed")

    pools: list[Any] = []
    real = asking.ThreadPoolExecutor
    monkeypatch.setattr(asking, "ThreadPoolExecutor", lambda *given, **named: pools.append(real(*given, **named)) or pools[-1])
    monkeypatch.setattr(asking.Files, "sync", sync)
    assert "the disk failed" in refused(make_run(tmp_path / "run", chat_verifier, server, ROWS[:2]), capsys, code=1)
    assert len(pools) == 1 and not any(thread.is_alive() for thread in pools[0]._threads)


def test_a_redirect_is_named_and_not_followed(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:2])
    server.fault = lambda text, before: "302"
    error = refused(run, capsys)
    assert "redirected elsewhere: HTTP 302 to http://(not kept)@127.0.0.1:1/v1" in error and "set generate.endpoint" in error


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "model": ({"model": "another"}, "answered by another model"),
    "long reason": ({"finish_reason": "x" * 1000}, "answer is no chat completion"),
    "hostile reason": ({"finish_reason": "\x1b[2J"}, "answer is no chat completion"),
    "more tokens": ({"token_ids": [300] * 33}, "more tokens than asked for"),
    "longer prompt": ({"prompt_token_ids": [300] * 70_000}, "more tokens than asked for"),
    "huge id": ({"token_ids": [2**70, 1]}, "token ids outside the vocabulary"),
}


def test_lies_are_named(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    by_text = {question(number): change for number, (change, _) in enumerate(LIES.values())}

    def change(text: str, answer: dict[str, Any]) -> dict[str, Any]:
        for name, value in by_text.get(text, {}).items():
            (answer["choices"][0] if name in ("token_ids", "finish_reason") else answer)[name] = value
        return answer

    server.change = change
    run = make_run(tmp_path / "run", chat_verifier, server, numbered(7), max_response_tokens=32, max_retries=0)
    assert generate(run) == 0
    assert failed(run) == {f"q{number}": reason for number, (_, reason) in enumerate(LIES.values())} and answered(run) == ["q6"]
    assert all(len(line["detail"]) <= 300 for line in lines(run, "failed.jsonl"))


def test_another_model_is_told_before_anything_is_asked(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.change = lambda text, answer: {**answer, "model": "another"}
    error = refused(make_run(tmp_path / "run", chat_verifier, server, ROWS[:2]), capsys)
    assert "answered by another model: 'another', asked for 'verifier'" in error and "set generate.model" in error


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), JSON, st.integers(200, 599))
def test_whatever_stands_in_a_completion_it_is_an_answer_or_a_named_error(place: tuple[Any, ...], value: Any, code: int) -> None:
    data = json.dumps(changed(place, value)).encode()
    one = object.__new__(Client)
    one._settings, one._model, one._vocab_size = Generate(), "m", 500
    messages = [{"role": "user", "content": "Hello"}]
    try:
        assert isinstance(one._parse(data, messages, 4), Answer)
    except RequestError as error:
        assert "\n" not in str(error) and len(str(error)) < 400
    assert isinstance(failures.from_status(code, {"retry-after": "x", "location": "y"}, data), RequestError)


def test_deep_answers_and_errors_are_named(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    one = object.__new__(Client)
    one._settings, one._model, one._vocab_size = Generate(), "m", 500
    with pytest.raises(RequestError, match="answer is no"):
        one._parse(b'{"choices": [{"x": ' + DEEP, [], 4)
    assert failures.from_status(400, {}, b'{"error": ' + DEEP).kind == failures.REJECTED
