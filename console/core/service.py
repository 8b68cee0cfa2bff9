"""How a service stands, in one word. It is never a step that is done."""

from typing import TYPE_CHECKING

from pipeline.contract import telemetry

if TYPE_CHECKING:  # the screen's first paint waits for this module
    from console.core.attempt import Attempt

UP, LOADING, DOWN, OFF = "UP", "LOADING", "DOWN", "OFF"


def is_up(one: "Attempt | None") -> bool:
    """It was proven ready, and answered when it was asked last."""
    if one is None or one.state != telemetry.RUNNING or one.progress is None:
        return False
    return one.progress.phase == telemetry.STEADY and one.progress.up is True


def word(one: "Attempt | None") -> str:
    """UP, LOADING with its shards, DOWN (it was ready, and does not answer), OFF (never started, or stopped on request), else its state."""
    if one is None or one.state == telemetry.STOPPED:
        return OFF
    if is_up(one):
        return UP
    progress = one.progress
    if one.state == telemetry.LAUNCHING or (one.state == telemetry.RUNNING and (progress is None or progress.phase == telemetry.LOADING)):
        shards = progress is not None and progress.load_done is not None and progress.load_total
        return f"{LOADING} {progress.load_done}/{progress.load_total}" if progress is not None and shards else LOADING
    return DOWN if one.state == telemetry.RUNNING else one.state
