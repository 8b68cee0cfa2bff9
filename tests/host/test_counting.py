"""The ledgers are counted once a sample, however they grow; the directory is counted without looking at it all the time."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.contract.clock import boot_s
from pipeline.host import counting, counting_ledger
from pipeline.host.counting import DirectoryCounter
from pipeline.host.counting_ledger import LedgerCounter


def line(index: Any, size: Any = 100, tokens: Any = 10) -> str:
    return json.dumps({"i": index, "bytes": size, "tokens": tokens, "crc32": 1}) + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def totals(value: dict[str, Any] | None) -> tuple[int, int, int]:
    assert value is not None
    return value["files"], value["bytes"], value["tokens"]


def test_no_ledger_is_not_zero(tmp_path: Path) -> None:
    assert LedgerCounter(str(tmp_path)).poll() is None
    assert LedgerCounter(str(tmp_path / "nowhere")).poll() is None
    (tmp_path / "ledger-0.jsonl").touch()
    assert totals(LedgerCounter(str(tmp_path)).poll()) == (0, 0, 0)


def test_ledgers_of_all_ranks_grow(tmp_path: Path) -> None:
    counter = LedgerCounter(str(tmp_path))
    append(tmp_path / "ledger-0.jsonl", line(0, 100, 10) + line(2, 120, 12))
    append(tmp_path / "ledger-1.jsonl", line(1, 110, 11))
    append(tmp_path / "ledger-x.jsonl", line(7))
    append(tmp_path / "ledger-2.jsonl.tmp", line(8))
    assert totals(counter.poll()) == (3, 330, 33)
    append(tmp_path / "ledger-1.jsonl", line(3, 130, 13))
    value = counter.poll()
    assert totals(value) == (4, 460, 46)
    assert value is not None and value["disagree"] == 0 and value["bad_lines"] == 0
    assert value["last_boot_s"] == pytest.approx(boot_s(), abs=60)


def test_a_sample_done_again_counts_once_with_its_newest_line(tmp_path: Path) -> None:
    counter = LedgerCounter(str(tmp_path))
    append(tmp_path / "ledger-0.jsonl", line(0) + line(1) + line(0))
    value = counter.poll()
    assert totals(value) == (2, 200, 20) and value is not None and value["disagree"] == 0
    append(tmp_path / "ledger-0.jsonl", line(1, 50, 5))
    value = counter.poll()
    assert totals(value) == (2, 150, 15) and value is not None and value["disagree"] == 1


def test_a_torn_last_line_counts_once_it_is_whole(tmp_path: Path) -> None:
    counter, path = LedgerCounter(str(tmp_path)), tmp_path / "ledger-0.jsonl"
    whole = line(1)
    append(path, line(0) + whole[:9])
    assert totals(counter.poll()) == (1, 100, 10)
    append(path, whole[9:])
    value = counter.poll()
    assert totals(value) == (2, 200, 20) and value is not None and value["bad_lines"] == 0


def test_damage_is_counted_and_changes_no_total(tmp_path: Path) -> None:
    bad = ["not json\n", "[]\n", "{}\n", line(-1), line(True), line(1.5), line(1, -1), line(1, 1, "7"), line(10**12), "\xff\n"]
    append(tmp_path / "ledger-0.jsonl", line(0) + "".join(bad) + line(1))
    value = LedgerCounter(str(tmp_path)).poll()
    assert totals(value) == (2, 200, 20) and value is not None and value["bad_lines"] == len(bad)


@pytest.mark.parametrize("how", ["replaced", "cut", "removed"])
def test_a_ledger_that_is_not_the_same_any_more_is_counted_anew(tmp_path: Path, how: str) -> None:
    counter, path = LedgerCounter(str(tmp_path)), tmp_path / "ledger-0.jsonl"
    append(path, line(0) + line(1))
    append(tmp_path / "ledger-1.jsonl", line(5))
    assert totals(counter.poll()) == (3, 300, 30)
    if how == "replaced":
        append(tmp_path / "new", line(0, 7, 7) + line(1, 7, 7))
        os.replace(tmp_path / "new", path)
    elif how == "cut":
        path.write_text(line(9, 14, 14))
    else:
        path.unlink()
    expected = {"replaced": (3, 114, 24), "cut": (2, 114, 24), "removed": (1, 100, 10)}
    assert totals(counter.poll()) == expected[how]


def test_a_long_ledger_is_read_in_parts_and_told_only_when_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting_ledger, "_READ_BYTES", 4096)
    append(tmp_path / "ledger-0.jsonl", "".join(line(number) for number in range(500)))
    counter = LedgerCounter(str(tmp_path))
    answers = [counter.poll()]
    while answers[-1] is None:
        assert len(answers) < 100
        answers.append(counter.poll())
    assert len(answers) > 3
    assert totals(answers[-1]) == (500, 50_000, 5_000)


def put(directory: Path, index: int, size: int = 10) -> None:
    (directory / ".tmp").write_bytes(bytes(size))
    os.rename(directory / ".tmp", directory / f"hs_{index}.safetensors")


def settle(directory: Path) -> None:
    """Make the directory look as if nothing had changed lately."""
    os.utime(directory, (time.time() - 60, time.time() - 60))


def test_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_RESCAN_S", 0.0)
    monkeypatch.setattr(counting, "_RESCAN_COST", 0)
    counter = DirectoryCounter(str(tmp_path))
    for name in ("hs_x.safetensors", "hs_1.safetensors.tmp", "hs_.safetensors", ".hs_2.safetensors", "ledger-0.jsonl"):
        (tmp_path / name).touch()
    put(tmp_path, 0, 10)
    put(tmp_path, 7, 20)
    value = counter.poll()
    assert value is not None and (value["files"], value["bytes"]) == (2, 30)
    put(tmp_path, 7, 25)  # written again: another inode
    put(tmp_path, 8, 1)
    value = counter.poll()
    assert value is not None and (value["files"], value["bytes"]) == (3, 36)
    (tmp_path / "hs_0.safetensors").unlink()
    value = counter.poll()
    assert value is not None and (value["files"], value["bytes"]) == (2, 26)


def test_a_directory_that_stands_still_is_not_listed_again_but_its_count_is_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 0)
    settle(tmp_path)
    counter = DirectoryCounter(str(tmp_path))
    first = counter.poll()
    scans: list[str] = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scans.append(path) or real(path))
    time.sleep(0.01)
    second = counter.poll()
    assert first is not None and second is not None and scans == []
    assert second["boot_s"] > first["boot_s"] and second["files"] == 1


def test_a_busy_directory_is_listed_seldom_and_the_count_keeps_its_age(tmp_path: Path) -> None:
    counter = DirectoryCounter(str(tmp_path))
    put(tmp_path, 0)
    first = counter.poll()
    put(tmp_path, 1)
    second = counter.poll()
    assert first == second and first is not None and first["files"] == 1


def test_a_file_within_the_same_tick_of_the_mtime_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_RESCAN_S", 0.0)
    monkeypatch.setattr(counting, "_RESCAN_COST", 0)
    counter = DirectoryCounter(str(tmp_path))
    put(tmp_path, 0)
    status = os.stat(tmp_path)
    counter.poll()
    put(tmp_path, 1)
    os.utime(tmp_path, ns=(status.st_atime_ns, status.st_mtime_ns))
    value = counter.poll()
    assert value is not None and value["files"] == 2


def test_no_directory_is_not_zero(tmp_path: Path) -> None:
    counter = DirectoryCounter(str(tmp_path / "out"))
    assert counter.poll() is None
    (tmp_path / "out").mkdir()
    value = counter.poll()
    assert value is not None and value["files"] == 0
    (tmp_path / "out").rmdir()
    assert counter.poll() is None
