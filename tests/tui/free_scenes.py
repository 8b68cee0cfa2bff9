"""A host whose GPUs are to be freed: its plan, the action at work, and its receipts; the story of the reference run among them."""

from typing import Any

import scenes

from pipeline.contract import free, telemetry

ACTION = "20251231-131000-aaaaaaaaaaaa"
BOOT = "boot-a"
UUIDS = [f"GPU-{index}" for index in range(8)]


def row(pid: int, indices: tuple[int, ...] = (0,), **changes: Any) -> dict[str, Any]:
    value = {
        "pid": pid, "start_ticks": pid * 10, "boot_id": BOOT, "pid_ns": 1, "own_pid_ns": False, "uid": 0, "user": "root",
        "exe": "/opt/vllm/bin/python3.12", "title": "VLLM::EngineCore", "cwd": "/root", "ppid": 1, "pgid": pid, "sid": pid, "state": "S",
        "since_boot_s": scenes.NOW_S - 11_400, "unit": None, "container": None, "manager": None,
        "gpus": [{"uuid": UUIDS[index], "index": index, "mib": 82_604} for index in indices], "any_gpu": False,
        "evidence": ["NVML C", "fd:/dev/nvidia0"], "ours": None, "relation": "same user", "uses_memory": True, "daemon": False,
        "killable": True, "chosen": False, "why_not": "",
    }  # fmt: skip
    return {**value, **changes}


def server_rows() -> list[dict[str, Any]]:
    """A vLLM that a unit keeps, none of ours; its worker on each GPU; the driver's daemon; and a process of another user."""
    unit = {"how": "systemd", "name": "vllm-k25.service", "unit": "vllm-k25.service", "unit_uid": None}
    kept = {"unit": "vllm-k25.service", "manager": unit}
    rows = [row(4100, (), title="/opt/vllm/bin/python /opt/vllm/bin/vllm serve /data/models/k25 --tensor-parallel-size 8", any_gpu=True,
                uses_memory=False, **kept)]  # fmt: skip
    rows += [row(4200 + index, (index,), title=f"VLLM::Worker_TP{index}", **kept) for index in range(8)]
    rows.append(row(912, (0, 1), title="/usr/bin/nvidia-persistenced --user nvidia", exe="/usr/bin/nvidia-persistenced", relation="system",
                    uses_memory=False, daemon=True, killable=False,
                    why_not="nvidia-persistenced: the driver's own daemon; it holds no job's memory",
                    gpus=[{"uuid": UUIDS[0], "index": 0, "mib": None}]))  # fmt: skip
    anna = {"user": "anna", "uid": 1001, "title": "python train.py", "relation": "other user", "killable": False}
    rows.append(row(5150, gpus=[{"uuid": UUIDS[3], "index": 3, "mib": 612}], why_not="it is anna's: only anna or root may end it", **anna))
    return rows


def our_rows() -> list[dict[str, Any]]:
    """What an attempt of this run left."""
    ours = {"run": scenes.RUN, "stage": "serve", "attempt": "20251231-080000-0123456789ab"}
    return [row(4200 + index, (index,), title=f"VLLM::Worker_TP{index}", relation="ours, this run", ours=ours, chosen=True)
            for index in range(2)]  # fmt: skip


