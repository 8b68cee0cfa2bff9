"""Transitions, step by step: what is done in which order, where it stops, what it leaves alone, and where the next one resumes."""

from pathlib import Path

import nvml_fakes
import pytest
from host_launches import RUN, running, wait_for
from transition_runs import CHAIN, TIMES, Way

from pipeline.contract import layout
from pipeline.contract.files import read_json
from pipeline.host import baseline, procs, stop


def test_from_generate_to_extract_while_the_server_runs(way: Way) -> None:
    way.finish("generate")
    way.serve()
    plan = way.plan("generate", *CHAIN)
    assert plan["phrase"] == "next gpu-box-3 demo prepare vocab extract demo/serve" and plan["trouble"] == []
    assert plan["service"]["name"] == "demo/serve" and plan["digest"] == way.plan("generate", *CHAIN)["digest"]
    gone = way.go(plan)
    assert gone.code == 0, gone.line
    expected = [["OUTPUT", "generate"], ["STAGE", "prepare"], ["STAGE", "vocab"]]
    expected += [[step, "extract"] for step in ("PREFLIGHT", "HOLDERS", "STOP_SERVER", "FREE", "PREFLIGHT_GPU", "LAUNCH", "FIRST_UNIT")]
    assert gone.told == [[*one, "proven"] for one in expected]
    assert gone.receipt["verified"] is True and gone.receipt["stopped_at"] is None
    assert gone.receipt["free"]["line"] == "FREE: 0 MiB on 8/8"
    assert way.live("extract") == "RUNNING" and way.live("serve") == "STOPPED"
    assert gone.line == "extract: 1 new sample; hs_0.safetensors is whole"
    assert way.notes("serve got") == ["serve got SIGTERM"]
    assert way.notes("preflight") == [f"preflight extract --{part}" for part in ("versions", "versions", "no-gpu", "gpu-only")]
    spec = read_json(layout.attempt_dir(str(way.run_dir), "extract", gone.receipt["launched"]["extract"]) + "/spec.json") or {}
    assert spec["gpus"]["line"] == "FREE: 0 MiB on 8/8" and spec["by"].startswith("tester, transition ")
    assert [one["what"] for one in way.audit() if one["what"].startswith("trans")] == ["transition", "transition result"]
    assert not way.locked()


