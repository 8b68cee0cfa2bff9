"""A port file is believed only when it names a whole process that lives."""

import json
import os
from pathlib import Path

import pytest

from console.rehearsal import home as homes
from console.rehearsal import start
from pipeline.contract import rehearsal
from pipeline.contract.clock import boot_id

DEAD_PID = 2**22 + 1
"""Above the largest that Linux gives."""


@pytest.mark.parametrize("pid", [DEAD_PID, None, 0, -1])
@pytest.mark.parametrize("ticks", [{}, {"start_ticks": None}, {"start_ticks": "x"}])
def test_a_server_without_its_start_ticks_is_not_alive(tmp_path: Path, pid: int | None, ticks: dict) -> None:
    pid = os.getpid() if pid is None else pid
    home = tmp_path / "home"
    homes.make(str(home))
    port_file = Path(rehearsal.port_file(str(home)))
    port_file.write_text(json.dumps({"boot_id": boot_id(), "pid": pid, "port": 22, **ticks}))
    assert homes.running_server(str(home)) is None
    start.stop_all(str(home))
    homes.remove(str(home))
    assert not home.exists()
