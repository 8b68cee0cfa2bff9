"""What is printed never steers a terminal, and where nothing can be printed to the command says so and ends."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.core import sanitize
from console.headless.output import CannotTellError, Output
from tests.headless.commands import ROOT, Machine, check_result

NASTY = "a\x1b]0;HI\x07b\x9b31mc\u202ed\x7fe\x00f\u2028g"
"""A title, an 8-bit colour, right-to-left, DEL, NUL, a line separator."""


def is_plain(text: str) -> bool:
    return all(sanitize.is_safe(line) for line in text.split("\n"))


def test_all_that_a_command_prints_is_safe_and_keeps_its_lines() -> None:
    out, err = io.StringIO(), io.StringIO()
    output = Output(as_json=False, out=out, err=err)
    output.data(f"{NASTY}\n  second")
    output.say(f"{NASTY}\n  second")
    for text in (out.getvalue(), err.getvalue()):
        assert is_plain(text) and text.count("\n") == 2 and text.endswith("\n  second\n")
    out = io.StringIO()
    Output(as_json=True, out=out, err=err).json({NASTY: NASTY})
    assert is_plain(out.getvalue()) and out.getvalue().isascii(), "escaped, C1 and bidi too"
    assert json.loads(out.getvalue()) == {NASTY: NASTY}, "and nothing of it lost"


class Full(io.StringIO):
    """A stream to a full disk."""

    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_under_the_output_is_cannot_tell_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.headless.output.throw_away_stdout", lambda: None)  # the test's own stdout stays
    err = io.StringIO()
    output = Output(as_json=True, out=Full(), err=err)
    with pytest.raises(CannotTellError, match="standard output: No space left"):
        output.json({"a": 1})
    output.json({"error": "told nowhere, and no second error"})
    output.say("still heard")
    assert err.getvalue() == "still heard\n"


def test_a_key_of_hosts_toml_that_is_a_control_sequence(bare: Machine) -> None:
    file = bare.config / "eaglewatch" / "hosts.toml"
    file.write_text('[hosts."x\\u001b]0;HI\\u0007"]\nssh = "a@b"\n')
    for arguments in (["config"], ["status", "h"], ["config", "\x1b]0;HI\x07"]):
        done = bare.run(*arguments)
        assert is_plain(done.stdout) and is_plain(done.stderr), (arguments, done)
        assert done.stdout + done.stderr, "it says something"


def test_a_wrong_key_of_settings_that_is_a_control_sequence(bare: Machine, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('"\\u001b]0;HI\\u0007" = 1\n[model]\npath = "/m"\n')
    done = bare.run("run", "extract", "--host", "h", "--run", "r", "--settings", str(tmp_path / "run.toml"))
    assert done.returncode == 2 and "unknown key" in done.stderr and is_plain(done.stderr)


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
def test_a_closed_stdout_is_said_and_nothing_is_done(bare: Machine, closed: str) -> None:
    shell = f'exec "{sys.executable}" -m console status rehearsal --once {closed}'
    done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, env=bare.environment, cwd="/", timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "eaglewatch: standard output is closed; to throw the output away: >/dev/null\n"
    assert not bare.rehearsal_home.exists()


def test_a_closed_stderr_stops_nothing(bare: Machine) -> None:
    shell = f'exec "{sys.executable}" -m console frobnicate --json 2>&-'
    done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, env=bare.environment, cwd="/", timeout=60)
    assert done.returncode == 2
    check_result(json.loads(done.stdout), ok=False, simulated=False)


LOADING = """
import sys, time
from pathlib import Path
wanted, marker, *words = sys.argv[1:]
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            Path(marker).touch()
            time.sleep(60)
sys.meta_path.insert(0, Hook())
sys.argv[1:] = words
from console.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["console.cli", "argparse", "console.headless.output", "console.headless.status"])
def test_an_interrupt_while_it_loads_is_one_line_and_code_3(bare: Machine, tmp_path: Path, module: str) -> None:
    """The module's import takes a minute here, so that the signal comes in the middle of it."""
    marker = tmp_path / "marker"
    command = [sys.executable, "-c", LOADING, module, str(marker), "status", "h.invalid", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=bare.environment, cwd=ROOT)
    try:
        deadline = time.monotonic() + 60
        while not marker.exists():
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, err) == (3, "eaglewatch: interrupted\n")
    line = json.loads(out)
    check_result(line, ok=False, simulated=False)
    assert line["error"] == {"message": "interrupted", "exit_code": 3}
