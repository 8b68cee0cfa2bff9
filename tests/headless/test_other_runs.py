"""What another run of the host has all GPUs for: named, with how to stop it, before anything is launched."""

from pathlib import Path
from typing import cast

import pytest

from console.core import runs
from console.headless import starting
from console.headless.session import Session
from pipeline.contract import telemetry
from pipeline.errors import UserError
from tests.headless.test_chain_runner import FOREIGN, PlayedHost, run


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize("state", [telemetry.LAUNCHING, telemetry.RUNNING, telemetry.STOPPING])
async def test_a_stage_of_another_run_that_has_all_the_gpus_is_named_and_nothing_is_launched(state: str) -> None:
    host = PlayedHost()
    host.others = [runs.Listed("fourth", {"extract": state}, {})]
    with pytest.raises(UserError) as raised:
        await starting.check(cast(Session, host), "gpu-box", "r", "serve", {})
    assert str(raised.value) == (
        "serve of run r on gpu-box was not started: "
        "extract of run fourth holds the GPUs (eaglewatch stop gpu-box --run fourth --stage extract)"
    )
    result, _, _ = await run(host)
    assert (result.code, host.did) == (2, []) and "extract of run fourth holds the GPUs" in result.error
    await starting.check(cast(Session, host), "gpu-box", "r", "prepare", {})  # it needs none
    host.others = [runs.Listed("fourth", {"extract": telemetry.DONE, "generate": telemetry.RUNNING}, {})]
    await starting.check(cast(Session, host), "gpu-box", "r", "serve", {})


async def test_a_server_of_another_run_is_called_ours() -> None:
    host = PlayedHost()
    host.servers = [{**FOREIGN, "ours": {"run": "second", "stage": "serve", "attempt": "20260101-000000-bbbbbbbbbbbb"}}]
    host.tell()
    result, _, _ = await run(host)
    assert (result.code, host.did) == (2, []) and "not ours" not in result.error
    assert result.error.endswith("serve of run second holds the GPUs (eaglewatch stop h --run second --stage serve)")
