"""Locks: one holder, who is named, and whom a dead one never blocks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from host_launches import ROOT

from pipeline.host import locks


def holder() -> dict[str, object]:
    return locks.holder_line("a1", "me")


def test_a_lock_has_one_holder_and_names_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert not locks.is_held(path)
    lock = locks.take(path, holder())
    assert lock is not None
    assert locks.take(path, holder()) is None
    assert locks.is_held(path)
    assert f"attempt a1 (pid {os.getpid()}, started by me, since 2" in locks.describe_holder(locks.read_holder(path))
    lock.release()
    assert not locks.is_held(path) and locks.read_holder(path) == {}
    assert locks.take(path, holder()) is not None


@pytest.mark.parametrize("content", ["", "{", "garbage\n", "[]"])
def test_a_holder_that_the_file_does_not_name_is_unknown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lock"
    lock = locks.take(str(path), holder())
    assert lock is not None
    path.write_text(content)
    assert locks.is_held(str(path))
    assert locks.take(str(path), holder(), patience_s=0.1) is None
    assert locks.describe_holder(locks.read_holder(str(path))) == "an unknown process (the lock file does not name it)"


def test_a_dead_holder_blocks_nobody_and_what_it_wrote_is_told_as_ended(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    program = (
        f"import sys, time; sys.path.insert(0, {str(ROOT)!r})\n"
        "from pipeline.host import locks\n"
        f"lock = locks.take({path!r}, locks.holder_line('dead', 'x'))\n"
        "print('held', flush=True)\n"
        "time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    assert locks.is_held(path)
    process.kill()
    process.communicate()
    assert not locks.is_held(path)
    assert "which has ended" in locks.describe_holder(locks.read_holder(path))
    assert locks.take(path, holder()) is not None


def test_a_look_at_a_lock_never_makes_somebody_fail_to_take_it(tmp_path: Path) -> None:
    """Looking at a lock whose file names nobody alive takes a shared lock for a moment; who takes the lock then waits it out."""
    path = str(tmp_path / "lock")
    looker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom pipeline.host import locks\nwhile True: locks.is_held({path!r})",
        ]
    )
    try:
        for _ in range(200):
            lock = locks.take(path, {}, patience_s=30)
            assert lock is not None
            lock.release()
    finally:
        looker.kill()
        looker.wait()


def test_a_lock_file_that_was_removed_is_not_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = locks.take(str(path), holder())
    path.unlink()
    second = locks.take(str(path), holder())
    assert first is not None and second is not None and os.fstat(second.fd).st_ino == path.stat().st_ino
