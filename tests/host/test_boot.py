"""The bootstrap as a login shell would run it: ``sh -c COMMAND``, the source as the first line, the real bundle as a zip."""

import hashlib
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from agent_client import NONCE
from boot_login import Boot, code_names, failed, install

from console.remote import deploy
from pipeline.contract import boot
from pipeline.host import procs

SHELLS = [shell for shell in ("sh", "bash", "fish", "csh") if shutil.which(shell)]


@pytest.fixture(scope="module")
def bundle() -> deploy.Bundle:
    return deploy.bundle()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_first_time_the_bundle_is_sent_and_the_second_it_is_there(
    python: str, shell: str, tmp_path: Path, bundle: deploy.Bundle
) -> None:
    data_dir = tmp_path / "data é"
    first = Boot(python, data_dir, bundle, shell)
    assert first.message() == {"boot": "need"}
    first.send(bundle.data)
    assert first.message() == {"boot": "have"}
    assert first.message() == {"agent": "ready"}
    first.send(b'{"id": 1, "op": "hello"}\n')
    hello = first.message()
    assert hello is not None and hello["code"] == bundle.code and hello["data_dir"] == str(data_dir)
    assert procs.identity(hello["pid"])["start_ticks"], "the agent is not the process that was started"
    assert first.end() == (0, "")

    assert code_names(data_dir) == [bundle.code]
    assert (data_dir.stat().st_mode & 0o777, (data_dir / "code").stat().st_mode & 0o777) == (0o700, 0o700)
    unpacked = data_dir / "code" / bundle.code
    with zipfile.ZipFile(io.BytesIO(bundle.data)) as archive:
        assert all((unpacked / name).read_bytes() == archive.read(name) for name in archive.namelist())
    assert list((unpacked / "__pycache__").glob("pynvml.*.pyc"))

    second = Boot(python, data_dir, bundle, shell)
    assert second.message() == {"boot": "have"}
    assert second.message() == {"agent": "ready"}
    assert second.end() == (0, "")


def test_home_is_expanded_on_the_host(tmp_path: Path, python: str, bundle: deploy.Bundle) -> None:
    install(python, Path("~/eagle"), bundle, HOME=str(tmp_path)).end()
    assert code_names(tmp_path / "eagle") == [bundle.code]


