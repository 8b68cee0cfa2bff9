"""Parts of a transition without a run: who may be touched, what a preflight's words are worth, and what a whole file is."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.contract import transition
from pipeline.contract.clock import boot_s
from pipeline.host import transition_checks, transition_first, transition_holders, transition_preflight

UNIT = {"how": "systemd", "name": "vllm.service", "unit": "vllm.service", "unit_uid": None}
SERVE = {"how": "attempt", "name": "demo/serve", "run": "demo", "stage": "serve", "attempt": "a1"}
OTHER = {**SERVE, "name": "other/serve", "run": "other"}
RELATIONS = ["ours, this run", "ours, another run", "same user", "other user", "system", "self", "unresolved"]
ROWS = st.fixed_dictionaries(
    {
        "relation": st.sampled_from(RELATIONS),
        "killable": st.booleans(),
        "uses_memory": st.booleans(),
        "daemon": st.booleans(),
        "any_gpu": st.booleans(),
        "ending": st.just(False),
        "manager": st.sampled_from([None, UNIT, SERVE, {**SERVE, "attempt": "a2"}, OTHER]),
        "gpus": st.lists(st.sampled_from(["GPU-1", "GPU-2"]).map(lambda uuid: {"uuid": uuid})),
    }
)


@given(st.lists(ROWS, max_size=8), st.sampled_from([None, UNIT, SERVE, OTHER]))
def test_only_what_this_run_left_is_signalled_and_whoever_else_holds_a_gpu_is_told(
    rows: list[dict[str, Any]], service: "dict[str, Any] | None"
) -> None:
    rows = [dict(row, at=at) for at, row in enumerate(rows)]
    told = transition_holders.others({"wanted": [], "run": "demo"}, service, rows)
    signalled = transition_holders.left(rows)
    assert all(row["relation"] == "ours, this run" and row["killable"] and row["manager"] is None for row in signalled)
    assert not [row for row in signalled if row in told]
    for row in rows:
        named = row["manager"] is not None and service is not None and row["manager"]["name"] == service["name"] and row["killable"]
        if row["uses_memory"] and not row["daemon"] and row not in signalled and not named:
            assert row in told, "nobody is overlooked"


def test_holders_of_other_gpus_than_the_wanted_are_none() -> None:
    row = {
        "relation": "other user",
        "killable": False,
        "uses_memory": True,
        "daemon": False,
        "any_gpu": False,
        "manager": None,
        "ending": False,
    }
    row["gpus"] = [{"uuid": "GPU-1"}]
    assert transition_holders.others({"wanted": ["GPU-2"], "run": "demo"}, None, [row]) == []
    assert transition_holders.others({"wanted": ["GPU-1"], "run": "demo"}, None, [row]) == [row]
    assert transition_holders.others({"wanted": ["GPU-2"], "run": "demo"}, None, [{**row, "any_gpu": True}]) != []


TELL = "disk, end = 'disk', 'end'\ndef tell(check, **fields): print(json.dumps(dict(fields, check=check)), flush=True)"


def preflight(
    tmp_path: Path, body: str, seconds: float = 20.0, cancelled: bool = False, wanted: "list[str] | None" = None
) -> transition_preflight.Preflight:
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable}\nimport json, sys, time\n{TELL}\n{body}\n")
    path.chmod(0o755)
    launched = {"stage": "extract", "interpreter": str(path), "args": ["--limit", "3", "--set", "a.b=1"], "env": {"X": "y"}}
    plan = {"expected_gpus": 8, "gpu_uuids": ["GPU-1", "GPU-2"], "wanted": wanted or []}
    return transition_preflight.run(launched, plan, "/run", str(tmp_path), "--no-gpu", seconds, lambda: cancelled)


GOOD = '{"check": "model", "ok": true, "evidence": "e"}'
END = '{"check": "end", "ok": true, "checks": 1}'
FULL = "disk: full; free"
EARLY = "it ended early (exit code %s), after 1 checks: others may be missing"


@pytest.mark.parametrize(
    ("body", "code", "line"),
    [
        (f"print('noise'); print('{GOOD}'); print('{END}')", 0, "1 checks"),
        (f"print('{GOOD}')", 3, EARLY % 0),
        (f"print('{GOOD}', flush=True); raise KeyError('trouble')", 3, EARLY % 1 + "; KeyError: 'trouble'"),
        (f"print('{GOOD}'); print('{END}'); sys.exit(1)", 3, EARLY % 1),
        (f"print('{GOOD}', flush=True); import os, signal; os.kill(os.getpid(), signal.SIGALRM)", 3, EARLY % -14),
        (f"print('{GOOD}'); print('half a line, ' + '{GOOD}'); tell(end, ok=True, checks=2)", 3, EARLY % 0),
        ("pass", 3, "exit code 0, and no check was told"),
        ("print(1); print('[]'); print('{')", 3, "exit code 0, and no check was told"),
        ("print('no module named msgspec', file=sys.stderr); sys.exit(2)", 1, "no module named msgspec"),
        (f"print('{GOOD}'); tell(disk, ok='yes'); tell(end, ok=None, checks=2); sys.exit(3)", 3, "disk: "),
        (f"print('{GOOD}'); tell(disk, ok=False, evidence='full', what_to_do='free'); tell(end, ok=False, checks=2); sys.exit(1)", 1, FULL),
        ("tell(disk, ok=False, evidence='full', what_to_do='free'); sys.exit(1)", 1, f"{FULL} | {EARLY % 1}"),
    ],
)
def test_only_checks_that_all_say_ok_are_a_proof(tmp_path: Path, body: str, code: int, line: str) -> None:
    done = preflight(tmp_path, body)
    assert (done.exit_code, done.line) == (code, line)


def test_a_preflight_that_hangs_is_ended_and_a_cancel_ends_it_too(tmp_path: Path) -> None:
    done = preflight(tmp_path, f"print('{GOOD}', flush=True); time.sleep(600)", seconds=0.3)
    assert (done.exit_code, done.line) == (3, "preflight: no end of it after 0 s")
    assert preflight(tmp_path, "time.sleep(600)", cancelled=True).line == "preflight: cancelled"


def test_it_is_asked_for_the_same_settings_and_gpus(tmp_path: Path) -> None:
    done = preflight(tmp_path, "print(json.dumps(dict(check=' '.join(sys.argv[1:]), ok=True)))")
    told = "-u -m pipeline preflight extract --run /run --no-gpu --timeout-s 20 --set a.b=1 --expected-gpus 8 --gpu-uuids GPU-1,GPU-2"
    assert done.checks[0]["check"] == told[:100]
    assert preflight(tmp_path, "print(json.dumps(dict(check=sys.argv[-1], ok=True)))", wanted=["GPU-2"]).checks[0]["check"] == "GPU-2"


@pytest.mark.parametrize(
    ("head", "body", "why"),
    [
        ({"hidden_states": {"data_offsets": [0, 8]}, "token_ids": {"data_offsets": [8, 12]}, "__metadata__": {"a": "b"}}, 12, ""),
        ({"hidden_states": {"data_offsets": [0, 8]}, "token_ids": {"data_offsets": [8, 12]}}, 11, "its header says"),
        ({"hidden_states": {"data_offsets": [0, 8]}}, 8, "lacks token_ids"),
        ([1], 0, "no header that can be read"),
        ({}, 0, "no header that can be read"),
    ],
)
def test_a_file_is_whole_by_its_header_and_size(tmp_path: Path, head: Any, body: int, why: str) -> None:
    header = json.dumps(head).encode()
    path = tmp_path / "hs_0.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(body))
    found = transition_first._damage(str(path))
    assert why in found and bool(found) == bool(why)
    path.write_bytes(b"\xff" * 40)
    assert "no header that can be read" in transition_first._damage(str(path))


def test_the_steps_and_the_words_to_type() -> None:
    names = [one["step"] for one in transition.steps("generate", ["prepare", "extract"], "demo/serve")]
    assert names.index("PREFLIGHT") < names.index("HOLDERS") < names.index("STOP_SERVER") < names.index("FREE") < names.index("LAUNCH")
    assert "STOP_SERVER" not in [one["step"] for one in transition.steps("prepare", ["extract"], None)]
    assert [one["step"] for one in transition.steps("serve", ["generate"], None)] == ["OUTPUT", "PREFLIGHT", "LAUNCH", "FIRST_UNIT"]
    assert transition.phrase("box", "r", ["prepare", "extract"], "r/serve", True) == "arm box r prepare extract r/serve"
    assert all("{" not in one["does"] for one in transition.steps("generate", ["prepare", "serve"], None))


@pytest.mark.parametrize(("silent_s", "word"), [(0.0, transition.PROVEN), (None, transition.PROVEN), (120.0, transition.OPEN)])
def test_a_service_that_has_been_silent_for_long_does_not_answer_now(silent_s: "float | None", word: str) -> None:
    progress = {"up": True, "beat_boot_s": None if silent_s is None else boot_s() - silent_s}
    view = {"attempt": "a1", "state": "RUNNING", "why": "", "progress": progress}
    assert transition_checks._service("serve", view).word == word
