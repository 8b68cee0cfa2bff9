"""What the controller tells the app."""

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.tui.absence import LookBack


MISTAKE = "A mistake of eaglewatch: please report it"


class Changed(Message):
    """Something is there that the next tick should not keep waiting: the first frame, a new link state, an answer."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Changed)


class Said(Message):
    """A line for the operator that passes by; one that ``rings`` is heard too."""

    def __init__(self, text: str, severity: str = "information", rings: bool = False) -> None:
        super().__init__()
        self.text = text
        self.severity = severity
        self.rings = rings


class Problem(Message):
    """Something that was asked for did not happen: it stays until it was read."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.title = title
        self.text = text


class Ended(Message):
    """An attempt has ended since the run was last looked at from here: one that was seen alive, or of which nothing was seen."""

    def __init__(self, attempt: "Attempt") -> None:
        super().__init__()
        self.attempt = attempt


class LookedBack(Message):
    """Nobody looked from here for a while, and the host has told what happened meanwhile; None: it could not."""

    def __init__(self, back: "LookBack | None") -> None:
        super().__init__()
        self.back = back


class Broken(Message):
    """The console cannot work at all."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
