"""The lines about what the work stands on: the disk that it writes to, its processes, the host."""

from textual.content import Content

from console.core import disk_full, eta_words, fmt
from console.core.attempt import Attempt
from console.core.views import Disk
from console.tui import words
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, WARN, Piece, line
from console.tui.state import ConsoleState
from pipeline.contract.signals import RED


def room(state: ConsoleState, attempt: Attempt, written: int | None, total: int | None) -> list[Piece]:
    """Whether the disk will hold what is still to be written, and when it is full if not."""
    disk = output_disk(state)
    if disk is None:
        return [Piece("disk not told", MUTED, 2)]
    free = disk.free_bytes.value
    if free is None:
        return [Piece(f"disk {disk.free_bytes.why}", WARN, 2)]
    told = f"disk {fmt.size(free)} free"
    if not attempt.live or not state.current:
        return [Piece(told)]
    risk = words.disk_risk(state, attempt)
    found = eta_words.disk(state.store, attempt, risk, words.here(state))
    if found:
        return [Piece(f"{told}, {found}", BAD if risk.level == RED or risk.short_bytes else WARN)]
    if total is None or written is None:
        return [Piece(told)]
    return [Piece(f"{told}, enough", GOOD if total - written < free / 2 else PLAIN)]


def output_disk(state: ConsoleState) -> Disk | None:
    """The disk that the stage writes to; where it is not told, the data directory's."""
    return disk_full.output_disk(state.view) if state.view is not None else None


def process(state: ConsoleState, attempt: Attempt, width: int) -> Content:
    """Which attempt it is, by whom, and what runs of it."""
    view = state.view
    since = view.age_s(attempt.started_boot_s, state.age_s) if view and attempt.live else None
    tree = ""
    if attempt.live and attempt.procs is not None:
        tree = f"{attempt.procs} process{'' if attempt.procs == 1 else 'es'}, {fmt.size(attempt.rss_bytes)}"
    pieces = [
        Piece(f"attempt {attempt.id}", MUTED),
        Piece(f"by {attempt.by}" if attempt.by else "", MUTED, 2),
        Piece(f"running {fmt.duration(since)}" if since is not None else "", PLAIN),
        Piece(f"pid {attempt.pid}" if attempt.pid is not None and attempt.live else "", PLAIN, 1),
        Piece(tree, PLAIN, 3),
        Piece("UNSUPERVISED" if attempt.live and attempt.supervised is False else "", WARN),
    ]
    return line(pieces, [], width)


def machine(state: ConsoleState, width: int) -> Content:
    """Load, memory and disk of the host."""
    view = state.view
    if view is None:
        return Content()
    ram = f"{fmt.size(view.ram_available_bytes.value)} of {fmt.size(view.ram_total_bytes.value)} RAM available"
    disk = output_disk(state)
    disk_age = view.age_s(disk.boot_s, state.age_s) if disk else None
    pieces = [
        Piece(
            f"host load {fmt.rate(view.load1.value)} on {view.cpus or '?'} cores" if view.load1.known else f"host load {view.load1.why}",
            MUTED,
        ),
        Piece(ram if view.ram_available_bytes.known else f"RAM {view.ram_available_bytes.why}", MUTED, 1),
        Piece(f"{disk.path}: {fmt.size(disk.free_bytes.value)} free, read {fmt.age(disk_age)} ago" if disk else "", MUTED, 2),
    ]
    return line(pieces, [], width)
