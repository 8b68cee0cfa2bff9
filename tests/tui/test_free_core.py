"""Freeing GPUs, the pure parts: the plan and its selection, the live steps, the receipt in words; and junk through all of them."""

from typing import Any

import free_scenes
import pytest
import scenes
from hypothesis import given, settings
from hypothesis import strategies as st

from console.core import action, audit_words, free_live, free_memory, free_plan, free_receipt, free_words, sanitize, views
from console.headless import actions, free_lines
from pipeline.contract import free, telemetry

MIB = 1 << 20
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def plan_of(rows: list[dict[str, Any]] | None = None, **changes: Any) -> free_plan.Plan:
    found = free_plan.parse(free_scenes.plan(rows, **changes))
    assert found is not None
    return found


def test_a_plan_proposes_only_ours_and_a_service_is_chosen_whole() -> None:
    foreign = plan_of()
    assert foreign.proposed() == frozenset() and len(foreign.killable()) == 9
    assert foreign.phrase(frozenset()) == "free gpu-host 0"
    assert foreign.together((4203, 42030)) == foreign.killable() == foreign.together((4100, 41000))
    assert foreign.together((5150, 51500)) == frozenset(), "what is another user's is not chosen"
    assert foreign.phrase(foreign.killable()) == "free gpu-host 9 vllm-k25.service"
    ours = plan_of(free_scenes.our_rows())
    assert ours.proposed() == {(4200, 42000), (4201, 42010)} and ours.together((4200, 42000)) == {(4200, 42000)}
    order = ours.order(ours.proposed(), "words")
    assert order == {"plan": free_scenes.plan(free_scenes.our_rows()), "selection": [[4200, 42000], [4201, 42010]], "phrase": "words"}


def test_what_a_command_line_may_select() -> None:
    found = plan_of()
    assert free_plan.pick(found, None, False) == frozenset() and free_plan.pick(found, None, True) == found.killable()
    assert free_plan.pick(found, [4205], False) == found.killable(), "with its service goes all that it keeps"
    with pytest.raises(ValueError, match="process 5150 cannot be ended from here: it is anna's"):
        free_plan.pick(found, [5150], False)
    with pytest.raises(ValueError, match="process 1 holds no GPU"):
        free_plan.pick(found, [1], False)


def test_of_an_old_selection_only_what_is_still_the_same_process_stays() -> None:
    found = plan_of(free_scenes.our_rows())
    assert found.keep({(4200, 42000), (4201, 7), (9, 9)}) == {(4200, 42000)}, "another process has the pid of 4201"


def test_the_steps_name_each_service_once_and_end_with_the_proof() -> None:
    found = plan_of()
    names = [name for name, _ in free_words.steps(found, found.killable())]
    assert names == ["SURVEY", "STOP_SERVICE", "TERM", "KILL", "WAIT_RELEASE", "VERIFY"]
    assert [name for name, _ in free_words.steps(found, frozenset())] == ["SURVEY", "VERIFY"]
    told = dict(free_words.steps(plan_of(free_scenes.our_rows()), {(4200, 42000)}))
    assert told["TERM"] == "one SIGTERM each to 1 process; 30 s grace" and "0 MiB on all 8" in told["VERIFY"]


def test_memory_in_words_never_calls_something_nothing() -> None:
    assert free_memory.held(0) == "0 MiB" and free_memory.held(None) == "not read" and free_memory.held(3 * MIB) == "3 MiB"
    assert free_memory.held(3 * MIB, 3 * MIB) == "3 MiB, baseline accepted"
    assert free_memory.held(4 * MIB, 3 * MIB) == "4 MiB", "more than was accepted"
    assert free_memory.held(0, 3 * MIB) == "0 MiB" and free_memory.held(81_024 * MIB, None) == "81,024 MiB"
    assert free_memory.list_mib([0, None, 1, MIB + 1]) == "0,?,0,2"
    assert free_memory.spans([7, 0, 1, 2, 5]) == "0-2,5,7" and free_memory.spans([]) == ""
    mixed = plan_of(gpus=[{"index": index, "uuid": f"GPU-{index}", "used_bytes": used} for index, used in enumerate((0, 0, MIB, None))])
    assert free_words.summary(mixed, {"GPU-2": MIB}) == "GPU 0-1 0 MiB; GPU 2 1 MiB, baseline accepted; GPU 3 not read"


