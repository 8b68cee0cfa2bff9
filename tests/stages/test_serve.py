"""The serve stage with a small real server: loading, proof, up and down, and its end."""

import os
import signal
from pathlib import Path

import pytest

from pipeline.host import procs
from tests.fakes.serve_runs import notes, read_events, read_json, running, serving, wait_for, write_model, write_run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("serve") / "model")


def facts(progress: dict) -> dict[str, str]:
    return {label: text for label, text, _ in progress.get("facts", [])}


def test_from_loading_to_a_clean_stop(model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model, {"load_s": 2, "workers": 0})
    with serving(run) as stage:
        loading = stage.wait_progress(lambda one: (one.get("load_done") or 0) >= 2 and one["phase"] == "loading", "two shards")
        assert loading["load_total"] == 4 and loading["up"] is False
        up = stage.wait_progress(lambda one: one.get("up") and "speed" in facts(one), "a rate")
        assert up["phase"] == "steady" and up["note"].endswith("/v1 as tiny") and up["up_boot_s"] <= up["boot_s"]
        told = facts(up)
        assert told["requests"] == "3 running, 1 waiting" and told["cache in use"] == "12%" and told["KV cache"] == "1,234,567 tokens"
        code, out, error = stage.end()
    assert (code, error) == (0, "")
    assert notes(run, "term") == [0], "exactly one SIGTERM"
    assert "4/4 [00:04" in out and "\r" in out, "the server's output goes through as it is"
    assert "\n" + next(line for line in out.splitlines() if " UP: " in line) in out, "the stage's own lines begin at a line's start"
    receipt = read_json(run, "receipt.json")
    assert receipt["verified"] is True and receipt["bad"] == 0
    assert receipt["ready"]["model"] == "tiny" and receipt["ready"]["first_token_id"] == 42 and receipt["ready"]["load_s"] > 1
    assert receipt["stopped"]["clean"] is True and receipt["stopped"]["had_to_end"] == []
    kinds = [event["kind"] for event in read_events(run)]
    assert [kind for kind in kinds if kind in ("server_started", "up")] == ["server_started", "up"]
    assert read_json(run, "progress/0.json")["up"] is False
    assert not running(notes(run, "pid")[0])


def test_down_and_up_again_while_the_server_lives(model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model)
    with serving(run) as stage:
        stage.wait_progress(lambda one: one.get("up"), "up")
        (tmp_path / "sick").touch()
        down = stage.wait_progress(lambda one: one["phase"] == "steady" and one.get("up") is False, "down")
        assert "503" in facts(down)["answers"] and "requests" not in facts(down), "nothing old is shown as if it were so now"
        (tmp_path / "sick").unlink()
        stage.wait_progress(lambda one: one.get("up"), "up again")
        assert stage.end()[0] == 0
    assert [event["kind"] for event in read_events(run) if event["kind"] in ("up", "down")] == ["up", "down", "up"]


def test_a_server_without_health_and_metrics_and_token_ids(model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model, {"no_health": True, "token": "strict"})
    with serving(run) as stage:
        up = stage.wait_progress(lambda one: one.get("up") and "metrics" in facts(one), "up")
        assert facts(up)["metrics"] == "not given by this server" and "generate needs them" in facts(up)["token ids"]
        assert stage.end()[0] == 0
    assert read_json(run, "receipt.json")["ready"]["gives_token_ids"] is False


@pytest.mark.parametrize(
    ("manners", "says"),
    [
        ({"die": "loading"}, "before it was ready (exit code 1): torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB."),
        ({"die": "loaded", "workers": 2, "stubborn": True}, "while it was up (SIGKILL)"),
    ],
)
def test_a_server_that_dies_is_told_with_its_own_words(manners: dict, says: str, model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model, manners)
    with serving(run) as stage:
        code, out, error = stage.end(None)
        assert code == 1 and says in error and error.count("\n") == 1, error
        for worker in notes(run, "worker"):
            assert f"{worker}" in error and not running(worker), "what it leaves is named, and ended"
        assert not read_json(run, "receipt.json")
        ended = next(event for event in read_events(run) if event["kind"] == "server_ended")
        assert ended["left"] == notes(run, "worker") and 1 <= len(ended["last_lines"]) <= 20
        assert "Traceback" not in error and ("Traceback" in out) == (manners["die"] == "loading")


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("hang", "gave no token: /v1/chat/completions: no whole answer within"),
        ("500", "gave no token: /v1/chat/completions answers 500: the engine is broken"),
        ("none", "refused to give a token: /v1/chat/completions answers without a token"),
        ("other-model", "asked for 'tiny', the server answered as 'other'"),
    ],
)
def test_healthy_is_not_ready_without_a_token(token: str, says: str, model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model, {"token": token}, ready_timeout_s=3.0)
    with serving(run) as stage:
        code, _, error = stage.end(None)
    assert code == 1 and says in error and error.count("\n") == 1, error
    assert notes(run, "term") == [0] and not running(notes(run, "pid")[0])
    assert not read_json(run, "receipt.json")


def test_a_server_that_never_gets_ready(model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model, {"load_s": 600}, ready_timeout_s=1.0)
    with serving(run) as stage:
        code, _, error = stage.end(None)
    assert code == 1 and "did not get ready within serve.ready_timeout_s (1 s): connection refused" in error
    assert not running(notes(run, "pid")[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_loading_is_quick_and_not_done(number: int, model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model, {"load_s": 600, "workers": 1})
    with serving(run) as stage:
        (worker,) = stage.wait_notes("worker")
        stage.wait_progress(lambda one: one.get("load_done") == 0 and one.get("load_total") == 4, "the first shard line")
        code, _, error = stage.end(number)
        assert code == 1 and f"stopped by {signal.Signals(number).name}" in error
        assert not running(worker) and not running(notes(run, "pid")[0])
    assert notes(run, "term") == [0] and notes(run, "int") == []
    assert not read_json(run, "receipt.json")
    assert read_events(run)[-1]["kind"] == "interrupted"


def test_a_server_that_ignores_the_stop_is_killed_and_said(model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model, {"ignore_term": True, "workers": 1}, stop_timeout_s=1.0)
    with serving(run) as stage:
        stage.wait_progress(lambda one: one.get("up"), "up")
        server, worker = notes(run, "pid")[0], notes(run, "worker")[0]
        code, _, error = stage.end()
        assert code == 1 and "did not end within serve.stop_timeout_s (1 s)" in error
        assert str(server) in error and str(worker) in error
        assert not running(server) and not running(worker)
    assert notes(run, "term") == [0]
    assert not read_json(run, "receipt.json")


def test_a_frozen_server_is_woken_so_that_it_can_act_on_the_one_signal(model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model)
    with serving(run) as stage:
        stage.wait_progress(lambda one: one.get("up"), "up")
        (server,) = notes(run, "pid")
        os.kill(server, signal.SIGSTOP)
        wait_for(lambda: (stat := procs.read_stat(server)) and stat.state in "Tt", "the server's freeze")
        code, _, error = stage.end()
        assert (code, error) == (0, "") and not running(server)
    assert notes(run, "term") == [0], "exactly one SIGTERM"
    assert read_json(run, "receipt.json")["stopped"]["clean"] is True


def test_started_by_hand_the_server_is_told_when_the_stage_is_killed(model: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path, model)
    with serving(run) as stage:
        stage.wait_progress(lambda one: one.get("up"), "up")
        (server,) = notes(run, "pid")
        stage.end(signal.SIGKILL)
        wait_for(lambda: not running(server), "the end of the server")
    assert notes(run, "term"), "by a signal that it could act on; more than one where threads of the stage died one by one"