def plan(rows: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    rows = server_rows() if rows is None else rows
    used = [sum(gpu["mib"] or 0 for one in rows for gpu in one["gpus"] if gpu["index"] == index) for index in range(8)]
    value = {
        "label": "gpu-host", "run": scenes.RUN, "expected_gpus": 8, "gpu_uuids": [], "wanted": [], "host": "gpu1", "boot_id": BOOT,
        "surveyed_boot_s": scenes.NOW_S - 0.4, "driver": "590.44", "simulated": False, "gpus_ok": True, "trouble": "",
        "gpus": [
            {"index": index, "uuid": UUIDS[index], "name": "RTX", "used_bytes": mib * scenes.MIB, "mib": mib, "error": None,
             "total_bytes": 97_253 * scenes.MIB} for index, mib in enumerate(used)
        ],
        "services": [], "unreadable": {"count": 0, "some": []}, "complete": True, "notes": [], "rows": rows, "digest": "9b9116cd762a2a96",
        "phrase": free.phrase("gpu-host", free.select(rows, free.chosen(rows))),
        "phrase_all": free.phrase("gpu-host", free.select(rows, free.killable(rows))),
    }  # fmt: skip
    return {**value, **changes}


def step(name: str, begins: bool, at: float, **fields: Any) -> dict[str, Any]:
    return {"kind": "step", "by": "stage", "step": name, "begins": begins, "boot_s": scenes.NOW_S + at, **fields}


def events() -> list[dict[str, Any]]:
    """As far as the grace."""
    told: list[dict[str, Any]] = []
    for at, name, result, seconds in (
        (-14.0, "SURVEY", "8 GPUs, 11 processes", 0.31), (-13.6, "PLAN", "as confirmed", 0.0), (-13.5, "CONFIRMED", "9 processes", 0.0),
        (-13.4, "STOP_SERVICE", "stopped", 8.7), (-4.7, "RESCAN", "3 processes", 0.28), (-4.4, "TERM", "4207 sent", 0.0),
    ):  # fmt: skip
        service = {"service": "systemd vllm-k25.service"} if name == "STOP_SERVICE" else {}
        told += [step(name, True, at, **service), step(name, False, at + seconds, result=result, seconds=seconds)]
    return [*told, step("GRACE", True, -4.3, seconds=30.0)]


def curve() -> list[list[Any]]:
    return [[scenes.NOW_S - 10 + at, [max(0, 82_604 - 9_000 * at * (gpu + 1)) for gpu in range(7)] + [82_604]] for at in range(11)]


def action(**changes: Any) -> dict[str, Any]:
    """At work, in its grace: 18 s left."""
    progress = {
        "phase": "steady", "step": "GRACE", "step_boot_s": scenes.NOW_S - 4.3, "deadline_boot_s": scenes.NOW_S + 18.4, "live": 1,
        "note": "1 of 9 processes live", "boot_s": scenes.NOW_S - 0.2, "curve": curve(),
        "indices": list(range(8)),
    }  # fmt: skip
    value = scenes.attempt(
        stage=free.ACTION, attempt=ACTION, run=scenes.RUN, by="me on here", started_boot_s=scenes.NOW_S - 14.2, pid=7001, ledger=None,
        directory=None, progress=progress, receipt=None, events=events()[-20:],
    )  # fmt: skip
    return {**value, **changes}


STORY_MIB = (81_024, 0, 0, 1, 1, 1, 3, 3)


def gpu_end(index: int, mib: int, kind: str, detail: str, holders: list[Any] | None = None) -> dict[str, Any]:
    word = free.FREE if kind == free.ZERO else free.CANNOT_TELL if kind == free.UNKNOWN else free.NOT_FREE
    return {
        "uuid": UUIDS[index], "index": index, "verdict": word, "kind": kind, "detail": detail, "used_bytes": [mib * scenes.MIB] * 5,
        "holders": holders or [], "looks_on": [], "complete": True, "finding": "",
    }  # fmt: skip


def receipt(mib: tuple[int, ...] = (0,) * 8, **changes: Any) -> dict[str, Any]:
    """Of a verdict on GPUs that hold so much with nobody on them."""
    gpus = []
    for index, one in enumerate(mib):
        kind = free.ZERO if one == 0 else free.BASELINE if one <= 16 else free.UNSEEN
        detail = {free.ZERO: "0 MiB", free.BASELINE: f"idle baseline {one} MiB, no holder found"}.get(
            kind, f"{one} MiB that no process seen here holds (every process here was looked at: the kernel or the driver keeps it)"
        )
        gpus.append(gpu_end(index, one, kind, detail))
    kinds = [one["kind"] for one in gpus]
    code = free.EXIT_HELD if free.UNSEEN in kinds else free.EXIT_BASELINE if free.BASELINE in kinds else free.EXIT_FREE
    line = {0: "FREE: 0 MiB on 8/8", 10: "NOT FREE: no holders; not 0 MiB; GPU 3,4,5 NOT FREE: idle baseline 1 MiB, no holder found"}
    value = {
        "attempt": ACTION, "stage": free.ACTION, "outcome": free.DONE, "verdict": free.FREE if code == 0 else free.NOT_FREE,
        "exit_code": code, "line": line.get(code, "NOT FREE: GPU 0: 81024 MiB that no process seen here holds"),
        "verified": code == 0, "bad": sum(one["verdict"] != free.FREE for one in gpus), "usable": code == 0, "accepted": False,
        "run": scenes.RUN, "by": "me on here", "label": "gpu-host", "phrase": "free gpu-host 9 vllm-k25.service",
        "digest": "9b9116cd762a2a96",
        "difference": [], "before": [{"uuid": uuid, "index": index, "used_bytes": 82_604 * scenes.MIB} for index, uuid in enumerate(UUIDS)],
        "gpus": gpus,
        "stopped": [
            {"service": "systemd vllm-k25.service", "how": "systemctl stop vllm-k25.service", "ok": True, "said": "", "seconds": 8.7},
        ],
        "processes": [
            {**one, "got": [["SIGTERM", "sent"]] if index == 8 else [], "ended": "SIGTERM" if index == 8 else "with its service"}
            for index, one in enumerate(server_rows()[:9])
        ],
        "new": [], "unreadable": 0, "incomplete": "", "readings": [], "curve": curve(), "indices": list(range(8)), "took_s": 19.4,
        "seconds": {"SURVEY": 0.31, "STOP_SERVICE": 8.7, "GRACE": 2.1, "WAIT_RELEASE": 3.0, "VERIFY": 4.2},
        "began_boot_s": scenes.NOW_S - 19.4, "boot_s": scenes.NOW_S,
    }  # fmt: skip
    return {**value, **changes}


def ended(of: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The action in a frame, with this receipt."""
    code = of["exit_code"]
    plain = {name: value for name, value in of.items() if not isinstance(value, (list, dict))}
    made = action(
        state=telemetry.DONE if code == 0 else telemetry.FAILED, why="" if code == 0 else of["line"], receipt=plain,
        exit={"code": code, "signal": None, "boot_s": scenes.NOW_S - 1}, ended_boot_s=scenes.NOW_S - 1,
    )  # fmt: skip
    made["progress"].pop("curve")
    return {**made, **changes}


def frame(at: dict[str, Any] | None, boot_s: float = scenes.NOW_S, **changes: Any) -> dict[str, Any]:
    """A host on which nothing of ours runs, and how the action stands."""
    value = {"stages": scenes.stages(), "actions": {} if at is None else {free.ACTION: at}, **changes}
    return scenes.frame(boot_s, **value)
