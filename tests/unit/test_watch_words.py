"""What ``watch`` says of a directory, of frames as a host tells them: no more than was seen, and one age for one thing."""

from typing import Any

import pytest

from console import cli
from console.core.store import Store
from console.headless import watch_lines
from console.headless.lines import LinkNow
from pipeline.contract import signals
from pipeline.contract.stall import Judge
from tests.fakes.frames import frame

LINK = LinkNow("LIVE", "link LIVE", 0.4)


def told(done: int, total: int, newest_s: float | None, new: int = 0, pid: int | None = None) -> str:
    """The line of two frames of a directory with ``done`` files, ``new`` of them since the watch began 2 s before the newest frame."""
    store = Store({"simulated": False})
    store.observes = True
    for boot_s in (998.5, 1000.0):
        newest = None if newest_s is None else 1000.0 - newest_s
        progress: dict[str, Any] = {
            "phase": "steady", "unit": "file", "done": done, "total": total, "bytes": 9, "resumed_done": done - new,
            "phase_boot_s": 998.0, "first_boot_s": 998.0 if new else None, "first_done": done - new if new else None,
            "last_boot_s": newest if new else None, "boot_s": boot_s, "note": "", "facts": [],
        }  # fmt: skip
        seen = {
            "stage": "watch", "attempt": "watch", "state": "RUNNING", "why": "", "pid": pid, "started_boot_s": 998.0, "simulated": False,
            "progress": progress, "directory": {"files": done, "bytes": 9, "boot_s": boot_s, "newest_boot_s": newest},
        }  # fmt: skip
        store.fold({**frame(boot_s), "run": None, "stages": {}, "observed": seen})
    return watch_lines.line(store, store.attempt("watch"), LINK, total)


def test_before_any_file_nothing_is_newest_and_nothing_steady() -> None:
    text = told(0, 400, None)
    assert "watch NO FILE YET" in text and "OK: no unit yet, watched for 2.0 s" in text and "newest" not in text, text


@pytest.mark.parametrize(("pid", "why"), [(None, "no new file since the watch began"), (7, "no file of this process yet")])
def test_files_of_before_the_watch_are_no_new_ones(pid: int | None, why: str) -> None:
    text = told(82, 400, 300.0, pid=pid)
    assert "watch NO NEW FILE YET" in text and "82/400 files" in text and "newest file 5 min" in text
    assert "OK: no new unit yet, watched for 2.0 s" in text and f"ETA - ({why})" in text and "before the first unit" not in text, text


def test_the_newest_file_has_one_age() -> None:
    text = told(82, 400, 1.0, new=3)
    assert "watch STEADY" in text and text.count("newest") == 1 and "newest file 1.4 s ago" in text, text


def test_a_full_directory_is_not_steady_and_finishes_nothing() -> None:
    text = told(264, 5, 466.0)
    assert "watch MORE THAN ALL" in text and "264 files, 259 more than 5" in text, text
    assert not any(words in text for words in ("STEADY", "finishing", "all are there")), text
    text = told(5, 5, 466.0)
    assert "watch ALL THERE" in text and "all are there" in text and "OK: nothing more is to come" in text, text


def test_what_is_said_of_a_watch_without_a_process_is_what_the_judge_does() -> None:
    judge, first_red_s, levels = Judge(), 0.0, set[str]()
    for step in range(0, 3600, 5):
        found = judge.look(
            signals.Signals(boot_s=1000.0 + step, live=True, phase="steady", phase_boot_s=1000.0, done=82, total=400, files=82)
        )
        levels.add(found.level)
        if found.severity == signals.RED and not first_red_s:
            first_red_s = float(step)
    assert first_red_s >= 45 * 60 and signals.QUIET in levels and not levels & {signals.IDLE, signals.STALLED_IDLE}, (first_red_s, levels)


def test_the_help_says_what_once_and_pid_mean(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["watch", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "0 once it is taken, however many files there are" in text and "with --once: one reading was taken" in text
    assert "when it is whole" not in text and "a dead writer is told as QUIET, and red only after 45 min or more" in text
