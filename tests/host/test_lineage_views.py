"""What the agent tells of outdated outputs: of stages that are done, from manifests that hold anything at all, cheaply."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from agent_client import AgentClient
from host_launches import wait_for
from made_attempts import Made

from pipeline.contract import files, layout, lineage, source_files
from pipeline.host import filecache, source_looks
from pipeline.host.consoles import Register
from pipeline.host.control import Control
from pipeline.host.frames import Frames

SECTIONS = {"generate": "data/generated", "prepare": "data/prepared", "vocab": "data/vocab", "extract": "data/hidden_states"}


class Output:
    """A stage that is done, with its manifest."""

    def __init__(self, run_dir: Path, stage: str, **manifest: Any):
        self.attempt = Made(run_dir, stage + "-1", stage=stage).ended_ident().exit(0)
        self.attempt.put(layout.RECEIPT, verified=True, attempt=self.attempt.name)
        self.path = run_dir / SECTIONS[stage] / lineage.OUTPUTS[stage].manifest
        self.path.parent.mkdir(parents=True, exist_ok=True)
        base = {"complete": True, "fingerprint": stage + "-a", "settings": {}}
        inputs = {source: source + "-a" for source in lineage.OUTPUTS[stage].inputs}
        self.value = {**base, "inputs": inputs, "data": {"fingerprint": "prepare-a", "max_length_tokens": 64}, **manifest}
        self.publish()

    def publish(self, **changes: Any) -> None:
        self.value.update(changes)
        files.write_json(str(self.path), self.value)


class FakeNvml:
    def view(self) -> tuple[dict[str, Any], None]:
        return {"state": "starting"}, None


@pytest.fixture
def settings(run_dir: Path) -> dict[str, Any]:
    value: dict[str, Any] = {stage: {"output": output} for stage, output in SECTIONS.items()}
    value["extract"].update(data="data/prepared", max_length_tokens=64, layer_ids=None)
    value["prepare"]["max_length_tokens"] = 64
    (run_dir / "settings.json").write_text(json.dumps(value))
    return value


@pytest.fixture
def outputs(run_dir: Path, settings: dict[str, Any]) -> dict[str, Output]:
    return {stage: Output(run_dir, stage) for stage in SECTIONS}


@pytest.fixture
def frames(data_dir: Path) -> Frames:
    return Frames(str(data_dir), "abc", FakeNvml(), Register(str(data_dir), "abc"), Control(str(data_dir)))  # type: ignore[arg-type]


def told(frames: Frames) -> dict[str, "str | None"]:
    frame = frames.build("demo", None, {})
    assert "broken" not in frame, frame["broken"]
    return {stage: view["outdated"] for stage, view in frame["stages"].items()}


def test_only_what_is_done_is_outdated(frames: Frames, outputs: dict[str, Output], run_dir: Path, settings: dict[str, Any]) -> None:
    assert told(frames) == dict.fromkeys(SECTIONS)
    settings["prepare"]["max_length_tokens"] = 32
    (run_dir / "settings.json").write_text(json.dumps(settings))
    assert told(frames) == dict.fromkeys(SECTIONS)  # no manifest says that it was made with it
    outputs["prepare"].publish(settings={"prepare.max_length_tokens": 64})
    found = told(frames)
    assert found["prepare"] == "prepare.max_length_tokens was 64, it is 32 now" and found["generate"] is None
    assert found["vocab"] == found["extract"] == "made of prepare, which is outdated itself: prepare.max_length_tokens was 64, it is 32 now"
    outputs["extract"].attempt.exit(1)
    assert told(frames)["extract"] is None


def test_an_output_that_is_gone_or_damaged_is_told(frames: Frames, outputs: dict[str, Output]) -> None:
    outputs["generate"].path.write_text("{torn")
    outputs["prepare"].path.unlink()
    found = told(frames)
    assert str(found["generate"]).endswith("data/generated/eaglewatch.json cannot be read")
    assert "data/prepared/eaglewatch.json is gone" in str(found["prepare"])
    assert (found["vocab"], found["extract"]) == (None, None)  # what they were made of is nothing to compare with


def test_what_a_refused_launch_left_incomplete_is_outdated(frames: Frames, outputs: dict[str, Output], run_dir: Path) -> None:
    Made(run_dir, "generate-2", 1_800_000_100.0, stage="generate").ended_ident().exit(2)
    assert told(frames)["generate"] is None
    outputs["generate"].publish(complete=False, attempt="another")
    assert told(frames)["generate"] is None  # by a --limit, say; whoever needs it is told then
    outputs["generate"].publish(attempt="generate-2")
    assert "generate-2) began to change it and was refused: exit code 2" in str(told(frames)["generate"])


def test_settings_that_cannot_be_read_prove_nothing(frames: Frames, outputs: dict[str, Output], run_dir: Path) -> None:
    for text in ("{torn", "[]", '{"generate": 3, "prepare": {"output": ""}, "vocab": {"output": ["x"]}}'):
        (run_dir / "settings.json").write_text(text)
        assert told(frames) == dict.fromkeys(SECTIONS)
    nul = {**{stage: {"output": output} for stage, output in SECTIONS.items()}, "prepare": {"output": "a\0b"}}
    nul["extract"].update(data="c\0d", max_length_tokens=64)  # type: ignore[call-overload]
    (run_dir / "settings.json").write_text(json.dumps(nul))
    found = told(frames)
    assert str(found.pop("prepare")).endswith("is gone: what it made was moved or removed, or is elsewhere by now")
    assert set(found.values()) == {None}


def test_manifests_are_parsed_again_only_when_they_changed(
    frames: Frames, outputs: dict[str, Output], monkeypatch: pytest.MonkeyPatch
) -> None:
    told(frames)
    parsed: list[str] = []
    real = files.read_json
    monkeypatch.setattr(files, "read_json", lambda path: parsed.append(path) or real(path))
    told(frames)
    assert parsed == []
    outputs["vocab"].publish(fingerprint="vocab-b")
    told(frames)
    assert parsed == [str(outputs["vocab"].path)]


def test_a_dead_mount_stops_no_frame_and_is_unknown(
    frames: Frames, outputs: dict[str, Output], settings: dict[str, Any], run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = run_dir / "prompts.jsonl"
    prompts.write_text("one")
    settings["generate"]["prompts"] = str(prompts)
    (run_dir / "settings.json").write_text(json.dumps(settings))
    outputs["generate"].publish(sources={"prompts": source_files.describe(str(prompts))})
    assert told(frames)["generate"] is None
    # From here on every look hangs, as in a stat on a mount whose server is gone; the agent's own thread does not see it.
    monkeypatch.setattr(source_files, "changed", lambda *_: time.sleep(600))
    monkeypatch.setattr(source_looks, "EVERY_S", 0.2)
    monkeypatch.setattr(source_looks, "FIRST_WAIT_S", 0.3)
    monkeypatch.setattr(source_looks, "_looks", {})
    monkeypatch.setattr(source_looks, "_running", [])
    unknown = f"generate.prompts: unknown: {prompts} has not answered so far; is it on a mount that hangs?"
    assert told(frames)["generate"] == unknown
    began = time.monotonic()
    for _ in range(100):
        assert told(frames)["generate"] == unknown
    assert time.monotonic() - began < 100 * 0.3, "only the first answer is waited for"
    assert len(source_looks._running) == 1
    source_looks.close()
    assert source_looks._running == []


def test_an_answer_counts_for_a_while_only(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = run_dir / "prompts.jsonl"
    prompts.write_text("one")
    recorded = source_files.describe(str(prompts))
    monkeypatch.setattr(source_looks, "EVERY_S", 0.1)
    assert source_looks.changed(recorded, str(prompts)) is None
    prompts.write_text("two")
    wait_for(lambda: "has another content" in str(source_looks.changed(recorded, str(prompts))))
    prompts.write_text("one")
    wait_for(lambda: source_looks.changed(recorded, str(prompts)) is None)
    monkeypatch.setattr(source_looks, "FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(source_files, "changed", lambda *_: time.sleep(600))
    wait_for(lambda: str(source_looks.changed(recorded, str(prompts))).startswith("unknown: "))
    source_looks.close()


def test_stages_without_ledgers_count_none(frames: Frames, outputs: dict[str, Output]) -> None:
    stages = frames.build("demo", None, {})["stages"]
    for stage in ("generate", "prepare", "vocab"):
        assert (stages[stage]["ledger"], stages[stage]["directory"]) == (None, None)
    assert stages["extract"]["directory"]["files"] == 0


ODD = [
    None,
    True,
    0,
    -1.5,
    "",
    "a\0b",
    "prepare-a",
    [],
    [[]],
    {},
    {"generate": 1},
    {"prepare": ["x"]},
    {"data": 3},
    {"a.b": {"c": "d" * 500}},
]


@pytest.mark.parametrize("seed", range(3))
def test_hostile_manifests_and_settings_raise_nothing_and_never_look_better(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    resolved = {stage: {"output": output, "data": "data/prepared", "layer_ids": None} for stage, output in SECTIONS.items()}
    for _ in range(300):
        manifests: dict[str, Any] = {}
        for stage in SECTIONS:
            value = {"complete": True, "fingerprint": stage, "inputs": {}, "settings": {}, "data": {"fingerprint": "prepare"}}
            value["inputs"] = {source: source for source in lineage.OUTPUTS[stage].inputs}
            for key in dice.sample(sorted(value), dice.randrange(3)):
                value[key] = dice.choice(ODD)
            manifests[str(tmp_path / SECTIONS[stage] / lineage.OUTPUTS[stage].manifest)] = value
        changed = {**resolved, dice.choice(list(SECTIONS)): dice.choice([*ODD, *resolved.values()])} if dice.random() < 0.5 else resolved
        found = lineage.outdated(str(tmp_path), changed, manifests.get)
        for stage, why in found.items():
            assert why is None or (isinstance(why, str) and len(why) < 1000)
            value = manifests[str(tmp_path / SECTIONS[stage] / lineage.OUTPUTS[stage].manifest)]
            used = value["data"] if stage == "extract" else value["inputs"]
            if stage == "prepare" and "generate" in found and (not isinstance(used, dict) or used.get("generate") != "generate"):
                assert why is not None, value


def test_a_manifest_of_another_size_or_depth_is_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "eaglewatch.json"
    for text in ("[" * 5000, '{"a":' * 100 + "1" + "}" * 100, '{"a": "' + "x" * filecache.MAX_BYTES + '"}'):
        path.write_text(text)
        assert filecache.read_json(str(path)) is None
    assert filecache.read_json(str(tmp_path / "a\0b")) is None


def test_through_the_agent_and_small(agent: AgentClient, outputs: dict[str, Output]) -> None:
    outputs["generate"].publish(fingerprint="another")
    agent.ask("watch", run="demo", interval_s=0.2)
    frame = agent.frame_where(lambda frame: frame["nvml"]["state"] == "ok")
    assert frame["stages"]["prepare"]["outdated"] == "made of another output of generate than the present one"
    assert frame["servers"] is not None and frame["servers_boot_s"] <= frame["boot_s"] and frame["servers_unseen"] is None
    assert len(json.dumps(frame)) < 30_000
