"""Key and known_hosts files, read as tolerantly as OpenSSH reads them. Runs in a thread: a key takes milliseconds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from console.remote.errors import CONFIG, SshError

if TYPE_CHECKING:
    import asyncssh


@dataclass
class Keys:
    """Private keys to offer."""

    usable: "list[asyncssh.SSHKeyPair]" = field(default_factory=list)
    encrypted: list[Path] = field(default_factory=list)
    """They need a passphrase, so only the ssh agent can use them."""


def load_keys(paths: Iterable[Path], wanted_by: str | None) -> Keys:
    """The keys in ``paths``. A file that is no private key is passed over, or, for a host that names it itself, an SshError (config)."""
    import asyncssh

    keys = Keys()
    for path in paths:
        try:
            keys.usable += asyncssh.load_keypairs(str(path))
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            if isinstance(error, asyncssh.KeyEncryptionError) or "assphrase" in str(error):
                keys.encrypted.append(path)
            elif wanted_by:
                raise SshError(CONFIG, f"{wanted_by}: client_keys: {path} holds no private key that can be read ({error})") from None
        except OSError as error:
            if wanted_by:
                raise SshError(CONFIG, f"{wanted_by}: client_keys: {path}: {error.strerror}") from None
    return keys


def public_keys(paths: Iterable[Path]) -> "list[asyncssh.SSHKey]":
    """The public halves of ``paths``, where they can be read: what the ssh agent may use with IdentitiesOnly."""
    import asyncssh

    found = []
    for path in paths:
        for candidate in (path.with_name(path.name + ".pub"), path):
            try:
                found.append(asyncssh.read_public_key(candidate))
                break
            except (OSError, asyncssh.KeyImportError):
                continue
    return found


def load_known_hosts(paths: Iterable[Path]) -> "asyncssh.SSHKnownHosts":
    """All entries of ``paths``; lines that make no sense are passed over, a file that is not there is empty."""
    import asyncssh

    known = asyncssh.SSHKnownHosts()
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                known.load(line)
            except ValueError:
                continue
    return known


def is_known(known: "asyncssh.SSHKnownHosts", host: str, addr: str, port: int) -> bool:
    """Whether there is any key for exactly this host and port (asyncssh's own look-up falls back to port 22)."""

    names = [name if port == 22 else f"[{name}]:{port}" for name in (host, addr) if name]
    return any(any(known.match(name, "", None)[:2]) for name in names)
