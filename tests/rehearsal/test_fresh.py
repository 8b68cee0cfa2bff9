"""`--fresh` ends the rehearsal's own processes and removes its own home, and nothing else."""

# A test may block its own loop for a moment.
# ruff: noqa: ASYNC220, ASYNC221, ASYNC240

import asyncio
import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from console.rehearsal import home as homes
from console.rehearsal import start
from console.rehearsal.start import ensure_running, stop_all
from pipeline.errors import UserError

DETACH = "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' >/dev/null 2>&1 </dev/null & echo $!"


@pytest.fixture
def no_build(monkeypatch) -> None:
    """A new home without its model: what is tested here does not need it, and it takes seconds."""
    real = start._run_module
    monkeypatch.setattr(start, "_run_module", lambda module, *rest: None if module.endswith(".build") else real(module, *rest))


async def test_fresh_ends_server_and_jobs_even_deaf_or_frozen_ones_and_starts_anew(host, connect, no_build, monkeypatch) -> None:
    monkeypatch.setattr(start, "END_WAIT_S", 2.0)
    connection = await connect()
    deaf = int(str((await connection.run(DETACH)).stdout))
    frozen = int(str((await connection.run(DETACH.replace('trap "" TERM; ', ""))).stdout))
    subprocess.run(["kill", "-STOP", str(frozen)], check=True)
    old = homes.running_server(host.home)
    assert old is not None
    Path(host.data_dir, "runs", "mine").mkdir(parents=True)
    said: list[str] = []
    again = await asyncio.to_thread(ensure_running, host.home, fresh=True, say=said.append)
    assert "--fresh removes the rehearsal's runs: mine" in said
    assert [homes.start_ticks(pid) for pid in (deaf, frozen, old["pid"])] == [None, None, None]
    assert not Path(host.data_dir, "runs").exists()
    now = homes.running_server(host.home)
    assert now is not None and now["pid"] != old["pid"] and now["port"] == again.port


async def test_a_process_that_only_names_the_home_is_not_ended(host) -> None:
    # An operator's own shell may have exported the variable, to run a stage by hand.
    bystander = subprocess.Popen(["sleep", "60"], env={**os.environ, "EAGLEWATCH_REHEARSAL": host.home})
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "EAGLEWATCH_REHEARSAL_SESSION": host.home + "2"})
    try:
        stop_all(host.home)
        assert bystander.poll() is None and other.poll() is None
        assert homes.running_server(host.home) is None
    finally:
        for process in (bystander, other):
            process.kill()
            process.wait()


def test_a_stage_that_somebody_started_by_hand_is_told_and_nothing_is_removed(host, monkeypatch) -> None:
    monkeypatch.setattr(start, "END_WAIT_S", 0.5)
    lock = Path(host.data_dir, "runs", "mine", "stages", "extract", "lock")
    lock.parent.mkdir(parents=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="held by a stage that the rehearsal's server did not start"):
            ensure_running(host.home, fresh=True)
    assert lock.exists() and Path(host.home, "models").exists()


@pytest.mark.parametrize("kind", ["no marker", "link", "file"])
def test_a_foreign_directory_is_never_removed_nor_used(tmp_path, kind) -> None:
    home = tmp_path / "home"
    kept = tmp_path / "elsewhere" / "precious.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    if kind == "no marker":
        home.mkdir()
        kept = home / "precious.txt"
        kept.write_text("mine")
    elif kind == "link":
        (kept.parent / homes.MARKER).touch()
        home.symlink_to(kept.parent)
    else:
        home.write_text("mine")
        kept = home
    with pytest.raises(UserError, match=r"not a rehearsal home|needs a directory"):
        ensure_running(str(home), fresh=True)
    assert kept.read_text() == "mine"


def test_an_interrupted_removal_is_finished_by_the_next(tmp_path, monkeypatch) -> None:
    home = tmp_path / "home"
    homes.make(str(home))
    (home / "models").mkdir()
    (home / "models" / "weights").write_text("x")

    def interrupted(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(homes.shutil, "rmtree", interrupted)
        homes.remove(str(home))
    assert (home / homes.MARKER).exists()
    homes.remove(str(home))
    assert not home.exists()
    homes.remove(str(home))  # gone already: nothing to do


def test_links_in_the_home_are_removed_and_what_they_lead_to_stays(tmp_path) -> None:
    home = tmp_path / "home"
    homes.make(str(home))
    kept = tmp_path / "elsewhere"
    kept.mkdir()
    (kept / "precious.txt").write_text("mine")
    (home / "models").symlink_to(kept)
    homes.remove(str(home))
    assert not home.exists() and (kept / "precious.txt").read_text() == "mine"
