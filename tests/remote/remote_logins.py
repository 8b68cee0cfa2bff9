"""Logins that must fail: what they raise, and that a link gives up on them."""

import subprocess

import pytest

from console.config import Host
from console.remote import ssh
from console.remote.errors import SshError
from console.remote.link import Link
from tests.remote.remote_jobs import until


def tool(*command: str) -> str:
    """What one of OpenSSH's own tools prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30, stdin=subprocess.DEVNULL).stdout


async def failure(host: Host) -> SshError:
    with pytest.raises(SshError) as caught:
        connection = await ssh.connect(host)
        await connection.close()
    message = str(caught.value)
    assert "\n" not in message and host.alias in message and len(message) < 500
    return caught.value


async def stopped(host: Host, word: str) -> SshError:
    """Let a link dial ``host`` until it has given up with ``word``; requests then fail at once."""
    async with Link(host) as link:
        await until(lambda: link.status().word == word, why=link.status)
        assert link.status().next_in_s is None
        with pytest.raises(SshError) as caught:
            await link.request("hello", timeout_s=30)
        assert link.status().detail == str(caught.value)
        return caught.value
