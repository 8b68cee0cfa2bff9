"""What console and host agree on: stages, paths, events, telemetry, states. Standard library, Python 3.8."""

WIRE_VERSION = 1
"""Raised when a frame, request or file on the host changes so that an older reader would misread it."""
