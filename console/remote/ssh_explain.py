"""Why a login failed, as one clear sentence that says what to do."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.config import Host, Target
from console.core import sanitize
from console.remote import errors, ssh_files
from console.remote.errors import SshError
from console.remote.ssh_config import SshConfig


@dataclass
class Login:
    """One attempt to log in, and what the server showed."""

    name: str
    """What the operator calls it; for a jump host, both names."""
    target: Target
    host: Host | None
    config: SshConfig | None
    encrypted_keys: list[Path]
    known: Any
    """The known hosts (asyncssh.SSHKnownHosts)."""
    untrusted: tuple[str, str, int, Any] | None = None
    """Host, address, port and the key that it showed and that is not among the known ones."""
    banner: str = ""

    @property
    def where(self) -> str:
        return str(Target(self.config.host, None, self.config.port) if self.config else self.target)


def explain(error: Exception, login: Login, seconds: float) -> SshError:
    """``error`` of asyncssh.connect as ours; ``seconds`` is how long it could take."""
    import asyncssh

    name, where = login.name, login.where
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return _host_key(error, login)
    if isinstance(error, asyncssh.PermissionDenied) or "authentication failures" in str(error).lower():
        return _refused(login)
    if isinstance(error, TimeoutError):
        return SshError(errors.TIMEOUT, f"{name}: no answer from {where} within {seconds:.0f} s")
    if isinstance(error, ConnectionRefusedError):
        return SshError(errors.REFUSED, f"{name}: {where} refuses connections (no SSH server there?)")
    if isinstance(error, socket.gaierror):
        return SshError(errors.UNREACHABLE, f"{name}: cannot resolve the name {login.config.host if login.config else login.target.name}")
    if isinstance(error, (ConnectionResetError, asyncssh.ConnectionLost)):
        return SshError(errors.LOST, f"{name}: {where} closed the connection during the login")
    if isinstance(error, OSError):
        return SshError(errors.UNREACHABLE, f"{name}: cannot reach {where} ({error.strerror or _text(error)})")
    if isinstance(error, asyncssh.ChannelOpenError):
        return SshError(errors.UNREACHABLE, f"{name}: the jump host cannot reach {where} ({_text(error)})")
    if isinstance(error, ValueError):  # asyncssh's errors of its config parser
        return SshError(errors.CONFIG, f"{name}: the ssh config cannot be used ({_text(error)})")
    if not isinstance(error, (asyncssh.KeyExchangeFailed, asyncssh.ProtocolError, asyncssh.ProtocolNotSupported)):
        return SshError(errors.LOST, f"{name}: {where} ended the login ({_text(error)})")
    return SshError(errors.PROTOCOL, f"{name}: no SSH session can be agreed with {where} ({_text(error)})")


def _host_key(error: Exception, login: Login) -> SshError:
    name, host = login.name, login.host
    if login.untrusted is None:
        return SshError(errors.HOST_KEY_CHANGED, f"{name}: the host key is not valid ({_text(error)})", _changed_hint(login))
    known_as, addr, port, key = login.untrusted
    if login.config and login.config.host_key_alias:
        port = 22  # an alias is written without the port
    shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
    if ssh_files.is_known(login.known, known_as, addr, port):
        return SshError(
            errors.HOST_KEY_CHANGED, f"{name}: HOST KEY CHANGED: it now shows {shown}, which is not the known one", _changed_hint(login)
        )
    if host and host.known_hosts:
        hint = f"compare it with the host's own (ssh-keygen -lf) and put the key into {host.known_hosts}"
    elif login.config and not login.config.keeps_known_hosts:
        hint = "the ssh config keeps no known_hosts file for it (/dev/null): name a file with known_hosts in hosts.toml"
    else:
        hint = f"run `{_ssh_command(login.target)}` once, compare it and accept it (no dialog for it yet)"
    return SshError(errors.HOST_KEY_UNKNOWN, f"{name}: the host key is not known yet ({shown})", hint)


def _refused(login: Login) -> SshError:
    name = login.name
    if "pam_nologin" in login.banner:  # a host that is starting or going down says so, and lets nobody in for a while
        return SshError(errors.REFUSED, f"{name}: no logins now: {sanitize.line(login.banner.strip(), 120)}")
    if login.encrypted_keys:
        locked = ", ".join(str(path) for path in login.encrypted_keys)
        text = f"{name}: login refused; {locked} has a passphrase, so only the ssh agent can use it"
        return SshError(errors.ENCRYPTED_KEY, text, f"run `ssh-add {login.encrypted_keys[0]}` and try again (no dialog for it yet)")
    text = f"{name}: login refused: no key of the ssh config or the ssh agent is accepted"
    return SshError(errors.AUTH, text, f"see that `{_ssh_command(login.target)}` works without a question; it is not tried again by itself")


def _changed_hint(login: Login) -> str:
    where = f" -f {login.host.known_hosts}" if login.host and login.host.known_hosts else ""
    host, port = (login.config.host, login.config.port) if login.config else (login.target.name, login.target.port or 22)
    if login.config and login.config.host_key_alias:
        host, port = login.config.host_key_alias, 22
    known_as = host if port == 22 else f"[{host}]:{port}"
    remove = f"ssh-keygen{where} -R '{known_as}'"
    return f"if the host was installed anew, run `{remove}` and accept the new key; if not, somebody may be in between"


def _ssh_command(target: Target) -> str:
    login = f"{target.user}@{target.name}" if target.user else target.name
    return f"ssh -p {target.port} {login}" if target.port else f"ssh {login}"


def _text(error: BaseException) -> str:
    """What an exception says; the server has a part in it."""
    return sanitize.line(str(error) or type(error).__name__, 160)
