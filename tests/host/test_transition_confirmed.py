"""Only what was confirmed: that attempt of a service, those settings, nobody else's process; and an order that is whole."""

from pathlib import Path
from typing import Any

import pytest
from host_launches import RUN, wait_for
from made_attempts import Made
from transition_runs import TIMES, Way

from pipeline.contract import layout, telemetry
from pipeline.host import launch, procs, state, stop, transition, transition_order
from pipeline.host.errors import RequestError
from pipeline.host.transition_errors import NotProvenError


def ended(way: Way, directory: str) -> None:
    stop.request_stop(directory, "t", None, str(way.host.code_dir), way.host.python)
    way.host.wait_state(directory, telemetry.STOPPED, telemetry.FAILED)
    wait_for(lambda: not stop.supervised(directory), "the end of its supervisor")


def colleague(way: Way) -> str:
    """An extract stage of another run, which has loaded nothing yet."""
    run = Path(layout.run_dir(str(way.host.data_dir), "colleague"))
    run.mkdir(exist_ok=True)
    for name in ("settings.toml", "settings.json"):
        (run / name).write_bytes((way.run_dir / name).read_bytes())
    request = {"run": "colleague", "stage": "extract", "attempt": layout.new_attempt_id(), "by": "c", "interpreter": way.interpreter}
    begun = launch.Launch(str(way.host.data_dir), request, str(way.host.code_dir), way.host.python)
    wait_for(begun.poll, "launch")
    wait_for(lambda: [row for row in way.box.plan()["rows"] if row["uses_memory"]], "its memory")
    return begun.directory


def test_a_later_attempt_of_another_run_was_never_confirmed(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.steer("extract.wait")
    first = colleague(way)
    plan = way.plan("vocab", "extract", service="colleague/extract")
    assert plan["service"]["attempt"] == Path(first).name
    ended(way, first)
    second = colleague(way)
    gone = way.go(plan)
    assert (gone.code, gone.where) == (11, "HOLDERS") and state.view(second)["state"] == "RUNNING"
    action = transition.Transition(
        str(gone.directory), str(way.host.data_dir), way.order(plan), "t", way.box.nvml, str(way.host.code_dir), TIMES
    )
    with pytest.raises(NotProvenError, match="is another attempt now"):
        action._steps._gpus.stop_server()
    assert state.view(second)["state"] == "RUNNING"


def test_the_digest_moves_with_what_is_confirmed() -> None:
    def digest(run: str, stage: str, attempt: str) -> str:
        service = {"how": "attempt", "name": f"{run}/{stage}", "run": run, "stage": stage, "attempt": attempt}
        names = ("label", "boot_id", "from", "from_attempt", "settings_sha256", *transition_order.GPU_FIELDS)
        return transition_order.digest({**dict.fromkeys(names), "run": RUN, "stages": [], "service": service, "untested": []})

    assert digest(RUN, "serve", "a") == digest(RUN, "serve", "b"), "the run's own server, whichever attempt"
    assert digest(RUN, "extract", "a") != digest(RUN, "extract", "b")
    assert digest("other", "serve", "a") != digest("other", "serve", "b")


@pytest.mark.parametrize("service", [{"name": "x"}, {"name": "x", "how": "docker"}, {"name": "x", "how": "attempt", "stage": "serve"}, "x"])
def test_a_service_that_is_not_whole_is_refused(way: Way, service: Any) -> None:
    plan = way.plan("vocab", "extract")
    plan["service"] = service
    with pytest.raises(RequestError, match="not whole"):
        transition_order.check_order({"plan": plan, "phrase": "p"})


def test_settings_that_are_edited_meanwhile_stop_it(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    plan = way.plan("vocab", "extract")
    way.steer("preflight--gpu-only.wait")

    def edit() -> None:
        (way.run_dir / "settings.toml").write_text("[model]\npath = '/other'\n")
        way.unsteer("preflight--gpu-only.wait")

    gone = way.go(plan, during={"PREFLIGHT_GPU": edit})
    assert (gone.code, gone.where, way.live("extract")) == (1, "LAUNCH", "")
    assert "the run's settings are others than those that were confirmed" in gone.line


def test_the_cookie_of_an_attempt_makes_nobody_elses_process_ours(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    way.finish("generate", "prepare", "vocab")
    directory = way.serve()
    ended(way, directory)
    monkeypatch.setenv(procs.COOKIE, Path(directory).name)
    (pid,) = way.box.hold(gpus="5", mib=3000, uid=65534)
    monkeypatch.delenv(procs.COOKIE)
    plan = way.plan("vocab", "extract")
    (row,) = [one for one in plan["free"]["rows"] if one["pid"] == pid]
    assert (row["relation"], row["chosen"], row["manager"]) == ("other user", False, None)
    gone = way.go(plan)
    assert (gone.code, gone.where) == (11, "HOLDERS") and f"held by {pid} " in gone.receipt["alert"] and way.box.lives(pid)


def test_a_stage_of_another_run_that_begins_meanwhile_is_told_with_an_alert(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    plan = way.plan("vocab", "extract")
    way.steer("preflight--gpu-only.wait")

    def begins() -> None:  # once nobody else was found on the GPUs: alive, and without any memory yet
        Made(Path(layout.run_dir(str(way.host.data_dir), "colleague")), stage="extract").ident()
        way.unsteer("preflight--gpu-only.wait")

    gone = way.go(plan, during={"PREFLIGHT_GPU": begins})
    assert (gone.code, gone.where, way.live("extract")) == (11, "LAUNCH", "")
    assert "extract of run colleague is LAUNCHING" in gone.receipt["alert"]
