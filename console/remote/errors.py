"""What can go wrong between the console and the host program, each as one clear sentence with a kind to act on."""

from pipeline.errors import EXIT_CANNOT_TELL, EXIT_FAILED, EXIT_USAGE, StageError

# Worth another try by itself.
UNREACHABLE = "unreachable"
REFUSED = "refused"
TIMEOUT = "timeout"
LOST = "lost"
BUSY = "busy"
"""The server gives no further session, or the host no lock."""
SILENT = "silent"
"""Logged in, and the bootstrap did not answer in time."""
HOST = "host"
"""The bootstrap ran and could not go on, for a reason that may pass (disk full)."""

# These wait for a person.
HOST_KEY_UNKNOWN = "host-key-unknown"
HOST_KEY_CHANGED = "host-key-changed"
AUTH = "auth"
ENCRYPTED_KEY = "encrypted-key"
CONFIG = "config"
"""ssh config, key file or hosts.toml."""
PROTOCOL = "protocol"
"""Whatever listens there, no SSH session can be agreed with it."""
NO_AGENT = "no-agent"
"""Logged in, and what ran there was not the host program: restricted command, no Python, Python too old."""

# From the host program, about one request.
USAGE = "usage"
MISSING = "missing"
FAILED = "failed"
GPUS = "gpus"
"""What a stage needs is not verified free."""
INTERNAL = "internal"
CLOSED = "closed"
"""This side closed the link."""

RETRIED = frozenset({UNREACHABLE, REFUSED, TIMEOUT, LOST, BUSY, SILENT, HOST})
AUTH_KINDS = frozenset({AUTH, ENCRYPTED_KEY})
HOST_KEY_KINDS = frozenset({HOST_KEY_UNKNOWN, HOST_KEY_CHANGED})


class RemoteError(StageError):
    """``kind`` is one of the words of this module, ``hint`` what to do about it (may be empty)."""

    def __init__(self, kind: str, message: str, hint: str = ""):
        super().__init__(f"{message}; {hint}" if hint else message)
        self.kind = kind
        self.message = message
        self.hint = hint

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """A link that fails says nothing about a job, so it is "cannot tell"; a refused request is the asker's.

        A host program that is at fault says nothing about a job either.
        """
        if self.kind in (USAGE, MISSING, CONFIG) or (self.kind == BUSY and isinstance(self, AgentError)):
            return EXIT_USAGE
        return EXIT_FAILED if self.kind == FAILED else EXIT_CANNOT_TELL


class SshError(RemoteError):
    """No connection, or no host program at its other end."""

    @property
    def retried(self) -> bool:
        """Whether trying again by itself makes sense. Never for a refused login: hosts ban who tries often."""
        return self.kind in RETRIED


class AgentError(RemoteError):
    """A request that failed: the host program's own kinds, or ``timeout``, ``lost``, ``closed``.

    After the last three nobody knows whether the host did what was asked.
    """

    @property
    def unanswered(self) -> bool:
        return self.kind in (TIMEOUT, LOST, CLOSED)
