"""Where and how to connect, as OpenSSH itself would: asked of ``ssh -G``, which also knows the system-wide config.

asyncssh reads only the user's file. Without an ssh command on this machine that is what counts (``resolve`` returns None).
"""

import asyncio
import contextlib
import getpass
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from console.config import Target
from console.core import sanitize
from console.remote.errors import CONFIG, SshError

_SECONDS = 15.0
"""``ssh -G`` runs the ``Match exec`` commands of the config."""
MAX_JUMPS = 4
DEFAULT_KNOWN_HOSTS = (Path("~/.ssh/known_hosts").expanduser(), Path("/etc/ssh/ssh_known_hosts"))


@dataclass(frozen=True)
class SshConfig:
    """The part of OpenSSH's settings for one host that the console follows."""

    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    """Those that exist."""
    identities_only: bool = False
    agent: str | None = ""
    """Socket of the ssh agent; "" for SSH_AUTH_SOCK, None for no agent."""
    known_hosts: tuple[Path, ...] = ()
    """Those that exist."""
    keeps_known_hosts: bool = True
    """False: the user's file is /dev/null or none, so a key that was accepted is forgotten at once."""
    host_key_alias: str | None = None
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None


async def resolve(target: Target) -> SshConfig | None:
    """OpenSSH's settings for ``target``; None where this machine has no ssh command. Raises SshError (config)."""
    program = shutil.which("ssh")
    if program is None:
        return None
    arguments = ["-G"]
    arguments += ["-p", str(target.port)] if target.port else []
    arguments += ["-l", target.user] if target.user else []
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        "--",
        target.name,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        raise SshError(
            CONFIG, f"ssh -G {target.name} did not answer in {_SECONDS:.0f} s", "look for a Match exec in the ssh config"
        ) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        said = sanitize.line(" ".join(err.decode("utf-8", "replace").split()), 200)
        raise SshError(CONFIG, f"ssh does not accept its config for {target.name}: {said}")
    return parse(out.decode("utf-8", "replace"), target)


def parse(text: str, target: Target) -> SshConfig:
    """The settings in the output of ``ssh -G``."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key, []).append(value.strip())

    def one(key: str, default: str = "") -> str:
        return values.get(key, [default])[0]

    host, user = one("hostname", target.name), one("user", target.user or getpass.getuser())
    port = int(one("port", "22"))
    tokens = {"%": "%", "h": host, "n": target.name, "p": str(port), "r": user, "u": getpass.getuser(), "d": str(Path.home())}
    agent = one("identityagent", "SSH_AUTH_SOCK")
    proxy_command = one("proxycommand", "none")
    jumps = one("proxyjump", "none")
    known = f"{one('userknownhostsfile')} {one('globalknownhostsfile')}".split()
    return SshConfig(
        host=host,
        port=port,
        user=user,
        identity_files=tuple(path for value in values.get("identityfile", []) if (path := _path(value, tokens)).is_file()),
        identities_only=one("identitiesonly") == "yes",
        agent={"SSH_AUTH_SOCK": "", "none": None}.get(agent, str(_path(agent, tokens))),
        known_hosts=tuple(path for value in known if value != "none" and (path := _path(value, tokens)).is_file()),
        keeps_known_hosts=one("userknownhostsfile") not in ("/dev/null", "none"),
        host_key_alias=one("hostkeyalias") or None,
        jumps=() if jumps == "none" else tuple(jumps.split(",")),
        proxy_command=None if proxy_command == "none" else _expand(proxy_command, tokens),
    )


def _path(value: str, tokens: dict[str, str]) -> Path:
    return Path(os.path.expandvars(_expand(value.strip('"'), tokens))).expanduser()


def _expand(value: str, tokens: dict[str, str]) -> str:
    """``value`` with its %-tokens replaced; one that is not known stays as it is."""
    out, rest = "", value
    while "%" in rest:
        before, _, rest = rest.partition("%")
        letter, rest = rest[:1], rest[1:]
        out += before + tokens.get(letter, "%" + letter)
    return out + rest