def live_of(**changes: Any) -> action.Action:
    found = action.parse(free_scenes.action(**changes), free.ACTION)
    assert found is not None
    return found


def test_the_steps_of_a_running_one_and_its_countdown() -> None:
    one = live_of()
    steps = free_live.steps(free_scenes.events())
    assert [(step.name, step.result) for step in steps][-2:] == [("TERM", "4207 sent"), ("GRACE", None)]
    assert steps[3].what == "stop systemd vllm-k25.service" and steps[3].seconds == 8.7
    assert free_live.countdown(one, scenes.NOW_S) == "1 of 9 processes live, 18 s left at most"
    assert free_live.countdown(one, scenes.NOW_S + 30) == "1 of 9 processes live, its time is over"
    assert free_live.countdown(one, None) == "1 of 9 processes live"
    assert free_live.steps(free_scenes.events()[-2:])[0].result == "4207 sent", "its beginning was not among the events that were sent"


def test_a_curve_keeps_its_ends_marks_zero_apart_and_what_was_not_read() -> None:
    points = [(float(at), (80 - 8 * at, None if at == 1 else 0)) for at in range(11)]
    (falling, first, last), (other, *_) = free_live.curve(points, 20)
    assert (first, last) == (80, 0) and falling[0] == "█" and falling[-1] == "·" and "·" not in falling[:-1] and other == "·?" + "·" * 9
    thin = free_live.curve(points, 4)[0]
    assert len(thin[0]) == 4 and thin[1:] == (80, 0)
    assert free_live.curve([], 10) == [] and free_live.span_s(points) == 10.0


@pytest.mark.parametrize(
    ("state", "code", "word"),
    [
        ("CRASHED", free.EXIT_FAILED, "CRASHED in GRACE"),
        ("ENDED_UNKNOWN", free.EXIT_CANNOT_TELL, "ended, code unknown"),
        ("LOST_REBOOT", free.EXIT_CANNOT_TELL, "the host was restarted"),
        ("REFUSED", free.EXIT_USAGE, "refused"),
        ("UNREADABLE", free.EXIT_CANNOT_TELL, "UNKNOWN"),
    ],
)
def test_without_a_receipt_nothing_is_proven(state: str, code: int, word: str) -> None:
    one = live_of(state=state, why="")
    assert actions.exit_code(one.attempt.done, one.attempt.state, {}) == code and word in free_live.standing(one)


def test_exit_code_zero_takes_proof_on_both_ways() -> None:
    good = free_scenes.receipt()
    done = action.parse(free_scenes.ended(good), free.ACTION)
    assert done is not None and actions.exit_code(done.attempt.done, done.attempt.state, good) == 0
    assert actions.exit_code(done.attempt.done, done.attempt.state, {**good, "verified": False}) == free.EXIT_CANNOT_TELL
    assert actions.exit_code(False, telemetry.FAILED, good) == free.EXIT_CANNOT_TELL, "the frame does not say done"
    assert actions.exit_code(done.attempt.done, done.attempt.state, {**good, "exit_code": 77}) == free.EXIT_CANNOT_TELL
    story = free_scenes.receipt(free_scenes.STORY_MIB)
    ended = action.parse(free_scenes.ended(story), free.ACTION)
    assert ended is not None and actions.exit_code(ended.attempt.done, ended.attempt.state, story) == free.EXIT_HELD


