"""Whether an output is still of the present inputs and settings, from manifests alone."""

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline import settings
from pipeline.contract import lineage
from pipeline.contract.files import write_json

PLACES = {
    "generate": "data/generated/eaglewatch.json",
    "prepare": "data/prepared/eaglewatch.json",
    "vocab": "data/vocab/eaglewatch.json",
    "extract": "data/hidden_states/data_config.json",
}


def publish(run: Path, stage: str, **changes: Any) -> None:
    value: dict[str, Any] = {"complete": True, "fingerprint": f"{stage}-1", "settings": {}, "inputs": {}}
    if stage == "extract":
        value = {"complete": True, "data": {"fingerprint": "prepare-1", "max_length_tokens": 4096}, "hidden_states": {}}
    else:
        value["inputs"] = {source: f"{source}-1" for source in lineage.OUTPUTS[stage].inputs}
    path = run / PLACES[stage]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(str(path), {**value, **changes}, durable=False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for stage in PLACES:
        publish(tmp_path, stage)
    return tmp_path


def resolved(*changes: str) -> dict[str, Any]:
    return settings.to_json(settings.parse('[model]\npath = "/m"\n', "run.toml", list(changes)))


def outdated(run: Path, *changes: str) -> dict[str, str | None]:
    return lineage.outdated(str(run), resolved(*changes))


def test_a_whole_pipeline_is_up_to_date(run: Path) -> None:
    assert outdated(run) == dict.fromkeys(PLACES)


def test_another_input_reaches_everything_after_it(run: Path) -> None:
    publish(run, "generate", fingerprint="generate-2")
    found = outdated(run)
    assert found["generate"] is None
    assert found["prepare"] == "made of another output of generate than the present one"
    for stage in ("vocab", "extract"):
        assert str(found[stage]).startswith("made of prepare, which is outdated itself: made of another output of generate")


def test_a_changed_setting_is_named_with_both_values(run: Path) -> None:
    publish(run, "prepare", settings={"prepare.max_length_tokens": 4096, "prepare.mismatched": "keep"})
    assert outdated(run)["prepare"] is None
    assert outdated(run, "prepare.max_length_tokens=64")["prepare"] == "prepare.max_length_tokens was 4096, it is 64 now"
    publish(run, "vocab", settings={"vocab.coverage_sizes": [16000, 32000, 64000]})
    assert outdated(run)["vocab"] is None, "a list is a list, whichever way the settings were read"
    assert "vocab.coverage_sizes was" in str(outdated(run, "vocab.coverage_sizes=[2]")["vocab"])


def test_the_extraction_is_judged_by_its_own_manifest(run: Path) -> None:
    publish(run, "prepare", fingerprint="prepare-2")
    assert outdated(run)["extract"] == "made of another output of prepare than the present one"
    assert outdated(run, "extract.data=/elsewhere")["extract"] is None, "data that no stage of this run made"
    assert "extract.max_length_tokens was 4096" in str(outdated(run, "extract.max_length_tokens=8", "extract.data=/elsewhere")["extract"])


def test_an_input_that_is_not_complete_now_makes_outdated(run: Path) -> None:
    publish(run, "generate", complete=False)
    assert outdated(run)["prepare"] == "made of an earlier output of generate, which is not complete now"


@pytest.mark.parametrize("value", [{}, {"inputs": []}, {"inputs": {"generate": 7}}, {"settings": [1], "inputs": {"generate": None}}])
def test_a_manifest_that_does_not_say_never_looks_better(run: Path, value: dict[str, Any]) -> None:
    write_json(str(run / PLACES["prepare"]), {"complete": True, "fingerprint": "prepare-1", **value}, durable=False)
    assert outdated(run)["prepare"] == "it does not say of which output of generate it was made"


def test_what_is_gone_or_damaged_is_not_usable(run: Path) -> None:
    present = resolved()

    def why(stage: str) -> str | None:
        return lineage.why_not_usable(str(run), stage, present, lineage.outdated(str(run), present))

    assert [why(stage) for stage in ("serve", *PLACES)] == [None] * 5
    (run / PLACES["vocab"]).write_text("{")
    assert "cannot be read" in str(why("vocab"))
    os.unlink(run / PLACES["vocab"])
    assert "is gone" in str(why("vocab"))
