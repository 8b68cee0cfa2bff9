"""The next step, from frames alone."""

from typing import Any

import pytest

from console.core import views
from console.core.attempt import Attempt
from console.core.chain import Step, bad_ends, next_step, told
from pipeline.contract import telemetry
from tests.fakes import frames

UP = {"phase": "steady", "up": True, "up_boot_s": 137.0}
VERIFIED = {"verified": True, "bad": 0}


def stage(name: str, state: str, **changes: Any) -> dict[str, Any]:
    value = frames.attempt(stage=name, state=state, attempt=f"20260101-000000-{name:0<12}", ledger=None, **changes)
    return {**value, "exit": {"code": 0}, "receipt": VERIFIED} if state == telemetry.DONE else value


def step(*stages: dict[str, Any], **options: Any) -> Step:
    frame = frames.frame(stages={one["stage"]: one for one in stages})
    return next_step(views.parse(frame), **options)


def done(*names: str, **changes: Any) -> list[dict[str, Any]]:
    return [stage(name, telemetry.DONE, **changes) for name in names]


def serving(**changes: Any) -> dict[str, Any]:
    return stage("serve", telemetry.RUNNING, progress=frames.progress(**{**UP, **changes}))


def running(name: str) -> dict[str, Any]:
    return stage(name, telemetry.RUNNING)


STOPPED = stage("serve", telemetry.STOPPED)


@pytest.mark.parametrize(
    ("stages", "kind", "name"),
    [
        ([], "start", "serve"),
        ([serving(phase="loading", up=False)], "wait", "serve"),
        ([serving(up=False)], "wait", "serve"),
        ([serving()], "start", "generate"),
        ([STOPPED], "start", "serve"),
        ([serving(), running("generate")], "wait", "generate"),
        ([serving(), *done("generate")], "start", "prepare"),
        ([STOPPED, *done("generate")], "start", "prepare"),
        ([serving(), *done("generate"), running("prepare")], "wait", "prepare"),
        ([serving(), *done("generate", "prepare")], "start", "vocab"),
        ([serving(), *done("generate", "prepare"), running("vocab")], "stop", "serve"),
        ([stage("serve", telemetry.STOPPING), *done("generate", "prepare"), running("vocab")], "wait", "vocab"),
        ([STOPPED, *done("generate", "prepare"), running("vocab")], "start", "extract"),
        ([STOPPED, *done("generate", "prepare"), running("vocab"), running("extract")], "wait", "vocab"),
        ([STOPPED, *done("generate", "prepare", "vocab"), running("extract")], "wait", "extract"),
        ([STOPPED, *done("generate", "prepare", "vocab", "extract")], "finished", ""),
        ([serving(), *done("generate", "prepare", "vocab", "extract")], "finished", ""),
        # Another one has the GPUs.
        ([running("extract")], "wait", "extract"),
        # Whatever ended badly needs a person; what runs beside it is waited for first.
        ([stage("serve", telemetry.CRASHED, why="SIGKILL")], "failed", "serve"),
        ([stage("serve", telemetry.CRASHED), running("generate")], "wait", "generate"),
        ([serving(), stage("generate", telemetry.FAILED)], "failed", "generate"),
        ([serving(), stage("generate", telemetry.STOPPED)], "failed", "generate"),
        ([serving(), stage("generate", telemetry.ENDED_UNKNOWN)], "failed", "generate"),
        ([serving(), stage("generate", "A NEW WORD")], "failed", "generate"),
        ([*done("generate", "prepare"), stage("vocab", telemetry.FAILED), running("extract")], "wait", "extract"),
        ([*done("generate", "prepare"), stage("vocab", telemetry.FAILED)], "failed", "vocab"),
        # A DONE without its evidence is none.
        ([{**stage("generate", telemetry.DONE), "receipt": None}, serving()], "failed", "generate"),
        # Outdated is not done.
        ([serving(), *done("generate"), *done("prepare", outdated="made of another output of generate")], "start", "prepare"),
        ([STOPPED, *done("generate", outdated="generate.seed was 0, it is 1 now")], "start", "serve"),
        ([STOPPED, *done("generate", outdated="generate.prompts: unknown: /data/p has not answered so far")], "wait", "generate"),
    ],
)
def test_the_next_step(stages: list[dict[str, Any]], kind: str, name: str) -> None:
    found = step(*stages)
    assert (found.kind, found.stage) == (kind, name), found
    assert found.why


