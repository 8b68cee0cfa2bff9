"""A run on its way from the answers to the extraction: the host's plan of it, the action at work or armed, and what it came to."""

from typing import Any

import free_scenes
import scenes

from pipeline.contract import free, telemetry, transition

ACTION = "20251231-131000-bbbbbbbbbbbb"
STAGES = ("prepare", "vocab", "extract")
SERVICE = "k25-10k/serve"
PHRASE = transition.phrase("gpu-host", scenes.RUN, list(STAGES), SERVICE, False)
PHRASE_ARMED = transition.phrase("gpu-host", scenes.RUN, list(STAGES), SERVICE, True)


def server() -> dict[str, Any]:
    return scenes.attempt(
        stage="serve", attempt="20251231-075000-0123456789ab", started_boot_s=scenes.NOW_S - 9000, ledger=None, directory=None,
        progress=scenes.progress(phase=telemetry.STEADY, unit=None, done=None, total=None, up=True, up_boot_s=scenes.NOW_S - 1),
    )  # fmt: skip


def generating() -> dict[str, Any]:
    return scenes.attempt(stage="generate", attempt="20251231-090000-0123456789ab", ledger=None, directory=None,
                          progress=scenes.progress(unit="prompt"))  # fmt: skip


def stages(runs: bool) -> dict[str, Any]:
    """The server is up; generate runs, or is done."""
    done = {"generate": scenes.stages()["generate"]}
    return {"serve": server(), **({"generate": generating()} if runs else done)}


def plan(runs: bool = False, **changes: Any) -> dict[str, Any]:
    service = changes.pop("service", SERVICE)
    steps = []
    for one in transition.steps("generate", list(STAGES), service):
        known = {
            transition.OUTPUT: (transition.OPEN if runs else transition.PROVEN, "generate is RUNNING" if runs else "10,000 answers"),
            transition.HOLDERS: (transition.PROVEN, "nobody else is on the GPUs"),
        }
        state, line = known.get(one["step"], (transition.OPEN, ""))
        steps.append({**one, "state": state, "line": line})
    found = free_scenes.plan(free_scenes.our_rows())
    value = {
        "label": "gpu-host", "run": scenes.RUN, "from": "generate", "from_attempt": "a", "from_state": "DONE", "from_line": "",
        "stages": [{"stage": one, "interpreter": "/opt/train/bin/python", "args": [], "env": {}, "now": "not proven", "line": ""}
                   for one in STAGES],
        "service": {"how": "attempt", "name": service} if service else None, "free": found, "steps": steps, "trouble": [],
        "phrase": transition.phrase("gpu-host", scenes.RUN, list(STAGES), service, False),
        "phrase_armed": transition.phrase("gpu-host", scenes.RUN, list(STAGES), service, True),
        "digest": "0a1b2c3d4e5f6071", "surveyed_boot_s": scenes.NOW_S - 0.4, "settings_sha256": "x",
    }  # fmt: skip
    return {**value, **changes}


def step(name: str, begins: bool, at: float, **fields: Any) -> dict[str, Any]:
    return free_scenes.step(name, begins, at, **fields)


def confirmed(armed: bool) -> list[dict[str, Any]]:
    phrase = PHRASE_ARMED if armed else PHRASE
    return [step("CONFIRMED", True, -40, phrase=phrase, armed=armed), step("CONFIRMED", False, -40, result="as planned", seconds=0.0)]


def does(name: str, stage: str) -> str:
    return transition.DOES[name].format(before="generate", stage=stage, service=SERVICE, unit="sample")


