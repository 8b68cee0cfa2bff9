"""Frames into views: hostile ones never raise, and never make anything look better than the evidence."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.core import attempt as attempts
from console.core.store import Store
from pipeline.contract import telemetry
from tests.fakes.frames import MIB, attempt, frame, gpu, progress
from tests.fakes.json_places import changed, paths

RECEIPT = {"verified": True, "verified_samples": 80, "bad": 0}
DONE = attempt(state="DONE", exit={"code": 0, "signal": None, "boot_s": 138.0}, receipt=RECEIPT)
JUNK = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(["error", "stale: 3 s", "ok", "DONE"])
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


FULL = frame(stages={"extract": DONE})
PATHS = paths(FULL)


@given(JUNK)
def test_any_value_as_a_frame_is_survived(value: Any) -> None:
    store = Store()
    store.fold(value)
    assert store.simulated, "a host that says nothing is not taken for a real one"


@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(PATHS), JUNK), min_size=1, max_size=3))
def test_a_frame_with_anything_anywhere_is_survived_and_never_turns_into_done(changes: list[tuple[tuple, Any]]) -> None:
    broken = FULL
    for path, junk in changes:
        try:
            broken = changed(broken, path, junk)
        except (TypeError, KeyError, IndexError):
            continue
    store = Store()
    store.fold(FULL)
    newest = broken if store.fold(broken) else FULL
    one = store.attempt("extract")
    if one is None:
        return
    for rate in (store.rate_now(one), store.rate_mean(one)):
        assert rate.units_per_s is None or (rate.units_per_s >= 0 and math.isfinite(rate.units_per_s))
    store.eta(one)
    if one.done:
        evidence = newest["stages"]["extract"]
        assert evidence["exit"]["code"] == 0 and evidence["receipt"]["verified"] is True and evidence["receipt"]["bad"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"receipt": None},
        {"receipt": {"verified": False, "verified_samples": 80, "bad": 0}},
        {"receipt": {"verified": "yes", "verified_samples": 80, "bad": 0}},
        {"receipt": {"verified": 1, "verified_samples": 80, "bad": 0}},
        {"receipt": {"verified": True, "verified_samples": 80, "bad": 1}},
        {"exit": None},
        {"exit": {"code": None, "signal": 9}},
        {"exit": {"code": 1}},
        {"exit": {"code": False}},
    ],
)
def test_done_without_its_evidence_is_unverified(change: dict) -> None:
    one = attempts.parse({**DONE, **change}, "extract")
    assert one
    assert one.state == telemetry.UNVERIFIED
    assert not one.done
    assert "the host says DONE, but" in one.why


@pytest.mark.parametrize("state", [None, 3, "done", "FINISHED", ""])
def test_a_state_that_nobody_knows_is_neither_live_nor_ended(state: Any) -> None:
    one = attempts.parse(attempt(state=state), "extract")
    assert one
    assert (one.state, one.live, one.ended, one.done) == (attempts.UNKNOWN, False, False, False)


def test_zero_error_not_supported_stale_and_never_read_stay_apart() -> None:
    never = gpu(4)
    del never["used_bytes"]
    store = Store()
    values = [0, "error: 999", "not-supported", "stale: 12 s", math.nan, -1, 98_000 * MIB, True, "lots"]
    store.fold(frame(gpus=[gpu(0, used_bytes=value) for value in values] + [never]))
    assert store.view and store.view.gpus
    used = [one.used_bytes for one in store.view.gpus]
    assert [one.value for one in used] == [0, *[None] * 9]
    whys = [one.why.partition(":")[0] for one in used]
    assert whys == ["", "error", "not-supported", "stale", "error", "error", "error", "error", "error", "never read"]


def test_frames_without_a_time_or_from_the_past_change_nothing() -> None:
    store = Store()
    assert store.fold(frame(200.0))
    for bad in (None, [], {}, *({**frame(), "boot_s": moment} for moment in (None, math.inf, "1"))):
        assert not store.fold(bad)
    assert not store.fold(frame(199.0, consoles=7))
    assert (store.frames, store.bad_frames, store.late_frames) == (1, 6, 1)
    assert store.view and store.view.boot_s == 200.0 and store.view.consoles == 1


def test_not_told_is_not_none() -> None:
    store = Store()
    store.fold({"boot_s": 5.0})
    assert store.view
    assert store.view.stages is None and store.view.gpus is None and store.view.run is None
    store.fold(frame(6.0, stages={}, gpus=[]))
    assert store.view.stages == {} and store.view.gpus == ()


def test_ages_are_differences_of_host_times_plus_the_frames_own_age() -> None:
    store = Store()
    store.fold(frame(138.0))
    view = store.view
    assert view and view.nvml
    assert view.age_s(view.nvml.boot_s, 2.0) == pytest.approx(2.4)
    assert view.age_s(None, 2.0) is None
    assert view.age_s(view.nvml.boot_s, None) is None, "a frame of unknown age dates nothing"
    assert view.age_s(138.5, 0.0) == 0.0
    assert view.age_s(150.0, 0.0) is None, "a fact from the future has no age"


@pytest.mark.parametrize(
    ("hello", "nvml", "simulated"),
    [(False, False, False), (True, False, True), (False, True, True), (None, None, True), (False, None, False), (None, False, False)],
)
def test_only_a_host_that_says_so_is_real(hello: Any, nvml: Any, simulated: bool) -> None:
    store = Store()
    store.greet({"simulated": hello})
    store.fold(frame(nvml={"state": "ok", "simulated": nvml}, stages={}))
    assert store.simulated is simulated


def test_text_from_the_host_is_safe_and_names_for_requests_are_names() -> None:
    evil = "\x1b]0;owned\x07\u202e"
    store = Store()
    store.fold(
        frame(stages={"extract": attempt(why=evil, by=evil, attempt="../../etc", progress=progress(note=evil))}, host={"name": evil})
    )
    one = store.attempt("extract")
    assert store.view and one and one.progress
    for text in (store.view.name, one.why, one.by, one.progress.note):
        assert "\x1b" not in text and "\u202e" not in text and text
    assert one.id == ""


def test_a_frame_as_json_bytes_round_trips() -> None:
    store = Store()
    assert store.fold(json.loads(json.dumps(FULL)))
    one = store.attempt("extract")
    assert one and one.done and one.receipt and one.receipt.verified_samples == 80
