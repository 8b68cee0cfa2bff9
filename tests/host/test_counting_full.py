"""The full count on demand: every file against the ledgers, as a child that ends with its agent; and the comparison that goes on."""

import json
from pathlib import Path
from typing import Any

import pytest
from agent_client import AgentClient

from pipeline.contract.clock import boot_s
from pipeline.host import counting, counting_compare, full_count, locks, procs
from pipeline.host.counting import OutputCounter


def line(index: int, size: int = 10) -> str:
    return json.dumps({"i": index, "bytes": size, "tokens": 1, "crc32": 1}) + "\n"


def put(directory: Path, *indices: int, size: int = 10) -> None:
    for index in indices:
        (directory / f"hs_{index}.safetensors").write_bytes(bytes(size))


@pytest.fixture
def output(run_dir: Path) -> Path:
    path = run_dir / "data" / "hidden_states"
    path.mkdir(parents=True)
    return path


def test_a_full_count_names_what_does_not_agree(agent: AgentClient, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(output, *range(30))
    (output / "ledger-0.jsonl").write_text("".join(line(index) for index in range(30)))
    reply = agent.ask("count", run="demo", stage="extract", attempt=None, by="me")
    assert (reply["files"], reply["bytes"], reply["ledger"]) == (30, 300, {"files": 30, "bytes": 300})
    assert reply["missing"]["count"] == reply["extra"]["count"] == reply["sizes"]["count"] == 0
    (output / "hs_3.safetensors").unlink()
    put(output, 4, size=9)
    put(output, 31)
    found = full_count.count(str(output), lambda files: None, 0.1)
    assert found["missing"] == {"count": 1, "first": ["hs_3.safetensors"]}
    assert found["extra"] == {"count": 1, "first": ["hs_31.safetensors"]}
    assert found["sizes"] == {"count": 1, "first": [["hs_4.safetensors", 10, 9]]}


def test_a_file_whose_line_comes_while_it_counts_is_no_fault(output: Path) -> None:
    put(output, 0, 1)
    ledger = output / "ledger-0.jsonl"
    ledger.write_text(line(0))
    told: list[int] = []

    def late(files: int) -> None:
        told.append(files)
        ledger.write_text(line(0) + line(1))

    assert full_count.count(str(output), late, 5.0)["extra"]["count"] == 0 and told == [2]


def test_without_a_ledger_there_is_nothing_to_agree_with(output: Path) -> None:
    put(output, 0)
    assert full_count.count(str(output), lambda files: None, 0.1)["ledger"] is None


def test_one_a_host_and_it_ends_with_its_agent(agent: AgentClient, output: Path, data_dir: Path) -> None:
    put(output, 0)  # a file without a line: the count waits for it
    (output / "ledger-0.jsonl").write_text("")
    agent.ask("watch", run="demo", interval_s=0.2)
    agent.send("count", run="demo", stage="extract", attempt=None, by="me")
    frame = agent.frame_where(lambda frame: frame["count"] is not None and locks.is_held(str(data_dir / full_count.LOCK)))
    assert (frame["count"]["run"], frame["count"]["stage"]) == ("demo", "extract")
    assert agent.refused("count", run="demo", stage="extract", attempt=None, by="me")["kind"] == "busy"
    holder = locks.read_holder(str(data_dir / full_count.LOCK))
    assert procs.alive(holder)
    agent.close()
    assert not procs.alive(holder) and not locks.is_held(str(data_dir / full_count.LOCK))


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"run": "demo", "stage": "prepare"}, "usage", "keeps no ledger"),
    ({"run": "no", "stage": "extract"}, "missing", "no run"),
    ({"run": "demo", "stage": "extract"}, "missing", "there is no"),
    ({"run": "demo", "stage": "extract", "attempt": "none"}, "missing", "no attempt none"),
]


def test_what_cannot_be_counted_is_refused(agent: AgentClient, run_dir: Path) -> None:
    for fields, kind, words in REFUSED:
        error = agent.refused("count", **fields)
        assert error["kind"] == kind and words in error["message"], error


def disagreement(counter: OutputCounter) -> tuple[Any, Any]:
    _, directory = counter.poll()
    assert directory is not None
    return directory["ledger_not_in_directory"], directory["directory_not_in_ledger"]


def test_ledger_and_directory_are_compared_and_nothing_flickers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_RESCAN_S", 0.0)
    monkeypatch.setattr(counting, "_RESCAN_COST", 0)
    now = [boot_s()]
    monkeypatch.setattr(counting_compare, "boot_s", lambda: now[0])
    counter, ledger = OutputCounter(str(tmp_path)), tmp_path / "ledger-0.jsonl"
    put(tmp_path, 0)
    assert disagreement(counter) == (None, None), "without a ledger there is nothing to compare"
    ledger.write_text(line(0))
    put(tmp_path, 1)
    counter = OutputCounter(str(tmp_path))
    assert disagreement(counter) == (0, 0), "its line is still to be written"
    now[0] += counting_compare.GRACE_S - 1
    assert disagreement(counter) == (0, 0)
    now[0] += 2
    assert disagreement(counter) == (0, 1), "no line came"
    with ledger.open("a") as file:
        file.write(line(1))
    assert disagreement(counter) == (0, 0)
    (tmp_path / "hs_0.safetensors").unlink()
    assert disagreement(counter) == (0, 0), "one scan may miss what is being replaced"
    put(tmp_path, 2)
    assert disagreement(counter) == (1, 0)
