"""A request that the host program turns down."""

USAGE = "usage"
BUSY = "busy"
MISSING = "missing"
FAILED = "failed"
INTERNAL = "internal"
GPUS = "gpus"
"""The GPUs that a stage needs are not verified free."""


class RequestError(Exception):
    """``kind`` is one of the words above; ``hint`` says what to do, when the message does not."""

    def __init__(self, kind: str, message: str, hint: str = ""):
        super().__init__(message)
        self.kind = kind
        self.hint = hint
