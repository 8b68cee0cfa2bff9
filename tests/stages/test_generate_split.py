"""What is held out and what a limit leaves out: the manifest says what was done, whoever asked for it."""

import resource
from pathlib import Path
from typing import Any

import pytest
from generate_runs import answered, generate, make_run, manifest, newest, numbered, write_prompts

from pipeline import settings
from pipeline.contract import lineage
from pipeline.errors import StageError
from pipeline.generation.choice import Answered, choose
from pipeline.generation.prompts import own_id
from tests.fakes.openai_server import FakeServer

ROWS = numbered(12)


def outdated(run: Path, *changes: str) -> str | None:
    return lineage.outdated(str(run), settings.to_json(settings.load(str(run / "settings.toml"), list(changes))))["generate"]


def held_out(run: Path) -> tuple[Any, Any, Any]:
    """What the manifest says: by its settings, by its totals, and whether all of it is there."""
    found = manifest(run)
    return found["settings"]["generate.greedy_holdout"], found["totals"]["holdout"], found["complete"]


def test_the_manifest_says_how_many_are_held_out_whoever_asked(chat_verifier: Path, server: FakeServer, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, max_prompts=3)
    assert generate(run, "--greedy-holdout", "4") == 0 and held_out(run) == (4, 4, True)
    assert outdated(run) is None and outdated(run, "generate.greedy_holdout=4") is None
    assert outdated(run, "generate.greedy_holdout=6") == "generate.greedy_holdout was 4, it is 6 now"
    before = sorted(answered(run, "holdout.jsonl"))
    for again in ((), ("--verify",), ("--greedy-holdout", "2")):
        assert generate(run, *again) == 0 and held_out(run) == (4, 4, True), "what was held out once stays so"
        assert newest(run, "receipt.json")["planned_samples"] == 7
    assert sorted(answered(run, "holdout.jsonl")) == before and set(server.asked.values()) == {1}
    assert generate(run, "--set", "generate.greedy_holdout=6") == 0 and held_out(run) == (6, 6, True)
    assert set(before) < set(answered(run, "holdout.jsonl"))


def test_prompts_that_are_gone_are_told_as_such_though_some_were_held_out(
    chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS[:4], greedy_holdout=2)
    assert generate(run) == 0
    gone = answered(run, "holdout.jsonl")[0]
    write_prompts(run / "prompts.jsonl", [row for row in ROWS[:4] if row["id"] != gone])
    capsys.readouterr()
    assert generate(run, "--override", "x") == 2
    assert f"{gone!r} is not among them" in capsys.readouterr().err


@pytest.mark.parametrize(("most", "limit", "complete"), [(5, 5, True), (4, 5, True), (6, 5, False), (None, 5, False), (None, 20, True)])
def test_a_limit_that_leaves_nothing_out_leaves_a_whole_output(
    most: int | None, limit: int, complete: bool, chat_verifier: Path, server: FakeServer, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, ROWS, **({} if most is None else {"max_prompts": most}))
    assert generate(run, "--limit", str(limit)) == 0 and manifest(run)["complete"] is complete
    assert (newest(run, "receipt.json")["limit"] is None) is complete


def test_a_full_disk_is_told_while_prompts_are_put_aside(tmp_path: Path) -> None:
    """Small ones wait in the file's buffer till the end."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(StageError, match="the prompts cannot be kept: File too large"):
            choose(enumerate(ROWS, 1), str(tmp_path), None, 0, 0, Answered(frozenset(), frozenset()))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["a\nb", "a\0train", "\x1b[2J", "\x7f", "a\t"])
def test_an_id_with_control_characters_is_not_used(name: str) -> None:
    """``a NUL train NUL hash LF`` is a line of the fingerprint; two sets of answers would share one."""
    assert own_id({"id": name}) is None and own_id({"id": f"é 光 {len(name)}"}) is not None
