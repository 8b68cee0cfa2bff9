"""Each test has a state directory of its own, and no colour settings of the machine it runs on."""

from pathlib import Path

import pytest
from textual import _wait

_wait.SLEEP_GRANULARITY, _wait.SLEEP_IDLE = 1 / 200, 1 / 4000
"""How long Textual's pilot looks whether the app is idle: its own 20 ms, twice a key, are most of the time that these tests take."""


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path / "state" / "eaglewatch"
