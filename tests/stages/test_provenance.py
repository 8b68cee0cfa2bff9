"""What an attempt ran with is on record, and input that is not good enough ends it, unless that is overridden with a reason."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from extract_runs import ROOT, environment, make_rows, make_run, save_rows

from pipeline import inputs, settings
from pipeline.__main__ import main
from pipeline.attempt import Attempt, enter
from pipeline.checks_model import check_model
from pipeline.contract import layout, lineage
from pipeline.contract.files import read_json, write_json
from pipeline.errors import StageError, UserError
from pipeline.provenance import Verifier

ROWS = make_rows(4, 20)


@pytest.fixture
def run(tmp_path: Path, llama: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in a data directory, with nothing made yet."""
    for name in [name for name in os.environ if name.startswith("EAGLEWATCH_")]:
        monkeypatch.delenv(name)
    made = make_run(tmp_path / "runs" / "r", llama, None)
    text = (made / "settings.toml").read_text().replace('[prepare]\noutput = "data/nowhere"\n', "")
    (made / "settings.toml").write_text(text)
    return made


def manifest(run: Path, stage: str, /, **changes: Any) -> None:
    """What a stage says of its output in the default place."""
    directory = run / {"generate": "data/generated", "prepare": "data/prepared"}[stage]
    directory.mkdir(parents=True, exist_ok=True)
    value = {"format": lineage.FORMAT, "format_version": 1, "stage": stage, "attempt": "a", "complete": True, "fingerprint": f"{stage}-1"}
    totals = {}
    if stage == "prepare":
        name = f"data-{hashlib.sha256(b'rows').hexdigest()[:16]}.arrow"
        (directory / name).write_bytes(b"rows")
        write_json(str(directory / "state.json"), {"_data_files": [{"filename": name}]})
        write_json(str(directory / "dataset_info.json"), {})
        sums = "".join(
            f"{one} {hashlib.sha256((directory / one).read_bytes()).hexdigest()}\n" for one in (name, "state.json", "dataset_info.json")
        )
        totals["rows_sha256"] = hashlib.sha256(sums.encode()).hexdigest()  # as docs/files.md says
    else:
        totals["answered"] = 4
        model = settings.load(str(run / "settings.toml")).model.path
    inputs = {"generate": "generate-1"} if stage == "prepare" else {"model": check_model(model).fingerprint}
    value.update(inputs=inputs, settings={}, sources={}, totals=totals, created_wall_s=1.0, made_with={})
    write_json(str(directory / lineage.NAME), {**value, **changes})


def check(run: Path, stage: str, override: str | None = None, *changes: str) -> Attempt:
    resolved = settings.load(str(run / "settings.toml"), list(changes))
    with enter(str(run), stage, []) as attempt:
        inputs.check(attempt, resolved, str(run), override, Verifier(resolved, str(run)))
        attempt.receipt({"verified": True, "bad": 0})
    return attempt


@pytest.fixture
def answered(run: Path) -> Iterator[Path]:
    manifest(run, "generate")
    yield run


def test_good_input_is_good_and_an_override_has_nothing_to_do(answered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(answered, "prepare").overridden is None
    assert check(answered, "prepare", "just in case").overridden is None
    assert "--override has nothing to override so far" in capsys.readouterr().out


def test_what_is_not_there_cannot_be_overridden(run: Path) -> None:
    for override in (None, "I want it"):
        with pytest.raises(UserError, match=r"generate has not made data/generated yet; run generate first\Z"):
            check(run, "prepare", override)
    with pytest.raises(UserError, match="prepare has not made data/prepared yet"):
        check(run, "extract")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"complete": False, "totals": {"answered": 812, "prompts": 10_000}},
            "generate is not complete: 812 of 10,000 prompts answered; finish",
        ),
        ({"complete": False, "totals": {}}, "generate is not complete; finish it"),
        ({"settings": {"generate.seed": 7}}, "generate is outdated: generate.seed was 7, it is 0 now; run generate again"),
        ({"inputs": {"model": "f" * 64}}, "the answers are of another verifier"),
        ({"fingerprint": None}, "has no fingerprint"),
        ({"inputs": {}}, "cannot tell which verifier gave the answers"),
        ({"stage": "vocab"}, "data/generated/eaglewatch.json is of the stage 'vocab': it is not as generate wrote it; put it back"),
        ({"sources": None}, "data/generated/eaglewatch.json has no sources"),
        ({"settings": None}, "data/generated/eaglewatch.json has no settings"),
        ({"totals": {}}, r"data/generated/eaglewatch.json has no totals\.answered"),
    ],
)
def test_what_is_not_good_enough_needs_a_reason(run: Path, changes: dict[str, Any], says: str) -> None:
    manifest(run, "generate", **changes)
    with pytest.raises(UserError, match=says) as caught:
        check(run, "prepare")
    assert "or add --override REASON" in str(caught.value)
    attempt = check(run, "prepare", "a trial")
    assert attempt.overridden is not None and attempt.overridden["reason"] == "a trial" and says[:20] in attempt.overridden["what"][0]
    receipt = read_json(os.path.join(attempt.directory, layout.RECEIPT)) or {}
    assert receipt["overridden"] == attempt.overridden
    events = [json.loads(line) for line in Path(attempt.directory, layout.EVENTS).read_text().splitlines()]
    assert [(one["kind"], one["reason"]) for one in events] == [("override", "a trial")]
    audit = [json.loads(line) for line in (run.parents[1] / layout.AUDIT).read_text().splitlines()]
    assert [(one["what"], one["run"], one["stage"], one["reason"]) for one in audit] == [("override", "r", "prepare", "a trial")]
    assert audit[0]["boot_id"] and audit[0]["overridden"] == attempt.overridden["what"]