def test_every_step_is_told_before_it_acts(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    gone = way.go(way.plan("vocab", "extract"))
    assert gone.code == 0, gone.line
    launched = next(one for one in gone.events if one["kind"] == "step" and one["step"] == "LAUNCH" and one["begins"])
    assert launched["attempt"] == gone.receipt["launched"]["extract"]
    spec = read_json(layout.attempt_dir(str(way.run_dir), "extract", launched["attempt"]) + "/spec.json") or {}
    assert launched["boot_s"] < spec["boot_s"]
    stop = next(one for one in gone.events if one["kind"] == "step" and one["step"] == "STOP_SERVER" and one["begins"])
    ended = next(one for one in gone.events if one["kind"] == "step" and one["step"] == "FREE" and one["begins"])
    assert stop["boot_s"] < ended["boot_s"] < launched["boot_s"]


def test_an_output_that_is_not_verified_stops_it_before_anything(way: Way) -> None:
    way.steer("generate.fail")
    way.host.wait_state(way.start("generate"), "FAILED")
    way.serve()
    plan = way.plan("generate", *CHAIN)
    assert "generate is FAILED" in plan["trouble"][0]
    gone = way.go(plan)
    assert (gone.code, gone.where, way.live("serve"), way.live("prepare")) == (1, "OUTPUT", "RUNNING", "")
    assert gone.line.startswith("stopped at OUTPUT: generate is FAILED")


def test_an_outdated_output_is_not_proven(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.finish("generate")  # again: the others are made of an earlier one now
    gone = way.go(way.plan("vocab", "extract"))
    assert (gone.code, gone.where) == (1, "OUTPUT") and "made of another output of generate" in gone.line


def test_a_failed_preflight_keeps_the_server(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    bad = {"check": "disk", "ok": False, "evidence": "3 GB free, 900 GB needed", "what_to_do": "free 897 GB", "gpu": False}
    way.steer("preflight-extract--no-gpu.json", [bad])
    gone = way.go(way.plan("vocab", "extract"))
    assert (gone.code, gone.where, way.live("serve")) == (1, "PREFLIGHT", "RUNNING")
    assert gone.line == "stopped at PREFLIGHT: disk: 3 GB free, 900 GB needed; free 897 GB"
    way.steer("preflight-extract--no-gpu.json", [{**bad, "ok": None, "evidence": "cannot be read"}])
    assert way.go(way.plan("vocab", "extract")).code == 3
    overridden = way.go(way.plan("vocab", "extract"), override="the disk grows")
    assert overridden.code == 0, overridden.line
    assert overridden.receipt["steps"][1]["line"].startswith("overridden (the disk grows): disk: cannot be read")
    assert [one["override"] for one in way.audit() if one["what"] == "transition"] == [None, None, "the disk grows"]


def test_a_strange_holder_stops_it_with_an_alert_while_the_server_runs(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    (stranger,) = way.box.hold(gpus="4")
    gone = way.go(way.plan("vocab", "extract"))
    assert (gone.code, gone.where, way.live("serve")) == (11, "HOLDERS", "RUNNING")
    assert gone.receipt["alert"].startswith(f"held by {stranger} ") and "nothing of theirs is touched" in gone.line
    assert way.box.lives(stranger) and not way.locked()


def test_a_holder_that_comes_while_the_server_stops_is_not_touched_and_the_next_one_resumes(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    way.box.hold("later", gpus="6", wait_for=str(way.box.root / "go"))

    def appear() -> None:
        (way.box.root / "go").touch()
        way.box.told(way.box.processes[-1])

    gone = way.go(way.plan("vocab", "extract"), during={"STOP_SERVER": appear})
    newcomer = way.box.pids[-1]
    assert gone.code == 11 and gone.where in ("FREE", "LAUNCH") and way.box.lives(newcomer)
    assert str(newcomer) in gone.receipt["alert"] and way.live("extract") == ""
    way.box.processes[-1].kill()
    way.box.processes[-1].wait()
    again = way.go(way.plan("vocab", "extract"))
    assert again.code == 0, again.line
    assert "STOP_SERVER" not in [step for step, _, _ in again.told], "it has stopped: there is nothing left to confirm"
    assert way.live("extract") == "RUNNING" and len(way.notes("serve got")) == 1


def test_a_holder_that_comes_after_they_were_verified_free_stops_it_before_the_launch(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.steer("preflight--gpu-only.wait")

    def appear() -> None:
        way.box.hold(gpus="6")
        way.unsteer("preflight--gpu-only.wait")

    gone = way.go(way.plan("vocab", "extract"), during={"PREFLIGHT_GPU": appear})
    (newcomer,) = way.box.pids
    assert (gone.code, gone.where, way.live("extract")) == (11, "LAUNCH", "")
    assert f"held by {newcomer} " in gone.receipt["alert"] and way.box.lives(newcomer)


def test_memory_that_stays_is_told_and_once_it_is_gone_it_goes_on(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    way.box.order("linger_ms 600000")
    short = TIMES._replace(free=TIMES.free._replace(release_s=0.5))
    gone = way.go(way.plan("vocab", "extract"), times=short)
    assert (gone.code, gone.where, way.live("extract")) == (11, "FREE", "")
    assert "80000 MiB that no process seen here holds" in gone.line and "NOT FREE" in gone.line
    way.box.order("linger_ms 0")
    again = way.go(way.plan("vocab", "extract"))
    assert again.code == 0, again.line
    assert way.live("extract") == "RUNNING"


def test_an_idle_baseline_stops_it_until_it_is_accepted_and_is_never_called_zero(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the SIMULATED GPUs, where nobody is out of sight: else no GPU is provably idle in a container."""
    monkeypatch.delenv("LD_LIBRARY_PATH")
    monkeypatch.setenv("EAGLEWATCH_NVML", nvml_fakes.in_python(way.box.state)["EAGLEWATCH_NVML"])
    text = way.box.state.read_text()
    idle = "gpu 6 GPU-SIMULATED-0006 97253 600 "
    way.box.state.write_text(text.replace(idle + "0\n", idle + "3\n"))
    way.box.nvml.restart()
    way.finish("generate", "prepare", "vocab")
    short = TIMES._replace(free=TIMES.free._replace(release_s=0.3))
    gone = way.go(way.plan("vocab", "extract"), times=short)
    assert (gone.code, gone.where) == (10, "FREE") and "GPU 6 NOT FREE: idle baseline 3 MiB, no holder found" in gone.line
    shown = {uuid: one["bytes"] for uuid, one in baseline.load(str(way.host.data_dir)).items()}
    baseline.accept(str(way.host.data_dir), {"run": RUN, "gpus": shown, "by": "tester"})
    again = way.go(way.plan("vocab", "extract"), times=short)
    assert again.code == 0, again.line
    assert not [one for one in again.events if one["kind"] == "error"], "nothing failed"
    accepted = "baseline accepted: 0,0,0,0,0,0,3,0 MiB, no holder"
    assert [one["line"].split(";")[0] for one in again.receipt["steps"] if one["step"] in ("FREE", "LAUNCH")] == [accepted] * 2


def test_what_an_ended_attempt_of_this_run_left_is_ended_and_only_that(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    way.finish("generate", "prepare", "vocab")
    attempt = Path(way.serve()).name
    stop.request_stop(layout.attempt_dir(str(way.run_dir), "serve", attempt), "t", None, str(way.host.code_dir), way.host.python)
    wait_for(lambda: way.live("serve") == "STOPPED", "the server's end")
    monkeypatch.setenv(procs.COOKIE, attempt)
    (left,) = way.box.hold(gpus="0,3")
    monkeypatch.delenv(procs.COOKIE)
    gone = way.go(way.plan("vocab", "extract"))
    assert gone.code == 0, gone.line
    assert not running(left)
    assert [(one["pid"], one["ended"]) for one in gone.receipt["free"]["processes"]] == [(left, "SIGTERM")]


def test_a_stage_between_that_fails_keeps_the_server_and_is_run_again_by_the_next(way: Way) -> None:
    way.finish("generate")
    way.serve()
    way.steer("vocab.fail")
    gone = way.go(way.plan("generate", *CHAIN))
    assert (gone.code, gone.where, way.live("serve")) == (1, "STAGE", "RUNNING") and gone.told[-1][1] == "vocab"
    way.unsteer("vocab.fail")
    again = way.go(way.plan("generate", *CHAIN))
    assert again.code == 0, again.line
    assert len(way.notes("prepare ")) == 1 and len(way.notes("vocab ")) == 2
