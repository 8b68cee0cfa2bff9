"""Any directory that grows: flat or in folders, whatever the names; each file is asked for once, and what only grows is noticed."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.host import counting_folder, counting_tree
from pipeline.host.counting_tree import TreeCounter


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PASS_S", "CPU_COST", "WALL_COST", "FIRST_COST"):
        monkeypatch.setattr(counting_tree, name, 0)


def put(path: Path, size: int = 10, age_s: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    if age_s:
        os.utime(path, (time.time() - age_s, time.time() - age_s))


def settle(directory: Path, age_s: float = 60) -> None:
    """Make the directories look as if nothing had changed lately."""
    for path in [directory, *(one for one in directory.rglob("*") if one.is_dir())]:
        os.utime(path, (time.time() - age_s, time.time() - age_s))


def totals(value: dict[str, Any] | None) -> tuple[int, int, int]:
    assert value is not None
    return value["files"], value["bytes"], value["folders"]


def test_folders_of_rows_and_flat_files_are_counted_as_they_come(tmp_path: Path) -> None:
    counter = TreeCounter(str(tmp_path))
    for number in range(5):
        put(tmp_path / f"rows_{number * 2000}-{number * 2000 + 2000}" / "deep" / f"any name {number}.pt")
    put(tmp_path / "flat.bin", 7)
    for name in (".hidden", "x.tmp", "y.partial", ".git/z"):
        put(tmp_path / name, 99)
    assert totals(counter.poll()) == (6, 57, 10)
    put(tmp_path / "rows_0-2000" / "deep" / "more", 1)
    put(tmp_path / "rows_10000-12000" / "first", 2)
    assert totals(counter.poll()) == (8, 60, 11)
    (tmp_path / "rows_10000-12000" / "first").unlink()
    (tmp_path / "rows_10000-12000").rmdir()
    (tmp_path / "flat.bin").unlink()
    assert totals(counter.poll()) == (6, 51, 10)


def test_a_file_is_asked_for_once_and_a_standing_tree_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        put(tmp_path / "rows" / str(number), age_s=30)
    settle(tmp_path)
    counter = TreeCounter(str(tmp_path))
    assert totals(counter.poll()) == (20, 200, 1)
    listed: list[Any] = []
    asked: list[str] = []
    scandir, note = os.scandir, counting_folder.Folder._note
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    monkeypatch.setattr(counting_folder.Folder, "_note", lambda self, name, status: asked.append(name) or note(self, name, status))
    assert totals(counter.poll()) == (20, 200, 1) and listed == []
    put(tmp_path / "rows" / "new")
    assert totals(counter.poll()) == (21, 210, 1) and asked == ["new"] and listed == [str(tmp_path / "rows")]


def test_a_file_that_only_grows_is_seen_although_no_mtime_of_a_directory_moves(tmp_path: Path) -> None:
    put(tmp_path / "rows" / "a", 10)
    settle(tmp_path)
    counter = TreeCounter(str(tmp_path))
    assert totals(counter.poll()) == (1, 10, 1)
    for size in (25, 40):
        with (tmp_path / "rows" / "a").open("r+b") as file:
            file.truncate(size)
        assert totals(counter.poll()) == (1, size, 1)


def test_a_finished_folder_is_dropped_to_its_sums_and_counted_anew_when_it_changes(tmp_path: Path) -> None:
    for number in range(10):
        put(tmp_path / "rows" / str(number), age_s=counting_folder.FINISHED_S + 60)
    settle(tmp_path, counting_folder.FINISHED_S + 60)
    counter = TreeCounter(str(tmp_path), since_s=0)
    assert totals(counter.poll()) == (10, 100, 1)
    assert all(folder.finished and not len(folder._known) for folder in counter._folders.values())
    (tmp_path / "rows" / "3").unlink()
    put(tmp_path / "rows" / "x", 1)
    for _ in range(counting_tree._TURNS):
        value = counter.poll()
    assert totals(value) == (10, 91, 1) and value is not None and value["new"] == 10


def test_files_since_a_moment_are_counted_apart(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / str(number), age_s=1000)
    since = time.time() - 500
    for number in range(3):
        put(tmp_path / "rows" / str(number), age_s=400 - number)
    value = TreeCounter(str(tmp_path), since_s=since).poll()
    assert value is not None and value["new"] == 3
    assert value["newest_boot_s"] - value["first_boot_s"] == pytest.approx(2, abs=0.1)


def test_what_cannot_be_listed_is_told_and_no_directory_is_not_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a" / "x")
    put(tmp_path / "b" / "y")
    scandir = os.scandir

    def deny(path: Any) -> Any:
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", deny)
    value = TreeCounter(str(tmp_path)).poll()
    assert value is not None and value["files"] == 1 and value["unreadable"] == 1
    assert TreeCounter(str(tmp_path / "no")).poll() is None


def test_a_long_count_goes_in_slices_and_is_told_only_when_whole(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / str(number)).touch()
    counter = TreeCounter(str(tmp_path), slice_s=0.0)
    polls = 0
    while (value := counter.poll()) is None:
        polls += 1
        assert polls < 100
    assert value is not None and value["files"] == 1000 and polls >= 3


def test_passes_take_a_fixed_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting_tree, "WALL_COST", 10**6)
    put(tmp_path / "a")
    counter = TreeCounter(str(tmp_path))
    first = counter.poll()
    second = counter.poll()  # the first pass costs nothing; the second sets the pause
    put(tmp_path / "b")
    third = counter.poll()
    assert first is not None and second is not None and third == second and second["files"] == 1