def test_an_override_of_a_run_by_a_link_to_it_is_in_the_hosts_log(run: Path, tmp_path: Path) -> None:
    manifest(run, "generate", complete=False, totals={})
    link = tmp_path / "mine"
    link.symlink_to(run)
    check(link, "prepare", "a trial")
    (audited,) = (json.loads(line) for line in (run.parents[1] / layout.AUDIT).read_text().splitlines())
    assert (audited["run"], audited["reason"]) == ("r", "a trial")


def test_a_verifier_that_cannot_be_told_now_is_not_taken_for_the_one_that_answered(answered: Path) -> None:
    with pytest.raises(UserError, match=r"cannot tell whether the one in /nowhere is the verifier that answered .*no such directory"):
        check(answered, "prepare", None, 'model.path="/nowhere"')
    manifest(answered, "generate", inputs={"model": None})
    check(answered, "prepare", None, 'model.path="/nowhere"')  # its weights were never here


def test_an_override_that_cannot_be_recorded_is_not_done(run: Path) -> None:
    manifest(run, "generate", complete=False)
    (run.parents[1] / layout.AUDIT).write_text('{"torn')  # by a full disk
    check(run, "prepare", "a trial")
    torn, line = (run.parents[1] / layout.AUDIT).read_text().splitlines()
    assert torn == '{"torn' and json.loads(line)["reason"] == "a trial"
    (run.parents[1] / layout.AUDIT).unlink()
    (run.parents[1] / layout.AUDIT).mkdir()
    with pytest.raises(StageError, match="an override that cannot be recorded is not done"):
        check(run, "prepare", "a trial")


def test_an_outdated_input_of_the_input_counts_and_so_does_a_setting_of_this_start(answered: Path) -> None:
    manifest(answered, "prepare", settings={"prepare.max_length_tokens": 4096})
    check(answered, "vocab")
    with pytest.raises(UserError, match=r"prepare is outdated: prepare\.max_length_tokens was 4096, it is 64 now"):
        check(answered, "vocab", None, "prepare.max_length_tokens=64")
    manifest(answered, "generate", fingerprint="generate-2")
    with pytest.raises(UserError, match="prepare is outdated: made of another output of generate than the present one"):
        check(answered, "extract")


def test_foreign_data_is_told_and_let_through(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = save_rows(tmp_path / "given", ROWS)
    check(run, "extract", None, f"extract.data={foreign}")
    assert f"extract.data is {foreign}, which is not this run's prepare.output: nothing is known here" in capsys.readouterr().out
    save_rows(run / "data" / "prepared", ROWS)
    with pytest.raises(UserError, match=r"data/prepared has no eaglewatch\.json"):
        check(run, "extract")


def test_the_command_refuses_before_anything_is_loaded(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest(run, "generate", complete=False, totals={"answered": 1, "prompts": 2})
    assert main(["prepare", "--run", str(run)]) == 2
    assert "generate is not complete: 1 of 2 prompts answered" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["prepare", "--run", str(run), "--override", "  "])
    assert "an override needs a reason" in capsys.readouterr().err


def test_provenance_is_written_before_the_work_for_the_attempt_and_the_run(run: Path, llama: Path) -> None:
    assert main(["extract", "--run", str(run), "--set", "extract.threads=2"]) == 2  # no data: it ends right after
    (attempt,) = (run / "stages" / "extract").glob("*-*-*")
    value = read_json(str(attempt / layout.PROVENANCE)) or {}
    assert read_json(str(run / layout.PROVENANCE)) == {"extract": value}
    assert (value["attempt"], value["stage"], value["set"], value["settings"]["extract"]["threads"]) == (
        attempt.name, "extract", ["extract.threads=2"], 2,
    )  # fmt: skip
    assert value["packages"]["torch"] and value["packages"]["transformers"] and "vllm" in value["packages"]
    assert value["model"]["fingerprint"] == Verifier(settings.load(str(run / "settings.toml")), str(run)).fingerprint
    assert value["model"]["path"] == str(llama) and value["inputs"] == {"prepare": None}
    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    assert (value["git"] or {}).get("commit", "") == head, "of the checkout that the code runs from"
    assert len(value["settings_sha256"]) == 64 and value["code"] and value["interpreter"] and value["argv"]

    # The next stage's joins it. A model that cannot be read is told, and stops only who needs it.
    (run / "settings.toml").write_text((run / "settings.toml").read_text().replace(str(llama), "/nowhere"))
    assert main(["prepare", "--run", str(run)]) == 2
    both = read_json(str(run / layout.PROVENANCE)) or {}
    assert set(both) == {"extract", "prepare"} and both["extract"] == value
    assert both["prepare"]["model"]["fingerprint"] is None and "no such directory: /nowhere" in both["prepare"]["model"]["why_not"]


def test_a_disk_that_takes_no_provenance_is_told_and_ends_nothing(run: Path) -> None:
    (run / layout.PROVENANCE).mkdir()  # the run's cannot be replaced
    command = [sys.executable, "-m", "pipeline", "extract", "--run", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(), cwd=run)
    assert "note: provenance.json is not written" in done.stdout
    assert "prepare has not made data/prepared yet" in done.stderr and "Traceback" not in done.stderr


def test_a_damaged_record_of_the_run_is_kept_under_another_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = '{"generate": {"attempt": "a"}, "prep'
    (run / layout.PROVENANCE).write_text(damaged)
    assert main(["extract", "--run", str(run)]) == 2
    (kept,) = run.glob("provenance.json.damaged-*")
    assert kept.read_text() == damaged and f"it is {kept.name} now" in capsys.readouterr().out
    assert set(read_json(str(run / layout.PROVENANCE)) or {}) == {"extract"}
