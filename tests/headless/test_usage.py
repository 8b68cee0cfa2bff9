"""What the operator gets wrong: one clear line, exit code 2, before anything is connected; and what only looks like an answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.headless.commands import Machine, check_result


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "extrct", "--host", "h", "--run", "r"], "did you mean 'extract'?"),
        (["run", "EXTRACT", "--host", "h", "--run", "r"], "did you mean 'extract'?"),
        (["run", "train", "--host", "h", "--run", "r"], "'train' is not in this version yet"),
        (["run", "extract", "--host", "h", "--run", "a/b"], "run name 'a/b': use 1 to 64 letters"),
        (["run", "extract", "--host", "h"], "required: --run"),
        (["run", "extract", "--host", "h", "--run", "r", "--limit", "0"], "'0' is not a whole number from 1 up"),
        (["attach", "h:99999"], "the port is a number from 1 to 65535"),
        (["status", "not a host"], "is no host name"),
        (["stop", "h", "--run", "r", "--stage", "extract"], "add --yes"),
        (["stop", "h", "--run", "r", "--stage", "transition"], "is no stage: see `eaglewatch next --help`, options --show and --cancel"),
        (["next", "h", "--run", "r", "--plan", "--from", "train"], "'train' is not in this version yet"),
        (["rehearse", "--fault", "earthquake"], "no fault 'earthquake'"),
        (["log", "h", "--attempt", "20260101-000000-0123456789ab"], "name them with --run and --stage"),
        (["frobnicate"], "the console needs a terminal"),
        (["statsu"], "did you mean 'status'"),
        ([], "required: COMMAND"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(bare: Machine, arguments: list[str], words: str) -> None:
    done = bare.run(*arguments, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    if arguments:
        told = bare.run(*arguments, "--json", stdin=subprocess.DEVNULL)
        line = json.loads(told.stdout.splitlines()[-1])
        check_result(line, ok=False, simulated="rehearse" in arguments)
        assert words in line["error"]["message"] and line["error"]["exit_code"] == told.returncode == 2


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("[modell]\npath = '/m'\n", [], "modell: unknown key; did you mean 'model'?"),
        ("[model]\npath = '/m'\n[extract]\nbatch_sample = 4\n", [], "extract.batch_sample: unknown key; did you mean 'batch_samples'?"),
        ("[model]\npath = 7\n", [], "model.path"),
        ("[model\n", [], "not valid TOML"),
        ("[model]\npath = '/m'\n", ["--set", "extract.writer_thread=2"], "did you mean 'writer_threads'?"),
        ("[model]\npath = '/m'\n", ["--set", "extract"], "write it as section.key=value"),
    ],
)
def test_wrong_settings_name_file_key_and_nearest_key(bare: Machine, tmp_path: Path, text: str, arguments: list[str], words: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    done = bare.run("run", "extract", "--host", "h", "--run", "r", "--settings", str(file), *arguments)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr
    assert str(file) in done.stderr or "--set" in done.stderr


def test_a_host_that_is_not_there_is_cannot_tell(bare: Machine) -> None:
    done = bare.run("status", "root@127.0.0.1:1", "--json")
    assert done.returncode == 3
    line = json.loads(done.stdout.splitlines()[-1])
    check_result(line, ok=False, simulated=False)
    assert "127.0.0.1" in line["error"]["message"] and "Traceback" not in done.stderr


def test_config_tells_values_and_origins(bare: Machine) -> None:
    (bare.config / "eaglewatch" / "hosts.toml").write_text('[hosts.gpu1]\nssh = "me@127.0.0.1:1"\n')
    done = bare.run("config")
    assert done.returncode == 0
    assert 'hosts.gpu1.ssh = "me@127.0.0.1:1"   # hosts.toml' in done.stdout
    assert 'hosts.gpu1.python = "python3"   # default' in done.stdout
    told = json.loads(bare.run("config", "gpu1", "--json").stdout)
    check_result(told, ok=True, simulated=False)
    assert {"key": "hosts.gpu1.ssh", "value": '"me@127.0.0.1:1"', "origin": "hosts.toml"} in told["config"]
    assert all(row["key"].startswith("hosts.gpu1.") for row in told["config"])


def test_a_mistyped_host_has_no_defaults(bare: Machine, tmp_path: Path) -> None:
    (bare.config / "eaglewatch" / "hosts.toml").write_text('[hosts.gpu1]\nssh = "me@127.0.0.1:1"\n')
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text("#!/bin/sh\nfor name; do :; done\nif [ $name = lab ]; then echo hostname lab.example; else echo hostname $name; fi\n")
    ssh.chmod(0o755)
    environment = {**bare.environment, "PATH": f"{ssh.parent}:{os.environ['PATH']}"}
    done = bare.run("config", "gpu2", env=environment)
    assert (done.returncode, done.stdout) == (2, "") and "no host 'gpu2'" in done.stderr and "did you mean 'gpu1'?" in done.stderr
    far = bare.run("config", "somewhere", env=environment)
    assert far.returncode == 2 and "those that can be named: gpu1, rehearsal" in far.stderr
    for known in ("lab", "me@gpu2", "gpu2:22", "10.0.0.1"):
        assert f"hosts.{known}.data_dir" in bare.run("config", known, env=environment).stdout, known
    none = bare.run("config", "rehearsal")
    assert none.returncode == 2 and "does not run now" in none.stderr


def test_a_reader_that_goes_away_ends_it_quietly(bare: Machine) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "console", "config"], stdout=write_end, stderr=subprocess.PIPE, env=bare.environment, timeout=60
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (3, b"")
