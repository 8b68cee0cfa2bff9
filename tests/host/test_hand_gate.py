"""A stage that is started by hand passes the same gate: its GPUs verified free, or a reason that is logged; nothing is claimed else."""

import argparse
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from freeing_runs import Box
from made_attempts import Made

from pipeline import gpus_used, hand_gate, settings
from pipeline.__main__ import main
from pipeline.attempt import Attempt, enter
from pipeline.contract import layout
from pipeline.errors import StageError, UserError
from pipeline.host import gpu_claim, locks
from pipeline.host.errors import RequestError

pytestmark = pytest.mark.usefixtures("outside_of_attempts")
UUIDS = [f"GPU-SIMULATED-{index:04d}" for index in range(8)]


@pytest.fixture(autouse=True)
def no_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EAGLEWATCH_REHEARSAL", gpus_used.VISIBLE):
        monkeypatch.delenv(name, raising=False)


def resolved(**sections: dict[str, Any]) -> settings.Settings:
    return settings.convert({"model": {"path": "/nonexistent"}, **sections}, settings.Settings, "test")


def given(**options: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"verify": False, "override_gpus": None, **options})


def entered(run_dir: Path, stage: str = "extract", **options: Any) -> dict[str, Any]:
    """The evidence in the spec of an attempt that was started by hand, and has ended."""
    with enter(str(run_dir), stage, [], gate=hand_gate.of(stage, resolved(), str(run_dir), given(**options))) as attempt:
        return spec(attempt)["gpus"]


def spec(attempt: Attempt) -> dict[str, Any]:
    return json.loads((Path(attempt.directory) / layout.SPEC).read_text())


def claimed(run_dir: Path, stage: str = "extract") -> list[str]:
    return layout.attempts(str(run_dir), stage)


def test_free_gpus_are_in_the_spec_and_others_find_them_taken(box: Box, run_dir: Path, data_dir: Path) -> None:
    with enter(str(run_dir), "extract", [], gate=hand_gate.of("extract", resolved(), str(run_dir), given())) as attempt:
        told = spec(attempt)["gpus"]
        assert (told["free"], told["line"], told["expected_gpus"]) == (True, "FREE: 0 MiB on 8/8", 8)
        assert len(told["gpus"]) == 8 and told["took_s"] > 4, "five readings, a second apart"
        assert not locks.is_held(str(data_dir / layout.GPUS_LOCK)), "held for the moment of the claim only"
        request = {"run": "another", "stage": "serve", "attempt": layout.new_attempt_id()}
        with pytest.raises(RequestError, match=f"extract of run demo is LAUNCHING .attempt {attempt.id}, by hand: "):
            gpu_claim.check_taken(str(data_dir), {"wanted": [], "override": None}, request)


