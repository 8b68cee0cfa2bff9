"""Lines that are appended to a log: whole or refused, and a line that a full disk cut short takes no other one with it."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.contract import events, layout
from pipeline.contract.files import append_line
from pipeline.host import audit

ROOM_BYTES = 300
CHILD = """
import sys
from pipeline.contract import events
from pipeline.host import audit
try:
    audit.append(sys.argv[2], {"what": "x" * 400}) if sys.argv[1] == "audit" else events.append_event(sys.argv[2], "stage", "x" * 400)
except OSError as error:
    sys.exit(str(error))
"""


def no_room() -> None:
    """A disk on which the file can only be so large: the kernel takes what still fits, as on one that is nearly full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))


@pytest.mark.parametrize(
    ("kind", "name", "append"),
    [
        ("audit", layout.AUDIT, lambda folder, what: audit.append(folder, {"what": what})),
        ("event", layout.EVENTS, lambda folder, what: events.append_event(folder, "stage", what)),
    ],
)
def test_a_line_cut_short_is_refused_and_the_next_one_is_whole(
    tmp_path: Path, kind: str, name: str, append: Callable[[str, str], Any]
) -> None:
    append(str(tmp_path), "before")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, kind, str(tmp_path)], preexec_fn=no_room, capture_output=True, text=True, timeout=60, cwd=Path.cwd()
    )
    assert done.returncode == 1 and "No space left" in done.stderr, "half a line was taken for a whole one"
    assert (tmp_path / name).stat().st_size == ROOM_BYTES
    append(str(tmp_path), "after")
    lines = (tmp_path / name).read_bytes().split(b"\n")
    whole = [json.loads(lines[number]) for number in (0, 2)]
    assert [one.get("what", one.get("kind")) for one in whole] == ["before", "after"] and lines[3:] == [b""]
    if kind == "event":
        found, end = events.read_events(str(tmp_path / name))
        assert [one["kind"] for one in found] == ["before", "after"] and end == (tmp_path / name).stat().st_size


def test_a_new_file_and_one_that_is_whole_get_nothing_but_the_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for line in (b"a", b"b"):
        append_line(str(path), line, durable=True)
    assert path.read_bytes() == b"a\nb\n" and path.stat().st_mode & 0o777 == 0o600
