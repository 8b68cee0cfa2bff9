"""The bootstrap through the shells that a login may have, and what is said where it cannot start."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from console.remote import errors, state
from console.remote.errors import SshError
from console.remote.link import Link
from tests.fakes.sshd import Sshd
from tests.remote.remote_jobs import until

Make = Callable[..., Sshd]
SHELLS = [shell for shell in ("bash", "dash", "fish", "csh", "tcsh", "zsh") if shutil.which(shell)]
# Every start-up file that one of them reads without being asked for an interactive or login shell.
START_FILES = (".bashrc", ".cshrc", ".tcshrc", ".zshenv", ".config/fish/config.fish")
NOISE = "echo 'Welcome to the farm'; printf '\\036not ours{\\n'; printf '\\377\\376 prompt> '\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("noise", ["", NOISE], ids=["quiet", "noisy"])
async def test_a_login_shell(shell: str, noise: str, sshd: Make, tmp_path: Path) -> None:
    server = sshd(f'ForceCommand exec {shutil.which(shell)} -c "$SSH_ORIGINAL_COMMAND"')
    for name in START_FILES:
        (server.home / name).parent.mkdir(parents=True, exist_ok=True)
        (server.home / name).write_text(noise)
    async with Link(server.host(data_dir="~/data")) as link:
        hello = await link.wait_connected(30)
        assert hello["data_dir"] == str(server.home / "data")
        await until(lambda: link.status().word == state.LIVE, why=link.status)


async def test_the_interpreter_may_be_in_the_home(sshd: Make) -> None:
    server = sshd()
    (server.home / "bin").mkdir()
    (server.home / "bin" / "python").symlink_to(shutil.which("python3") or "")
    async with Link(server.host(python="~/bin/python")) as link:
        await link.wait_connected(30)


async def refused(server: Sshd, **changes: object) -> SshError:
    async with Link(server.host(**changes)) as link:
        with pytest.raises(SshError) as caught:
            await link.wait_connected(30)
        assert link.status().word == state.FAILED
    message = str(caught.value)
    assert "\n" not in message and message.isprintable()
    assert caught.value.kind == errors.NO_AGENT
    return caught.value


async def test_a_restricted_command(sshd: Make) -> None:
    error = await refused(sshd("ForceCommand echo restricted to backups"))
    assert "not the host program (exit code 0); it printed: restricted to backups" in str(error)
    assert "restricted to a command" in error.hint


async def test_a_menu_that_is_no_shell(sshd: Make) -> None:
    menu = "printf '\\033[2J\\033]0;owned\\007Choose: '; exit 5"
    error = await refused(sshd(f"ForceCommand {menu}"))
    assert "exit code 5" in str(error) and "Choose:" in str(error)


@pytest.mark.parametrize("shell", SHELLS)
async def test_no_such_python(shell: str, sshd: Make) -> None:
    server = sshd(f'ForceCommand exec {shutil.which(shell)} -c "$SSH_ORIGINAL_COMMAND"')
    error = await refused(server, python="/no/such/python")
    assert "/no/such/python" in str(error)
    named = await refused(server, python="nosuchpython")
    assert "nosuchpython" in str(named) and "`python` in hosts.toml" in named.hint


async def test_an_old_python_says_so(sshd: Make, tmp_path: Path) -> None:
    """A real interpreter that only pretends to be old: the bootstrap itself must tell."""
    old = tmp_path / "python3.6"
    old.write_text(f"#!{shutil.which('python3')}\nimport sys\nsys.version_info = (3, 6, 9, 'final', 0)\nexec(eval(input()))\n")
    old.chmod(0o755)
    error = await refused(sshd(), python=str(old))
    assert "3.8 or newer" in str(error)


async def test_a_data_directory_that_cannot_be_made(sshd: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = await refused(sshd(), data_dir=str(tmp_path / "file" / "data"))
    assert str(tmp_path / "file" / "data") in str(error)


async def test_a_data_directory_that_others_can_write(sshd: Make, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chmod(shared, 0o777)
    assert "can be written by others" in str(await refused(sshd(), data_dir=str(shared)))


async def test_a_host_that_worked_before_is_tried_again(sshd: Make, tmp_path: Path) -> None:
    """After a restart a host can let people in before its file systems are there."""
    server = sshd()
    python = tmp_path / "python3"
    python.symlink_to(shutil.which("python3") or "")
    async with Link(server.host(python=str(python), data_dir=str(tmp_path / "data"))) as link:
        await until(lambda: link.status().word == state.LIVE, why=link.status)
        python.unlink()
        server.drop()
        await until(lambda: "cannot be run" in link.status().detail, why=link.status)
        assert link.status().word == state.RECONNECTING and link.status().next_in_s is not None
        python.symlink_to(shutil.which("python3") or "")
        await until(lambda: link.status().word == state.LIVE, why=link.status)