def test_why_is_told() -> None:
    assert step(stage("serve", telemetry.CRASHED, why="SIGKILL, cause unknown")).why == "serve is CRASHED: SIGKILL, cause unknown"
    again = step(serving(), *done("generate"), *done("prepare", outdated="made of another output of generate"))
    assert again.why == "outdated: made of another output of generate"
    assert "goes on meanwhile" in step(stage("serve", telemetry.CRASHED), running("generate")).why


def test_what_ended_before_may_be_forgiven_and_nothing_else() -> None:
    crashed = stage("generate", telemetry.CRASHED)
    assert step(serving(), crashed, forgiven={crashed["attempt"]}) == Step("start", "generate", "is next")
    assert step(serving(), crashed, forgiven={"20260101-000000-another00000"}).kind == "failed"


def test_without_serve_the_prompts_go_to_a_server_that_is_not_ours() -> None:
    through = ("generate", "prepare", "vocab")
    assert step(through=through) == Step("start", "generate", "is next")
    assert step(*done("generate", "prepare", "vocab"), through=through).kind == "finished"
    assert step(*done("generate", "prepare"), running("vocab"), through=through).kind == "wait"


def test_a_step_is_taken_once_a_frame_tells_of_it() -> None:
    def newest(*stages: dict[str, Any]) -> Attempt | None:
        view = views.parse(frames.frame(stages={one["stage"]: one for one in stages}))
        return (view.stages or {}).get(stages[0]["stage"]) if view and stages else None

    failed, again = stage("vocab", telemetry.FAILED), {**running("vocab"), "attempt": "20260102-000000-vocab0000000"}
    away = {**failed, "attempt": again["attempt"], "exit": {"code": 2}}
    start = Step("start", "vocab", "is next")
    assert not told(start, None, None) and told(start, None, newest(running("vocab")))
    assert not told(start, newest(failed), newest(failed)) and told(start, newest(failed), newest(again))
    assert told(start, newest(failed), newest({**failed, "refused": away})), "its launch was refused"
    stop, up = Step("stop", "serve", "extract needs its GPUs"), newest(serving())
    assert not told(stop, up, newest(serving())) and told(stop, up, newest(STOPPED)) and told(stop, up, None)
    assert told(stop, up, newest(stage("serve", telemetry.STOPPING))), "what is being stopped is not stopped twice"


def test_nothing_told_is_nothing_concluded() -> None:
    assert next_step(None).kind == "wait"
    assert next_step(views.parse(frames.frame(stages=None))).kind == "wait"


def test_a_launch_that_was_refused_is_not_repeated_by_itself_and_hides_no_output() -> None:
    away = stage("vocab", telemetry.FAILED, why="its rows were changed")
    away.update(attempt="20260101-000001-000000000000", exit={"code": 2})
    (vocab,) = done("vocab")
    before = [STOPPED, *done("generate", "prepare", "extract")]
    assert step(*before, {**vocab, "refused": away}).kind == "finished", "what is done stays done"
    old = {**vocab, "refused": away, "outdated": "made of another output of prepare"}
    assert step(*before, old) == ("failed", "vocab", "the last launch of vocab was refused: its rows were changed")
    view = views.parse(frames.frame(stages={"vocab": old}))
    assert view is not None and view.stages is not None
    forgiven = bad_ends(view.stages)
    assert forgiven == {away["attempt"]} and step(*before, old, forgiven=forgiven).kind == "start"