def old_pythons() -> list[str]:
    return [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.[67].*/bin/python"))]


@pytest.mark.parametrize("old", old_pythons() or [""])
def test_an_old_python_says_that_it_is_too_old(old: str, tmp_path: Path, bundle: deploy.Bundle) -> None:
    if not old:  # no such interpreter here: the same words from one that is told that it is old
        pretend = tmp_path / "sitecustomize.py"
        pretend.write_text("import sys\nsys.version_info = (3, 6, 9, 'final', 0)\n")
        message = failed(Boot("python3", tmp_path / "data", bundle, PYTHONPATH=str(tmp_path)))
    else:
        message = failed(Boot(old, tmp_path / "data", bundle))
    assert message["kind"] == "python" and "needs 3.8 or newer" in message["message"]
    assert not (tmp_path / "data").exists()


def test_a_damaged_bundle_is_refused_and_leaves_nothing(python: str, tmp_path: Path, bundle: deploy.Bundle) -> None:
    one = Boot(python, tmp_path / "data", bundle)
    assert one.message() == {"boot": "need"}
    one.send(bundle.data[:1000] + bytes([bundle.data[1000] ^ 1]) + bundle.data[1001:])
    assert failed(one)["kind"] == "bundle"
    assert code_names(tmp_path / "data") == []


@pytest.mark.parametrize("name", ["../escape.py", "/tmp/escape.py", "a/../../escape.py", "a\\b.py", "./x.py"])
def test_names_that_leave_the_directory_are_refused(python: str, tmp_path: Path, name: str) -> None:
    evil = deploy.pack({"__main__.py": b"", "pipeline/x.py": b""})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", "")
        archive.writestr(zipfile.ZipInfo(name), "boo")
    evil = deploy.Bundle(buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest())
    one = Boot(python, tmp_path / "data", evil)
    assert one.message() == {"boot": "need"}
    one.send(evil.data)
    assert failed(one)["kind"] == "bundle"
    assert code_names(tmp_path / "data") == []
    assert not list(tmp_path.rglob("escape.py"))


def test_what_is_no_zip_is_refused(python: str, tmp_path: Path) -> None:
    data = b"not a zip at all" * 10
    one = Boot(python, tmp_path / "data", deploy.Bundle(data, hashlib.sha256(data).hexdigest()))
    assert one.message() == {"boot": "need"}
    one.send(data)
    assert failed(one)["kind"] == "bundle"


def test_a_connection_that_ends_in_the_middle_leaves_no_half_of_it(python: str, tmp_path: Path, bundle: deploy.Bundle) -> None:
    one = Boot(python, tmp_path / "data", bundle)
    assert one.message() == {"boot": "need"}
    one.send(bundle.data[: len(bundle.data) // 2])
    assert one.end()[0] == 2
    assert code_names(tmp_path / "data") == []
    install(python, tmp_path / "data", bundle).end()


def test_a_directory_that_is_not_whole_is_replaced(python: str, tmp_path: Path, bundle: deploy.Bundle) -> None:
    torn = tmp_path / "data" / "code" / bundle.code
    torn.mkdir(parents=True, mode=0o700)
    for path in (tmp_path / "data", torn.parent):
        path.chmod(0o700)
    (torn / "__main__.py").write_text("raise SystemExit('torn')")
    install(python, tmp_path / "data", bundle).end()
    assert (torn / ".complete").exists() and code_names(tmp_path / "data") == [bundle.code]


def test_two_clients_that_send_it_at_once_both_get_their_agent(python: str, tmp_path: Path, bundle: deploy.Bundle) -> None:
    both = [Boot(python, tmp_path / "data", bundle) for _ in range(2)]
    for one in both:
        assert one.message() == {"boot": "need"}
    for one in both:
        one.send(bundle.data)
    for one in both:
        assert one.message() == {"boot": "have"}
        assert one.message() == {"agent": "ready"}
        assert one.end() == (0, "")
    assert code_names(tmp_path / "data") == [bundle.code]


def test_a_directory_that_others_may_write_is_refused(python: str, tmp_path: Path, bundle: deploy.Bundle) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o770)
    message = failed(Boot(python, tmp_path / "data", bundle))
    assert message["kind"] == "data-dir" and "chmod go-w" in message["message"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(python: str, tmp_path: Path, bundle: deploy.Bundle) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    os.chown(tmp_path / "data", 12345, 12345)
    message = failed(Boot(python, tmp_path / "data", bundle))
    assert message["kind"] == "data-dir" and "belongs to user id 12345" in message["message"]


def test_a_place_that_cannot_be_written_is_refused(python: str, bundle: deploy.Bundle) -> None:
    # /proc takes no new directory from anybody, root included; a file in the way is the other case.
    message = failed(Boot(python, Path("/proc/eaglewatch"), bundle))
    assert message["kind"] == "data-dir" and "cannot be used" in message["message"]
    message = failed(Boot(python, Path("/dev/null/eaglewatch"), bundle))
    assert message["kind"] == "data-dir"


FAULTS = {
    "no room": "os.statvfs = lambda path, real=os.statvfs: type(real(path))([1, 1, 10, 0, 0, 1, 1, 1, 0, 255])",
    "full": "os.write = fail(errno.ENOSPC)",
    "quota": "os.fsync = fail(errno.EDQUOT)",
    "read-only": "os.access = lambda *arguments: False",
    "i/o": "os.rename = fail(errno.EIO)",
}

"""What the file system does in the interpreter of the bootstrap (a real one cannot be mounted everywhere)."""


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("no room", "disk-full"), ("full", "disk-full"), ("quota", "disk-full"), ("read-only", "data-dir"), ("i/o", "data-dir")],
)
def test_a_file_system_that_fails_is_told_and_nothing_is_left(
    python: str, tmp_path: Path, bundle: deploy.Bundle, fault: str, kind: str
) -> None:
    lines = ["import errno, os", "def fail(code):", "    def call(*arguments): raise OSError(code, os.strerror(code))", "    return call"]
    (tmp_path / "sitecustomize.py").write_text("\n".join([*lines, FAULTS[fault], ""]))
    one = Boot(python, tmp_path / "data", bundle, PYTHONPATH=str(tmp_path))
    message = one.message()
    if message == {"boot": "need"}:
        one.send(bundle.data)
        message = one.message()
    assert message is not None and (message["boot"], message["kind"]) == ("error", kind)
    assert one.end()[0] == 2
    assert code_names(tmp_path / "data") == []


def test_old_code_goes_but_not_what_an_attempt_or_an_agent_names(python: str, tmp_path: Path, bundle: deploy.Bundle) -> None:
    codes = tmp_path / "data" / "code"
    for number in range(8):
        folder = codes / f"{number:016x}"
        folder.mkdir(parents=True)
        (folder / ".complete").touch()
        os.utime(folder, (1_000_000 + number, 1_000_000 + number))
    for path in (codes, codes.parent):
        path.chmod(0o700)
    live, ended = (tmp_path / "data" / "runs" / "r" / "stages" / "extract" / name for name in ("live", "ended"))
    for attempt, number in ((live, 0), (ended, 1)):
        attempt.mkdir(parents=True)
        (attempt / "spec.json").write_text(json.dumps({"code": f"{number:016x}"}))
    (ended / "exit.json").write_text("{}")
    (tmp_path / "data" / "agents").mkdir()
    (tmp_path / "data" / "agents" / "1.json").write_text(json.dumps({"code": f"{2:016x}"}))
    (codes / ".new-1-dead").mkdir()
    os.utime(codes / ".new-1-dead", (1_000_000, 1_000_000))
    install(python, tmp_path / "data", bundle).end()
    kept = {f"{number:016x}" for number in (0, 2, 6, 7)} | {bundle.code}
    assert set(code_names(tmp_path / "data")) == kept


def test_a_command_line_holds_nothing_that_a_shell_could_take_for_itself() -> None:
    for python in ("python3", "/opt/venv-1.0/bin/python3.11", "~/venv/bin/python"):
        assert boot.command(python) == f"exec {python} -uc 'exec(eval(input()))'"
    for python in ("python 3", "py;ls", "$HOME/python", "~user/python", "-c", "", "py'thon"):
        with pytest.raises(ValueError, match="interpreter"):
            boot.command(python)


def test_the_line_is_one_line_of_plain_ascii() -> None:
    line = boot.line(NONCE, "/dätä'\"\n", "c" * 16, "0" * 64, 12)
    assert line.count(b"\n") == 1 and line.isascii() and len(line) < 32768
    source = eval(line)
    assert "'/d\\xe4t\\xe4" in source
    compile(source, "boot", "exec")