def test_what_can_be_accepted_as_an_idle_baseline_and_what_not() -> None:
    idle = free_scenes.receipt((0, 0, 0, 1, 1, 1, 3, 3))
    assert free_receipt.acceptable(idle) == {f"GPU-{index}": mib * MIB for index, mib in enumerate((0, 0, 0, 1, 1, 1, 3, 3))}
    for wrong in (
        free_scenes.receipt(), free_scenes.receipt(free_scenes.STORY_MIB), {**idle, "usable": True}, {**idle, "exit_code": 11},
        {**idle, "gpus": [*idle["gpus"][:7], {**idle["gpus"][7], "complete": False}]},
        {**idle, "gpus": [*idle["gpus"][:7], {**idle["gpus"][7], "holders": [[1, 2]]}]},
        {**idle, "gpus": [*idle["gpus"][:7], {**idle["gpus"][7], "used_bytes": [17 * MIB] * 5}]},
        {**idle, "gpus": [*idle["gpus"][:7], {**idle["gpus"][7], "used_bytes": [3 * MIB, None]}]},
        {**idle, "gpus": []},
    ):  # fmt: skip
        assert free_receipt.acceptable(wrong) == {}


def test_an_accepted_baseline_is_called_that_a_gpu_at_a_time() -> None:
    words = [one.word for one in free_receipt.gpus(free_scenes.receipt((0, 0, 0, 1, 1, 1, 3, 3), accepted=True, usable=True))]
    assert words == ["FREE"] * 3 + ["baseline accepted"] * 5


def test_the_story_of_the_reference_run_in_words() -> None:
    story = free_scenes.receipt(free_scenes.STORY_MIB)
    words = [one.word for one in free_receipt.gpus(story)]
    assert words == ["NOT FREE", "FREE", "FREE"] + ["NOT FREE"] * 5
    text = "\n".join(free_lines.receipt(story, simulated=False))
    assert "0 MiB on 8/8" not in text and "nvidia-smi --gpu-reset -i GPU-0" in text and "every job on them" in text
    assert "-i GPU-1" not in text and "kernel or the driver keeps it" in text
    assert "to copy" not in "\n".join(free_lines.receipt(free_scenes.receipt(), simulated=True))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"what": "free-gpus", "phrase": "free x 0", "digest": "d", "reply": None}, "typed 'free x 0' for plan d, asked"),
        ({"what": "free-gpus", "phrase": "free x 0", "digest": "d", "reply": "DONE"}, "typed 'free x 0' for plan d, answered DONE"),
        (
            {"what": "baseline-accept", "gpus": {"GPU-1": 3 * MIB}, "run": "r"},
            "idle baseline of 1 GPUs accepted, not 0: GPU-1 3 MiB, run r",
        ),
        ({"what": "take-over", "host": "h", "run": "r", "reply": "yours", "taken_from": None}, "control taken, run r, answered yours"),
    ],
)
def test_audit_lines_in_words(entry: dict[str, Any], text: str) -> None:
    assert audit_words.words(entry).text == text


@settings(max_examples=150, deadline=None)
@given(JSON, JSON)
def test_junk_from_the_wire_raises_nothing_and_reaches_no_terminal(junk: Any, other: Any) -> None:
    texts: list[str] = []
    bad = {**free_scenes.plan(), "rows": [junk], "notes": [junk, other], "gpus": [other]}
    found = free_plan.parse(bad)
    if found is not None:
        texts += free_lines.plan("h", found, found.killable(), {}, "command")
    for receipt in (
        junk,
        {**free_scenes.receipt(), "gpus": [junk], "before": [other], "stopped": [junk], "processes": [other], "new": junk},
    ):
        if isinstance(receipt, dict):
            texts += free_lines.receipt(receipt, True)
            free_receipt.acceptable(receipt)
    made = action.parse(
        {**free_scenes.action(), "progress": junk, "receipt": other, "events": [junk, {"kind": "step", "step": other}]}, "x"
    )
    if made is not None:
        texts += [free_live.standing(made), free_live.countdown(made, 1.0), str(free_live.curve(made.curve, 9))]
        texts += [f"{step.name}{step.what}{step.result}" for step in free_live.steps(free_live.in_frame(made))]
    view = views.parse(free_scenes.frame(junk, baseline_accepted=other))
    assert view is not None and set(view.actions) <= {free.ACTION}
    if isinstance(junk, dict):
        texts += list(audit_words.words({"what": "free-gpus", **junk}))
    assert all(sanitize.is_safe(text) for text in texts)
