"""The commands through a real OpenSSH server: a host without simulated GPUs, where the server dies in the middle."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.sshd import Sshd
from tests.headless.commands import Machine, Running, check_result, settings_text

LINK_S = 60.0


@pytest.fixture
def server(tmp_path: Path, machine: Machine) -> Iterator[Sshd]:
    server = Sshd(tmp_path / "sshd")
    (machine.config / "eaglewatch" / "hosts.toml").write_text(
        f'[hosts.box]\nssh = "{server.host().user}@127.0.0.1:{server.port}"\npython = "{sys.executable}"\n'
        f'client_keys = ["{server.client_key}"]\nknown_hosts = "{server.known_hosts}"\nuse_ssh_config = false\n'
        f'interpreters = {{ extract = "{sys.executable}" }}\nexpected_gpus = 0\n'
    )
    yield server.start()
    server.stop()


@pytest.mark.timeout(400)
def test_launch_kill_the_server_reconnect_and_finish(machine: Machine, server: Sshd, begin: Callable[..., Running], tmp_path: Path) -> None:
    settings = tmp_path / "run.toml"
    settings.write_text(settings_text(machine))
    launched = machine.run(
        "run", "extract", "--host", "box", "--run", "real", "--settings", str(settings), "--limit", "60", "--detach", "--json"
    )
    assert launched.returncode == 0, launched.stderr
    check_result(json.loads(launched.stdout.splitlines()[-1]), ok=True, simulated=False)

    watching = begin("attach", "box", "--run", "real", "--json")
    before = watching.until(lambda line: (line.get("samples") or 0) > 0)
    server.kill()
    away = watching.until(lambda line: line["link"]["state"] == "RECONNECTING", LINK_S)
    assert away["state"] == before["state"], "a lost link says nothing of the job"
    assert away["link"]["frame_age_s"] > 0
    server.start()
    back = watching.until(lambda line: line["link"]["state"] == "LIVE", LINK_S)
    assert back["samples"] >= before["samples"]
    code, last = watching.end()
    assert code == 0, watching.messages
    check_result(last, ok=True, simulated=False)
    assert (last["stages"]["extract"]["samples"], last["stages"]["extract"]["verified"]) == (60, 60)

    status = machine.run("status", "box", "--run", "real", "--json")
    shown = json.loads(status.stdout.splitlines()[-1])
    assert shown["simulated"] is False and len(list((server.home / "eaglewatch" / "runs").iterdir())) == 1
