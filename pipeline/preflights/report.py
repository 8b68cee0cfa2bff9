"""The lines of a report. A check that fails, or breaks, is a line; the others are looked at all the same."""

import contextlib
import io
from collections.abc import Callable
from typing import Any, TypeVar

from pipeline.contract import preflight
from pipeline.errors import StageError
from pipeline.visible import visible

T = TypeVar("T")
_SHOWN = 2000


class NotSoError(Exception):
    """A check found what must not be: ``args`` are the evidence, and what to do."""


class CannotTellError(Exception):
    """A check cannot tell: ``args`` are the evidence that it has, and what to do. ``facts`` are for programs."""

    def __init__(self, *said: str, **facts: Any):
        super().__init__(*said)
        self.facts = facts


class Report:
    """Each line is handed to ``tell`` as soon as it is known, and kept."""

    def __init__(self, tell: Callable[[preflight.Line], None] = lambda line: None):
        self._tell = tell
        self.lines: list[preflight.Line] = []

    def add(self, check: str, ok: bool | None, evidence: str, what_to_do: str = "", gpu: bool = False, **more: Any) -> None:
        """``more``: facts for programs, beside what a line always has."""
        line = {"check": check, "ok": ok, "evidence": _one_line(evidence), "what_to_do": _one_line(what_to_do), "gpu": gpu, **more}
        self.lines.append(line)
        self._tell(line)

    def check(self, name: str, look: Callable[[], T], evidence: Callable[[T], str], gpu: bool = False) -> T | None:
        """What ``look`` gave, and a line with the evidence in it; None, and a line that says why, when it raised.

        A stage's error is "what is wrong; what to do". What the checks say to the stage's log is evidence too.
        """
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                found = look()
                shown = evidence(found)
        except StageError as error:
            what, _, mend = str(error).partition("; ")
            self.add(name, False, what + _notes(said), mend, gpu)
        except (NotSoError, CannotTellError) as error:
            evidence_text, what_to_do = (*error.args, "")[:2]
            told = error.facts if isinstance(error, CannotTellError) else {}
            self.add(name, False if isinstance(error, NotSoError) else None, evidence_text + _notes(said), what_to_do, gpu, **told)
        except Exception as error:  # a broken library, a file that went away: one check less, not the end of all
            reason = f"{getattr(error, 'filename', None) or type(error).__name__}: {getattr(error, 'strerror', None) or error}"
            self.add(name, None, f"this could not be looked at: {reason}" + _notes(said), "", gpu)
        else:
            self.add(name, True, shown + _notes(said), "", gpu)
            return found
        return None

    def unknown(self, name: str, needs: str, gpu: bool = False) -> None:
        """A check whose own input is another check that failed."""
        self.add(name, None, f"not looked at: it needs {needs}", "", gpu)

    @property
    def ok(self) -> bool | None:
        return preflight.verdict(self.lines)


def _notes(said: io.StringIO) -> str:
    """Lines of the log, without their clock and without the word ``note``."""
    lines = [line.partition(" ")[2].removeprefix("note: ") for line in said.getvalue().splitlines()]
    return "".join(f"; {line}" for line in lines if line)


def _one_line(text: Any) -> str:
    return visible(" ".join(str(text).split()))[:_SHOWN]
