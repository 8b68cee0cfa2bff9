"""A put of settings that is killed between its two files: whoever comes next finds both of one text."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from made_attempts import Made

from pipeline.host import operations, settings_store
from pipeline.host.errors import RequestError
from pipeline.host.settings_store import put, settle


def killed_put(data_dir: Path, monkeypatch: pytest.MonkeyPatch, **request: Any) -> None:
    """In a process that ends like a killed one when the text would be written."""
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(settings_store, "write_bytes", lambda *_: os._exit(9))
        put(str(data_dir), request)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def texts(run: Path) -> tuple[str, Any]:
    return (run / "settings.toml").read_text(), json.loads((run / "settings.json").read_text())


@pytest.fixture
def torn(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    run = data_dir / "runs" / "demo"
    (run / "settings.json").unlink(missing_ok=True)
    put(str(data_dir), {"run": "demo", "toml": "a = 1\n", "resolved": {"a": 1}})
    # _keep writes the earlier text first, by the same function: it is there already when the second put is killed.
    monkeypatch.setattr(settings_store, "_keep", lambda *_: None)
    killed_put(data_dir, monkeypatch, run="demo", toml="a = 2\n", resolved={"a": 2}, replace=True)
    assert texts(run) == ("a = 1\n", {"a": 2})
    return run


def test_the_next_watch_ends_what_was_begun(data_dir: Path, torn: Path) -> None:
    operations.watch(str(data_dir), {"run": "demo", "interval_s": 1.0})
    assert texts(torn) == ("a = 2\n", {"a": 2})
    assert not (torn / "settings.pending").exists()


def test_not_under_an_attempt_that_lives(data_dir: Path, torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_store.state, "newest", lambda _: {"extract": {"state": "RUNNING"}})
    settle(str(torn))
    assert texts(torn)[0] == "a = 1\n"
    monkeypatch.undo()
    settle(str(torn))
    assert texts(torn) == ("a = 2\n", {"a": 2})


def test_not_over_a_text_that_was_written_by_hand_since(torn: Path) -> None:
    (torn / "settings.toml").write_text("a = 3\n")
    settle(str(torn))
    assert texts(torn)[0] == "a = 3\n" and not (torn / "settings.pending").exists()


def test_the_next_put_finds_what_was_begun_done(data_dir: Path, torn: Path) -> None:
    told = put(str(data_dir), {"run": "demo", "toml": "a = 3\n", "resolved": {"a": 3}})
    assert told["written"] is False and told["toml"] == "a = 2\n"
    assert texts(torn) == ("a = 2\n", {"a": 2})


def test_not_under_a_transition_that_works_but_under_one_that_only_waits(data_dir: Path, run_dir: Path) -> None:
    made = Made(run_dir, stage="transition").ident()
    request = {"run": "demo", "toml": "a = 2\n", "resolved": {"a": 2}, "replace": True}
    for phase in ("steady", None):
        made.put("progress/0.json", phase=phase)
        with pytest.raises(RequestError, match="transition is LAUNCHING"):
            put(str(data_dir), request)
    made.put("progress/0.json", phase="armed")
    assert put(str(data_dir), request)["written"] is True