def events() -> list[dict[str, Any]]:
    """As far as freeing, which reads the GPUs."""
    told = confirmed(False)
    for at, name, stage, result in (
        (-39.0, "OUTPUT", "generate", "10,000 answers"), (-38.0, "STAGE", "prepare", "9,990 samples"),
        (-30.0, "HOLDERS", "extract", "nobody else is on the GPUs"), (-29.0, "STOP_SERVER", "extract", f"{SERVICE} has stopped"),
    ):  # fmt: skip
        told += [step(name, True, at, stage=stage, does=does(name, stage)),
                 step(name, False, at + 1, result=result, seconds=1.0, state="proven", stage=stage)]  # fmt: skip
    told += [step("FREE", True, -9.0, stage="extract", does=does("FREE", "extract")), step("SURVEY", True, -9.0)]
    return [*told, step("SURVEY", False, -8.7, result="8 GPUs, 0 processes", seconds=0.3), step("VERIFY", True, -3.0)]


def action(armed: bool = False, **changes: Any) -> dict[str, Any]:
    if armed:
        told = [*confirmed(True), step("ARMED", True, -39, stage="generate", attempt="a")]
        at = {"phase": "armed", "step": "ARMED", "deadline_boot_s": None, "note": "generate is RUNNING"}
    else:
        told, at = events(), {"phase": "steady", "step": "VERIFY", "deadline_boot_s": scenes.NOW_S + 4.0, "note": "2 of 5 readings"}
    value = scenes.attempt(
        stage=transition.ACTION, attempt=ACTION, run=scenes.RUN, by="me on here", started_boot_s=scenes.NOW_S - 40, pid=7001, ledger=None,
        directory=None, progress={**at, "step_boot_s": scenes.NOW_S - 3, "boot_s": scenes.NOW_S - 0.2, "curve": []}, receipt=None,
        events=told[-20:],
    )  # fmt: skip
    return {**value, **changes}


def receipt(stopped: bool = False, **changes: Any) -> dict[str, Any]:
    """Done; or stopped since anna came while the server still ran."""
    line = "GPU 3 is held by 5150 anna python train.py"
    told = [{"step": "OUTPUT", "stage": "generate", "state": "proven", "line": "10,000 answers", "seconds": 0.4}]
    if stopped:
        told.append({"step": "HOLDERS", "stage": "extract", "state": "not proven", "line": line, "seconds": 0.3})
    else:
        told.append({"step": "FIRST_UNIT", "stage": "extract", "state": "proven", "line": "1 new sample; hs_0 is whole", "seconds": 9.0})
    value = {
        "outcome": "stopped" if stopped else "done", "verified": not stopped, "bad": int(stopped), "exit_code": 11 if stopped else 0,
        "line": f"stopped at HOLDERS: {line}" if stopped else "extract: 1 new sample; hs_0 is whole",
        "stopped_at": "HOLDERS" if stopped else None, "alert": line if stopped else "", "steps": told,
        "launched": {} if stopped else {"extract": "20251231-131100-cccccccccccc"}, "preflight": [], "free": None, "goal": "extract",
        "armed": False, "override": None, "phrase": PHRASE, "digest": "0a1b2c3d4e5f6071", "label": "gpu-host", "by": "me on here",
        "took_s": 40.0,
    }  # fmt: skip
    return {**value, **changes}


def ended(of: dict[str, Any], **changes: Any) -> dict[str, Any]:
    good = of["exit_code"] == 0
    plain = {name: value for name, value in of.items() if not isinstance(value, (list, dict))}
    made = action(
        state=telemetry.DONE if good else telemetry.FAILED, why="" if good else of["line"], receipt=plain,
        exit={"code": of["exit_code"], "signal": None, "boot_s": scenes.NOW_S - 1}, ended_boot_s=scenes.NOW_S - 1,
    )  # fmt: skip
    return {**made, **changes}


def frame(at: dict[str, Any] | None = None, runs: bool = False, boot_s: float = scenes.NOW_S, **changes: Any) -> dict[str, Any]:
    value = {"stages": stages(runs), "actions": {} if at is None else {transition.ACTION: at}, **changes}
    assert free.ACTION not in value["actions"]
    return scenes.frame(boot_s, **value)
