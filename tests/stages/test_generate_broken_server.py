"""A server that breaks, dies, stays away or hangs: the stage waits or ends and says so, and nobody's prompt is listed for it."""

import threading
import time
from pathlib import Path

import pytest
from generate_runs import answered, facts, failed, faulty, generate, make_run, manifest, newest, numbered, question, refused

from pipeline.generation import watch
from tests.fakes.openai_server import FakeServer

pytestmark = pytest.mark.usefixtures("quick")
ROWS = numbered(8)


@pytest.mark.parametrize("fault", ["500", "no ids", "close", "404"])
def test_a_broken_server_stops_the_stage_and_no_prompt_is_listed(
    fault: str, chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {question(0), question(1), ""}
    server.fault = lambda text, before: None if text in good else fault
    run = make_run(tmp_path / "run", chat_verifier, server, numbered(40), breaker_failures=6, max_retries=1)
    error = refused(run, capsys, code=1)
    assert "6 failures in a row and no answer between them" in error and "start again" in error
    assert sorted(answered(run)) == ["q0", "q1"] and failed(run) == {} and manifest(run)["complete"] is False
    assert sum(server.asked.values()) < 30
    server.fault = lambda text, before: None
    assert generate(run) == 0 and len(answered(run)) == 40 and server.asked[question(0)] == 1


def test_failures_of_the_prompts_own_do_not_stop_the_stage(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    server.fault = lambda text, before: "400" if text not in ("", question(29)) else None
    run = make_run(tmp_path / "run", chat_verifier, server, numbered(30), breaker_failures=3)
    assert generate(run) == 0 and answered(run) == ["q29"] and len(failed(run)) == 29


def test_nothing_answered_is_a_failure(chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.fault = lambda text, before: "400" if text else None
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS)
    assert "no prompt was answered: 8 too long" in refused(run, capsys, code=1)
    assert newest(run, "receipt.json")["verified"] is False and manifest(run)["complete"] is False
    server.fault = lambda text, before: None
    assert generate(run, "--set", "generate.temperature=0.5") == 0, "no answers are there that other settings could not mix with"
    assert len(answered(run)) == 8 and newest(run, "receipt.json")["failed"] == 0, "the refusals may have been the settings' fault"


def test_a_server_that_dies_and_comes_back_costs_no_prompt(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    died = threading.Event()

    def fault(text: str, before: int) -> "str | None":
        if text == question(5) and not died.is_set():
            died.set()
            return "die"
        return None

    server.fault = fault
    run = make_run(tmp_path / "run", chat_verifier, server, numbered(30), max_retries=0, breaker_failures=2)

    def bring_back() -> None:
        died.wait(30)
        time.sleep(0.3)
        server.start()

    helper = threading.Thread(target=bring_back)
    helper.start()
    assert generate(run) == 0
    helper.join(30)
    assert len(answered(run)) == len(set(answered(run))) == 30 and failed(run) == {}
    assert newest(run, "receipt.json")["retries"] == {}


def test_a_server_that_stays_away_ends_the_stage(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fault = faulty({3: "die"})
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, concurrency=1, max_retries=0, breaker_failures=1)
    error = refused(run, capsys, "--set", "serve.ready_timeout_s=0.3", code=1)
    assert "the server has been gone for" in error and "connection refused" in error and "start serve again" in error
    assert answered(run) == ["q0", "q1", "q2"] and failed(run) == {}
    text, level = facts(run)["server"]
    assert text.startswith("gone for") and level == "bad"


@pytest.mark.parametrize("healthy", [True, None])
def test_a_server_that_hangs_is_told_so(
    healthy: "bool | None",
    chat_verifier: Path,
    server: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in (("GUARD_EVERY_S", 0.1), ("QUIET_S", 0.3), ("STUCK_S", 1.5)):
        monkeypatch.setattr(watch, name, value)
    monkeypatch.setattr("pipeline.serving.api.HEALTH_TIMEOUT_S", 0.2)

    def fault(text: str, before: int) -> "str | None":
        if text == question(2):
            server.healthy = healthy
            return "hang"
        return None

    server.fault = fault
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, concurrency=1)
    error = refused(run, capsys, code=1)
    assert "the server hangs: no answer and no token for" in error and "1 requests on their way" in error
    assert ("/health answers" if healthy else "/health: ") in error
    assert answered(run) == ["q0", "q1"] and failed(run) == {}


def test_a_slow_server_whose_counter_moves_does_not_hang(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("GUARD_EVERY_S", 0.05), ("QUIET_S", 0.1), ("STUCK_S", 0.4)):
        monkeypatch.setattr(watch, name, value)
    server.answer_s, server.moves = 1.0, 1
    assert generate(make_run(tmp_path / "run", chat_verifier, server, ROWS[:1])) == 0
    server.moves = 0
    run = make_run(tmp_path / "still", chat_verifier, server, ROWS[:1])
    assert generate(run) == 1 and answered(run) == []
