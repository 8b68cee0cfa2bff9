"""Settings and interpreters before a launch: nothing is guessed, and the host's copy rules."""

import json
import sys
from pathlib import Path

import pytest

from console.rehearsal import start
from tests.headless.commands import Machine, check_result, settings_text


@pytest.fixture
def settings(machine: Machine, tmp_path: Path) -> Path:
    """The rehearsal host under another name: a host whose hosts.toml names no interpreter."""
    running = start.ensure_running(str(machine.rehearsal_home))
    (machine.config / "eaglewatch" / "hosts.toml").write_text(
        f'[hosts.plain]\nssh = "{running.user}@{running.address}:{running.port}"\ndata_dir = "{running.data_dir}"\n'
        f'python = "{sys.executable}"\nclient_keys = ["{running.client_key}"]\n'
        f'known_hosts = "{running.known_hosts}"\nuse_ssh_config = false\n'
    )
    path = tmp_path / "run.toml"
    path.write_text(settings_text(machine))
    return path


@pytest.mark.timeout(300)
def test_without_an_interpreter_the_host_is_asked_and_nothing_is_chosen(machine: Machine, settings: Path) -> None:
    done = machine.run("run", "extract", "--host", "plain", "--run", "r", "--settings", str(settings))
    assert done.returncode == 2
    assert "no interpreter is named for extract on plain, and none is chosen silently" in done.stderr
    assert f"{sys.executable}  Python 3." in done.stderr and "can run it" in done.stderr
    assert "[hosts.plain.interpreters]\n  extract = " in done.stderr
    assert not (machine.runs() / "r").exists(), "nothing is written before it is known what runs it"


@pytest.mark.timeout(300)
def test_an_interpreter_that_is_not_there_is_the_users_mistake(machine: Machine, settings: Path) -> None:
    run = ("run", "extract", "--host", "plain", "--run", "r", "--settings", str(settings))
    done = machine.run(*run, "--interpreter", "/nowhere/python", "--json")
    assert done.returncode == 2
    assert "/nowhere/python: no such file on the host" in json.loads(done.stdout.splitlines()[-1])["error"]["message"]
    assert machine.attempts("r") == []


@pytest.mark.timeout(300)
def test_the_hosts_copy_rules_and_says_how_it_differs(machine: Machine, settings: Path) -> None:
    run = ("run", "extract", "--host", "rehearsal", "--run", "r")
    failing = machine.run(*run, "--settings", str(settings), "--set", "model.path=/nowhere", "--json")
    assert failing.returncode == 2, failing.stderr
    last = json.loads(failing.stdout.splitlines()[-1])
    check_result(last, ok=False)
    assert last["stages"]["extract"]["state"] == "FAILED" and "/nowhere" in last["error"]["message"]
    kept = machine.runs() / "r" / "settings.toml"
    assert "/nowhere" in kept.read_text()

    other = machine.run(*run, "--settings", str(settings))
    assert other.returncode == 2
    assert "has other settings (model.path: '/nowhere' there" in other.stderr and "--replace-settings" in other.stderr
    assert "/nowhere" in kept.read_text() and len(machine.attempts("r")) == 1

    one = machine.run(*run, "--set", "extract.batch_samples=4")
    assert one.returncode == 2 and "(extract.batch_samples: 1 there, 4 here)" in one.stderr

    mended = machine.run(*run, "--settings", str(settings), "--replace-settings", "--limit", "2", "--detach", "--json")
    assert mended.returncode == 0, mended.stderr
    last = json.loads(mended.stdout.splitlines()[-1])
    check_result(last, ok=True)
    assert last["stages"]["extract"]["state"] in ("LAUNCHING", "RUNNING", "DONE")
    assert kept.read_text() == settings.read_text()
