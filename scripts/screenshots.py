"""Make screenshots/*.svg from real commands run in a real pseudo-terminal: nothing in them is drawn by hand.

Run by `make screenshots`. Takes about two minutes.
"""

import io
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
EAGLEWATCH = Path(sys.executable).with_name("eaglewatch")
COLUMNS, ROWS = 120, 40


def capture(arguments: list[str], environment: dict[str, str], limit_s: float) -> str:
    """What the command prints on a terminal of 120x40, until it ends. Raises RuntimeError when it takes too long."""
    parent, child = pty.openpty()
    os.set_blocking(parent, False)
    process = subprocess.Popen(
        [str(EAGLEWATCH), *arguments],
        stdin=child,
        stdout=child,
        stderr=child,
        env={**environment, "COLUMNS": str(COLUMNS), "LINES": str(ROWS)},
    )
    os.close(child)
    chunks: list[bytes] = []
    deadline = time.monotonic() + limit_s
    while True:
        if time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"{' '.join(arguments)}: not ended after {limit_s:.0f} s")
        if not select.select([parent], [], [], 0.5)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            data = os.read(parent, 65536)
        except OSError:  # Linux answers EIO once the other side is closed
            break
        if not data:
            break
        chunks.append(data)
    if process.wait() != 0:
        print(f"note: {' '.join(arguments)} ended with {process.returncode}", file=sys.stderr)
    os.close(parent)
    return b"".join(chunks).decode("utf-8", "replace").replace("\r\n", "\n")


def save(name: str, title: str, text: str) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), legacy_windows=False)
    console.print(Text.from_ansi(text), soft_wrap=False)
    path = ROOT / "screenshots" / f"{name}.svg"
    path.parent.mkdir(exist_ok=True)
    console.save_svg(str(path), title=title, unique_id=name)
    print(path.relative_to(ROOT))


def main() -> None:
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "XDG_STATE_HOME": state}
        save("rehearse", "eaglewatch rehearse --headless", capture(["rehearse", "--headless"], environment, 400))
        save("status", "eaglewatch status rehearsal", capture(["status", "rehearsal"], environment, 60))


if __name__ == "__main__":
    main()
