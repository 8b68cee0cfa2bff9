"""A server that answers without end, or something else than was asked: each call ends in its time, and under a name."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import UserError
from pipeline.serving import answers, api, metrics
from pipeline.serving.api import Api, NotNowError, RefusedError
from tests.fakes.bad_http import BadServer, answer
from tests.fakes.odd_json import DEEP, JSON, PLACES, changed
from tests.fakes.serve_runs import read_events, read_json, serving, write_model, write_run

ENDLESS = ("drip", "drip head", "flood", "flood head", "silent")


def calls(one: Api) -> dict[str, Any]:
    return {
        "/health": one.health,
        "/v1/models": one.models,
        "/metrics": one.metrics,
        "/v1/chat/completions": lambda: one.one_token("m", 0.5),
    }


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics", "/v1/chat/completions"])
def test_what_never_ends_is_not_answering_in_bounded_time(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "HEALTH_TIMEOUT_S", 0.5)
    monkeypatch.setattr(api, "METRICS_TIMEOUT_S", 0.5)
    monkeypatch.setattr(api, "_MOST_BYTES", 1 << 20)
    for manner in ENDLESS:
        with BadServer({path: manner}) as server:
            one = Api(server.url, None)
            began = time.monotonic()
            try:
                with pytest.raises(NotNowError) as caught:
                    calls(one)[path]()
            finally:
                one.close()
            assert time.monotonic() - began < 10, manner  # far below the 100,000 bytes at five a second
            assert path in str(caught.value), manner
            assert server.sent < 64 << 20, "a flood is cut off at the bound, however much the kernel took meanwhile"


def test_closing_ends_what_is_on_its_way() -> None:
    with BadServer({"/health": "drip"}) as server:
        one = Api(server.url, None)
        outcome: list[BaseException] = []

        def ask() -> None:
            try:
                one.health()
            except NotNowError as error:
                outcome.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert server.requested.wait(20)
        one.close()
        thread.join(5)  # its own deadline is 10 s
        assert outcome and not thread.is_alive()
        with pytest.raises(NotNowError):
            one.health()
        one.close()


def test_a_redirect_is_an_answer_and_nobody_else_is_asked() -> None:
    with BadServer({"/health": answer({}), "/v1/models": answer({"data": []})}) as other:
        away = b"Location: %s/v1/models\r\n" % other.url.encode()
        with BadServer({path: answer(b"", 302, away) for path in ("/health", "/v1/models", "/v1/chat/completions")}) as server:
            one = Api(server.url, "a key")
            with pytest.raises(NotNowError, match="/health answers 302"):
                one.health()
            for call in (one.models, lambda: one.one_token("m", 5)):
                with pytest.raises(RefusedError, match="answers 302"):
                    call()
            one.close()
        assert other.asked == []


def test_a_compressed_answer_is_not_unpacked() -> None:
    with BadServer({"/v1/models": answer(b"\x1f\x8b...", 200, b"Content-Encoding: gzip\r\n")}) as server:
        one = Api(server.url, None)
        with pytest.raises(NotNowError, match="is compressed"):
            one.models()
        assert b"identity" in server.asked[0][1]
        one.close()


def test_a_key_that_no_header_can_hold_is_the_users_error() -> None:
    with pytest.raises(UserError, match="VLLM_API_KEY"):
        Api("http://127.0.0.1:1", "schlüssel")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_in_an_answer_it_is_typed_or_a_named_error(place: tuple[Any, ...], value: Any) -> None:
    data = json.dumps(changed(place, value)).encode()
    for kind in (answers.Completion, answers.Models):
        try:
            assert isinstance(answers.read(data, kind), kind)
        except answers.AnswerError as error:
            assert "\n" not in str(error) and len(str(error)) <= 300
    assert len(answers.error_text(data)) <= 300
    assert isinstance(metrics.read(data.decode()), metrics.Reading)
    one = object.__new__(Api)
    one._exchange = type("Told", (), {"ask": staticmethod(lambda *_: api.Reply(200, data))})()  # type: ignore[assignment]
    for call in (one.models, lambda: one.one_token("m", 1.0)):
        try:
            call()
        except RefusedError as error:
            assert "\n" not in str(error)


ODD = {
    "token_ids an object": changed(("choices", 0, "token_ids"), {"0": 1}),
    "message a string": changed(("choices", 0, "message"), "Hi"),
    "usage a list": changed(("usage",), []),
    "deep": DEEP,
    "deep inside": b'{"model": "m", "choices": [{"x": ' + DEEP,
}


@pytest.mark.parametrize("name", list(ODD))
def test_the_answers_that_gave_tracebacks(name: str) -> None:
    body = answer(ODD[name])
    with BadServer({"/v1/chat/completions": body, "/v1/models": body}) as server:
        one = Api(server.url, None)
        with pytest.raises(RefusedError, match="/v1/chat/completions answers no completion"):
            one.one_token("m", 10)
        if name.startswith("deep"):
            with pytest.raises(RefusedError, match="answers no list of models"):
                one.models()
        server.manners["/v1/models"] = answer(DEEP, 400)
        with pytest.raises(RefusedError, match="answers 400"):
            one.models()
        one.close()


def test_metrics_without_end_or_measure_are_left_out() -> None:
    lines = "vllm:num_requests_running 1e300\nvllm:num_requests_waiting " + "9" * 100 + "\nvllm:generation_tokens_total 5\n"
    assert metrics.read(lines) == metrics.Reading(generated=5.0)


def test_serve_stops_saying_up_and_heeds_a_stop_while_its_server_drips(tmp_path: Path) -> None:
    run = write_run(tmp_path, write_model(tmp_path / "model"), {"drip": True})
    with serving(run) as stage:
        stage.wait_progress(lambda one: one.get("up"), "up")
        (tmp_path / "sick").touch()
        down = stage.wait_progress(lambda one: one["phase"] == "steady" and one.get("up") is False, "down")
        assert "no whole answer within" in {label: text for label, text, _ in down["facts"]}["answers"]
        began = time.monotonic()
        assert stage.end()[0] == 0
        assert time.monotonic() - began < 9, "a look that is under way, of 10 s, does not hold up the stop"
    assert [event["kind"] for event in read_events(run) if event["kind"] in ("up", "down")] == ["up", "down"]
    assert read_json(run, "receipt.json")["verified"] is True
