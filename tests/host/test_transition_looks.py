"""Transitions: what others do meanwhile, and what cannot be seen for a moment."""

import json
import os
from pathlib import Path

import pytest
from host_launches import wait_for
from made_attempts import Made
from transition_runs import TIMES, Way

from pipeline.contract import layout, telemetry, transition
from pipeline.host import launch


def test_the_server_is_not_stopped_under_a_stage_that_was_begun_again_through_it(way: Way) -> None:
    """From another console, after the output was found proven."""
    way.finish("generate", "prepare", "vocab")
    way.serve()
    plan = way.plan("vocab", "extract")
    way.steer("preflight--no-gpu.wait")
    way.steer("generate.wait")

    def again() -> None:
        way.start("generate")
        way.unsteer("preflight--no-gpu.wait")

    gone = way.go(plan, during={"PREFLIGHT": again})
    assert (gone.code, gone.where, way.live("serve"), way.live("generate")) == (1, "STOP_SERVER", "RUNNING", "RUNNING")
    assert "generate of run demo is RUNNING (attempt " in gone.line and gone.line.endswith("works through demo/serve; nothing is stopped")


def test_the_server_is_not_stopped_under_a_stage_of_another_run_that_asks_it(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    settings = json.loads((way.run_dir / "settings.json").read_text())
    settings["serve"] = {"host": "127.0.0.1", "port": 8000}
    (way.run_dir / "settings.json").write_text(json.dumps(settings))
    way.serve()
    other = way.run_dir.parent / "other"
    other.mkdir()
    (other / "settings.toml").write_text((way.run_dir / "settings.toml").read_text())
    settings["generate"]["endpoint"] = "http://localhost:8000/v1"
    (other / "settings.json").write_text(json.dumps(settings))
    way.steer("generate.wait")
    request = {"run": "other", "stage": "generate", "attempt": layout.new_attempt_id(), "by": "t", "interpreter": way.interpreter}
    begun = launch.Launch(str(way.host.data_dir), request, str(way.host.code_dir), way.host.python)
    wait_for(begun.poll, "the launch of generate")
    plan = way.plan("vocab", "extract")
    asks = f"generate of run other is RUNNING (attempt {request['attempt']}) and works through localhost:8000, "
    asks += "which is demo/serve as far as is known"
    assert plan["trouble"] == [asks]
    gone = way.go(plan)
    assert (gone.code, gone.where, way.live("serve")) == (1, "STOP_SERVER", "RUNNING")
    assert gone.line == f"stopped at STOP_SERVER: {asks}; nothing is stopped"
    for endpoint in ("http://localhost:8001/v1", "http://192.0.2.7:8000/v1"):
        settings["generate"]["endpoint"] = endpoint
        (other / "settings.json").write_text(json.dumps(settings))
        assert not way.plan("vocab", "extract")["trouble"], endpoint
    (other / "settings.json").write_text("torn")
    assert "and works through demo/serve" in way.plan("vocab", "extract")["trouble"][0]


@pytest.mark.parametrize("back", [True, False])
def test_a_stage_that_is_out_of_sight_for_a_while_does_not_disarm(back: bool, way: Way) -> None:
    """As on a file system that hangs for a moment: the stage runs on, and nobody knows better."""
    way.steer("generate.wait")
    directory, away = way.start("generate"), way.host.scratch / "away"
    actions = Path(layout.stage_dir(str(way.run_dir), transition.ACTION))

    def out_of_sight() -> None:
        os.rename(directory, away)
        wait_for(lambda: any("cannot be seen" in one.read_text() for one in actions.glob("*/progress/0.json")), "the word of it")
        if back:
            os.rename(away, directory)
            way.unsteer("generate.wait")

    times = TIMES._replace(unseen_s=60.0 if back else 0.5)
    gone = way.go(way.plan("generate", "prepare"), armed=True, times=times, during={"ARMED": out_of_sight})
    if back:
        assert gone.code == 0, gone.line
        return
    assert (gone.code, gone.receipt["outcome"]) == (3, "disarmed") and "cannot be seen for" in gone.line


def test_a_stage_of_another_run_that_begins_is_told_while_the_server_runs(way: Way) -> None:
    """It was given the GPUs, and has no memory on them yet."""
    way.finish("generate", "prepare", "vocab")
    way.serve()
    Made(way.run_dir.parent / "another").ident()
    gone = way.go(way.plan("vocab", "extract"))
    assert (gone.code, gone.where, way.live("serve")) == (11, "HOLDERS", "RUNNING")
    assert gone.receipt["alert"].startswith("extract of run another is ")


@pytest.mark.parametrize("what", ["settings.json", "settings.toml"])
def test_a_look_that_fails_for_a_moment_does_not_disarm(what: str, way: Way) -> None:
    """As on a file system that comes back piece by piece: the stage has ended, and what proves it, or the settings, cannot be seen yet."""
    way.steer("generate.wait")
    directory, path, away = way.start("generate"), way.run_dir / what, way.host.scratch / "away"
    actions = Path(layout.stage_dir(str(way.run_dir), transition.ACTION))
    where, word = {"settings.json": ("progress/0.json", "is gone"), "settings.toml": ("events.jsonl", "is verified")}[what]

    def ends() -> None:
        os.rename(path, away)
        if what == "settings.json":
            path.write_text(json.dumps({"generate": {"output": "data/not-mounted"}}))
        way.unsteer("generate.wait")
        way.host.wait_state(directory, telemetry.DONE)
        wait_for(lambda: any(word in one.read_text() for one in actions.glob("*/" + where)), "the look")
        os.rename(away, path)

    gone = way.go(way.plan("generate", "prepare"), armed=True, times=TIMES._replace(sure_s=20.0), during={"ARMED": ends})
    assert gone.code == 0, gone.line
