"""Why a transition stops."""

from pipeline.contract import transition


class NotProvenError(Exception):
    """A step is not proven: what is not so, one line."""

    def __init__(self, line: str, exit_code: int, outcome: str = transition.STOPPED):
        super().__init__(line)
        self.exit_code = exit_code
        self.outcome = outcome
