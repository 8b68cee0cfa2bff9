"""prepare replaces no rows while they are read, and nobody reads them while prepare is at work."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from answer_runs import prepared_manifest, run_stage

from pipeline import rows_lock
from pipeline.errors import BusyError

pytestmark = pytest.mark.xdist_group("answers")
SMALL = {"draft_vocab_size": 20, "coverage_sizes": [16]}


def test_prepare_waits_for_no_reader_and_no_reader_for_prepare(made: Callable[..., Path]) -> None:
    run = made(6, vocab=SMALL)
    run_stage(run, "prepare")
    before = prepared_manifest(run)
    directory = str(run / "data" / "prepared")
    with rows_lock.held(directory, write=False):
        run_stage(run, "vocab")  # another reader
        said = run_stage(run, "prepare", code=2)
        assert f"the rows in {directory} are in use: extract, vocab or a check reads them" in said
        assert prepared_manifest(run) == before
        run_stage(run, "prepare", "--verify")
    with rows_lock.held(directory, write=True):
        assert "prepare is at work on them" in run_stage(run, "vocab", code=2)
        assert "prepare is at work on them" in run_stage(run, "extract", "--set", "extract.min_free_bytes=0", code=2)
    run_stage(run, "prepare")


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with rows_lock.held(str(tmp_path), write=True):
            os.write(writing, b"x")
            signal.pause()
        os._exit(0)
    os.read(reading, 1)
    with pytest.raises(BusyError), rows_lock.held(str(tmp_path), write=False):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with rows_lock.held(str(tmp_path), write=True):
        pass
    for fd in (reading, writing):
        os.close(fd)
