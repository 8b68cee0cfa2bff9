"""A stage gets GPUs on what was verified just now: what somebody frozen meanwhile still believes is verified anew, or refused."""

import subprocess
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from host_jobs import sleeper
from host_launches import RUN, Host, wait_for
from transition_runs import Way

from pipeline.contract import layout, telemetry
from pipeline.contract.clock import boot_s
from pipeline.host import evidence_age, gpu_claim, gpu_gate, launch, procs
from pipeline.host.errors import RequestError
from pipeline.rehearsal import sim_gpus


def evidence(age_s: float, **fields: Any) -> dict[str, Any]:
    told = {"free": True, "accepted": False, "line": "FREE: 0 MiB on 8/8", "expected_gpus": 8, "gpu_uuids": [], "wanted": [], "holders": []}
    return {**told, "override": None, "boot_id": procs.this_boot(), "read_boot_s": boot_s() - age_s, **fields}


@pytest.mark.parametrize(
    "old",
    [evidence(30), evidence(-30), evidence(0, boot_id="another"), evidence(0, read_boot_s=None)],
    ids=["old", "later", "boot", "none"],
)
def test_old_evidence_claims_nothing(old: dict[str, Any], host: Host) -> None:
    with pytest.raises(evidence_age.StaleEvidenceError, match="verified free"):
        gpu_claim.claim(str(host.data_dir), host.request(sleeper(host), run=RUN), str(host.code_dir), old)
    assert layout.attempts(str(host.run_dir), "extract") == []
    evidence_age.check({**old, "override": "a reason stands for itself"}, evidence_age.CLAIM_S)


def test_a_claim_that_was_begun_too_late_starts_nothing_and_one_that_was_verified_anew_does(host: Host) -> None:
    asked = host.request(sleeper(host))
    begun = launch.Launch(str(host.data_dir), asked, str(host.code_dir), host.python, gpus=evidence(evidence_age.SPAWN_S + 10))
    reply = wait_for(begun.poll, "the launch")
    assert reply["state"] == telemetry.LAUNCH_FAILED and "verified free 3" in reply["why"] and host.lines("pids") == []
    asked = host.request(sleeper(host))
    launch.claim(str(host.data_dir), asked, str(host.code_dir), evidence(300))  # whoever claimed it ended before it was started
    again = launch.Launch(str(host.data_dir), asked, str(host.code_dir), host.python, gpus=evidence(0))
    assert wait_for(again.poll, "the launch")["state"] == telemetry.RUNNING


def test_an_agent_that_was_frozen_after_the_verification_verifies_anew(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_age, "CLAIM_S", 1.0)
    gpus = nvml_fakes.create(tmp_path / "gpus.state", linger_ms=0)
    for name, value in nvml_fakes.in_python(gpus).items():
        monkeypatch.setenv(name, value)
    begun = gpu_gate.GatedLaunch(str(host.data_dir), host.request(sleeper(host), gpus={"expected_gpus": 8}), str(host.code_dir))
    first = begun._gate  # pyright: ignore[reportPrivateUsage] - its end is what nobody looks at for a while
    assert first is not None
    wait_for(lambda: first._process.poll() is not None, "the verification")  # pyright: ignore[reportPrivateUsage]
    with subprocess.Popen(["sleep", "600"]) as holder:
        try:
            sim_gpus.hold(str(gpus), 5, 70000, pid=holder.pid)
            frozen_s = boot_s()
            wait_for(lambda: boot_s() > frozen_s + evidence_age.CLAIM_S, "the time in which it is frozen")
            with pytest.raises(RequestError, match=f"held by {holder.pid} sleep 600"):
                wait_for(begun.poll, "the answer")
        finally:
            holder.kill()
    assert layout.attempts(str(host.run_dir), "extract") == []


def test_a_transition_that_was_frozen_before_the_launch_verifies_anew(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    way.finish("generate", "prepare", "vocab")
    monkeypatch.setattr(evidence_age, "CLAIM_S", 1.0)
    real, holders = gpu_gate.verify, []

    def frozen(*args: Any) -> dict[str, Any]:
        found = real(*args)
        if not holders:
            holders.extend(way.box.hold(gpus="6"))
            wait_for(lambda: boot_s() > found["read_boot_s"] + evidence_age.CLAIM_S, "the time in which it is frozen")
        return found

    monkeypatch.setattr(gpu_gate, "verify", frozen)
    gone = way.go(way.plan("vocab", "extract"))
    assert (gone.code, gone.where, way.live("extract")) == (11, "LAUNCH", "")
    assert f"held by {holders[0]} " in gone.receipt["alert"] and way.box.lives(holders[0])