def test_a_holder_is_named_and_nothing_is_claimed(box: Box, run_dir: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pid,) = box.hold(gpus="5")
    assert main(["extract", "--run", str(run_dir)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"GPU 5 NOT FREE: 81024 MiB; held by {pid} " in said and "--override-gpus REASON" in said
    assert claimed(run_dir) == [] and not (data_dir / layout.AUDIT).exists() and box.lives(pid)

    told = entered(run_dir, override_gpus="the holder is mine")
    assert (told["free"], told["override"]) == (False, "the holder is mine") and str(pid) in told["line"]
    (line,) = [json.loads(one) for one in (data_dir / layout.AUDIT).read_text().splitlines()]
    assert (line["what"], line["run"], line["stage"], line["reason"]) == ("override", "demo", "extract", "the holder is mine")
    assert line["by"].startswith("hand: ") and str(pid) in line["line"] and [line["attempt"]] == claimed(run_dir)


@pytest.mark.parametrize("how", ["link", "link to a link", "link above"])
def test_a_link_to_the_run_is_the_same_run(how: str, box: Box, run_dir: Path, data_dir: Path, tmp_path: Path) -> None:
    """Its server has no memory on the GPUs yet: only who looks at the stages of the run finds it."""
    Made(run_dir, stage="serve").ident()
    link = tmp_path / "mine"
    link.symlink_to(data_dir / "runs" if how == "link above" else run_dir)
    if how == "link to a link":
        link = tmp_path / "mine too"
        link.symlink_to("mine")
    with pytest.raises(UserError, match="extract needs its GPUs for itself: serve of run demo is "):
        entered(link / run_dir.name if how == "link above" else link)


def test_a_run_that_lies_elsewhere_through_a_link_in_its_place_is_that_run(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (data_dir / "runs").mkdir()
    (data_dir / "runs" / "demo").symlink_to(tmp_path / "big")
    (tmp_path / "mine").symlink_to(data_dir / "runs" / "demo")
    places = [hand_gate._place(str(one)) for one in (tmp_path / "mine", data_dir / "runs" / "demo", tmp_path / "big")]
    assert places == [(str(data_dir), "demo"), (str(data_dir), "demo"), (None, None)]


def test_only_the_gpus_that_are_named_by_uuid_are_judged(box: Box, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uuids = [one["uuid"] for one in box.plan()["gpus"]]
    box.hold(gpus="0")
    monkeypatch.setenv(gpus_used.VISIBLE, f"{uuids[1]},{uuids[2]}")
    told = entered(run_dir)
    assert (told["free"], told["line"], told["wanted"]) == (True, "FREE: 0 MiB on 2/2", uuids[1:3])
    monkeypatch.setenv(gpus_used.VISIBLE, "1,2")  # whose order is CUDA's own
    with pytest.raises(UserError, match=r"GPU 0 NOT FREE.*name them by UUID in CUDA_VISIBLE_DEVICES"):
        entered(run_dir)


def test_what_cannot_be_read_cannot_be_told_and_only_an_override_lets_it_through(
    box: Box, run_dir: Path, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", nvml_fakes.broken_library(tmp_path / "broken")["LD_LIBRARY_PATH"])
    with pytest.raises(hand_gate.CannotTellError, match="extract needs its GPUs verified free: CANNOT TELL: ") as caught:
        entered(run_dir)
    assert caught.value.exit_code == 3 and claimed(run_dir) == []
    (data_dir / layout.AUDIT).mkdir()
    with pytest.raises(StageError, match=r"cannot be recorded.*it is not done"):
        entered(run_dir, override_gpus="because")
    assert claimed(run_dir) == []
    (data_dir / layout.AUDIT).rmdir()
    told = entered(run_dir, override_gpus="because")
    assert (told["free"], told["expected_gpus"]) == (False, None), "not 0, which says that it uses none"


def test_of_two_by_hand_in_different_runs_at_once_only_one_gets_them(box: Box, run_dir: Path, data_dir: Path) -> None:
    other = Path(layout.run_dir(str(data_dir), "other"))
    other.mkdir()
    ends: list[str] = []
    over = threading.Barrier(2)

    def start(run: Path, stage: str) -> None:
        try:
            with enter(str(run), stage, [], gate=hand_gate.of(stage, resolved(), str(run), given())):
                ends.append("has them")
                over.wait(60)
        except UserError as error:
            ends.append(str(error))
            over.wait(60)

    threads = [threading.Thread(target=start, args=one) for one in ((run_dir, "extract"), (other, "serve"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len(ends) == 2 and ends.count("has them") == 1
    (refused,) = [one for one in ends if one != "has them"]
    assert "needs its GPUs for itself: " in refused and "stop that first" in refused
    assert len(claimed(run_dir) + claimed(other, "serve")) == 1


CPU = {"extract": {"device": "cpu"}}
OURS = {"serve": {"program": ["python", "-m", "pipeline.rehearsal.openai_server"]}}
FOREIGN = {"serve": {"program": ["other-server"], "env": {gpus_used.VISIBLE: UUIDS[3]}}}


@pytest.mark.parametrize(
    ("stage", "sections", "options", "visible", "why_none", "wanted"),
    [
        ("extract", {}, {}, None, "", ()),
        ("extract", CPU, {}, None, "extract.device is cpu", ()),
        ("extract", {}, {"verify": True}, None, "--verify only reads files again", ()),
        ("extract", {}, {}, "", "CUDA_VISIBLE_DEVICES= lets it see no GPU", ()),
        ("extract", {}, {}, "-1", "CUDA_VISIBLE_DEVICES=-1 lets it see no GPU", ()),
        ("extract", {}, {}, f"{UUIDS[1]}, {UUIDS[2]}", "", (UUIDS[1], UUIDS[2])),
        ("extract", {}, {}, f"{UUIDS[1]},2", "", ()),
        ("serve", CPU, {}, None, "", ()),
        ("serve", OURS, {}, None, "the rehearsal's server works on the processor", ()),
        ("serve", FOREIGN, {}, "", "", (UUIDS[3],)),
    ],
)
def test_which_gpus_a_start_uses(
    stage: str,
    sections: dict[str, Any],
    options: dict[str, Any],
    visible: str | None,
    why_none: str,
    wanted: tuple[str, ...],
    box: Box,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if visible is not None:
        monkeypatch.setenv(gpus_used.VISIBLE, visible)
    assert gpus_used.by(stage, resolved(**sections), given(**options)) == (why_none, wanted)


def test_without_any_driver_there_is_nothing_to_verify_and_the_spec_says_so(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_library(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(gpus_used.ctypes, "CDLL", no_library)
    monkeypatch.setenv("EAGLEWATCH_DEV", str(tmp_path / "dev"))
    (tmp_path / "dev").mkdir()
    told = entered(run_dir, override_gpus="because")
    assert (told["free"], told["expected_gpus"], told["override"]) == (None, 0, None)
    assert told["line"].startswith("it uses no GPU: there is no NVIDIA driver here") and told["line"].endswith("nothing was verified")
    assert "note: --override-gpus has nothing to override" in capsys.readouterr().out
    (tmp_path / "dev" / "nvidiactl").touch()
    with pytest.raises(hand_gate.CannotTellError):
        entered(run_dir)
    used: Callable[..., Any] = gpus_used.by
    assert used("generate", resolved(), given()) is None and used("prepare", resolved(), given()) is None
