"""Why the host program did not start, told from what the login printed instead."""

from typing import Any

from console.core import sanitize
from console.remote import errors
from console.remote.errors import SshError
from console.remote.lines import NOISE_BYTES

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_SAID_CHARS = 240


def refused(name: str, message: dict[str, Any]) -> SshError:
    """The bootstrap ran and says why it cannot go on. Raised as ``host`` when time may cure it, else as ``no-agent``."""
    text = sanitize.line(message.get("message") or "no reason given", 500)
    kind = errors.HOST if message.get("kind") in ("disk-full", "bundle") else errors.NO_AGENT
    return SshError(kind, f"{name}: the host program cannot start: {text}", sanitize.line(message.get("hint"), 300))


def ended(name: str, exit_status: int | None, noise: bytes, errors_text: bytes, booted: bool) -> SshError:
    """The session ended before the host program spoke; ``booted``: the bootstrap had."""
    said = _said(noise, errors_text)
    if exit_status is None:
        return SshError(errors.LOST, f"{name}: connection lost while the host program was started{said}")
    if booted:
        return SshError(errors.NO_AGENT, f"{name}: the host program ended as it started (exit code {exit_status}){said}")
    if exit_status in (NOT_FOUND, NOT_EXECUTABLE) or b"ommand not found" in errors_text:  # csh says it with exit code 1
        text = f"{name}: its Python for the host program cannot be run (exit code {exit_status}){said}"
        return SshError(errors.NO_AGENT, text, "name one with `python` in hosts.toml")
    text = f"{name}: the login works, but what ran there is not the host program (exit code {exit_status}){said}"
    return SshError(errors.NO_AGENT, text, "is the account restricted to a command?")


def silent(name: str, seconds: float, noise: bytes, errors_text: bytes) -> SshError:
    """Nothing was heard for ``seconds``."""
    return SshError(errors.SILENT, f"{name}: no answer of the host program within {seconds:.0f} s{_said(noise, errors_text)}")


def _said(noise: bytes, errors_text: bytes) -> str:
    """The end of what was printed, where the reason usually is."""
    text = sanitize.line(" ".join((noise + b"\n" + errors_text).decode("utf-8", "replace").split()), 2 * NOISE_BYTES)
    if len(text) > _SAID_CHARS:
        text = "..." + text[-_SAID_CHARS:].partition(" ")[2]
    return f"; it printed: {text}" if text else "; it printed nothing"
