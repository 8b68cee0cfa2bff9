"""What is printed: never a trace of a hostile frame, never a number without its age, always JSON."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.core import sanitize
from console.core.store import Store
from console.headless import lines, outcome, standing, status_lines
from console.headless.lines import LinkNow
from console.headless.session import link_words
from console.remote.state import LinkStatus
from pipeline.contract import telemetry
from tests.fakes.frames import attempt, frame, gpu, progress

LIVE = LinkNow("LIVE", "LIVE 0.4 s", 0.4)
NAMES = {"host": "h", "run": "r", "stage": "extract"}
WORDS = st.sampled_from(["\x1b[2J", "DONE", "error: x\x07", "\u202e", "stale", "steady", "loading", "ok"])
JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.lists(st.integers(), max_size=2))


def shown(one: Any, **changes: Any) -> Store:
    store = Store()
    store.greet({"simulated": True})
    assert store.fold(frame(**{"stages": {"extract": one}, **changes}))
    return store


def test_a_steady_line_has_every_number_and_every_age() -> None:
    store = shown(attempt())
    assert lines.progress_line(store, store.attempt("extract"), "extract", LIVE) == (
        "SIMULATED  extract STEADY  80/200 samples  80.0 ktok of 200 ktok  80 files 8 GB  now 2.2/s 2,194 tok/s  mean 2.2/s 2,194 tok/s  "
        "ETA 54 s  8 GPUs hold 82,604 MiB each, read 0.8 s ago  disk 2.65 TB free, 1.4 s old  last file 2.4 s ago  LIVE 0.4 s"
    )


@pytest.mark.parametrize(("loaded", "told"), [(6, "ETA - (loading)"), (16, "loaded in about 2 min 24 s (16/64 loaded)")])
def test_loading_tells_how_far_and_a_time_from_a_tenth_on(loaded: int, told: str) -> None:
    loading = progress(
        phase="loading", first_boot_s=None, note="64 weight files, 547 GB", load_done=loaded, load_total=64, done=0, tokens=0
    )
    store = shown(attempt(progress=loading, ledger=None))
    line = lines.progress_line(store, store.attempt("extract"), "extract", LIVE)
    assert line.startswith(f"SIMULATED  extract LOADING  64 weight files, 547 GB, {loaded}/64 weights  0/200 samples")
    assert told in line


def test_missing_memory_is_told_and_does_not_narrow_the_range() -> None:
    gpus = [gpu(0, used_bytes=0), gpu(1, used_bytes="stale: 12 s"), gpu(2, used_bytes=1)]
    store = shown(attempt(), gpus=gpus, nvml={"state": "ok", "simulated": True, "boot_s": 137.0})
    line = lines.progress_line(store, store.attempt("extract"), "extract", LIVE)
    assert "2 GPUs of 3, of the others nothing is known, hold 0-1 MiB, read 1.4 s ago" in line
    told = lines.progress_json(store, store.attempt("extract"), NAMES, LIVE)
    assert (told["gpu_memory"]["count"], told["gpu_memory"]["read"]) == (3, 2)
    rows = status_lines.table(store, "h", LIVE, [])
    assert any(row.lstrip().startswith("1 ") and "stale: 12 s" in row for row in rows)
    assert status_lines.as_json(store, "h", LIVE, [])["gpus"][1]["missing"] == {"used_bytes": "stale: 12 s"}


def test_a_ledger_that_contradicts_itself_is_told() -> None:
    store = shown(attempt(ledger={"files": 80, "bytes": 1000, "tokens": 1, "last_boot_s": 136.0, "disagree": 2, "bad_lines": 0}))
    assert "LEDGER: 2 contradictory lines  " in lines.progress_line(store, store.attempt("extract"), "extract", LIVE)


def test_nothing_read_says_why() -> None:
    store = shown(attempt(progress=None, ledger=None), gpus=None, nvml={"state": "stuck", "detail": "no answer for 12 s", "boot_s": None})
    line = lines.progress_line(store, store.attempt("extract"), "extract", LIVE)
    assert "GPU memory not read (no answer for 12 s)" in line
    assert "not told (NVML stuck: no answer for 12 s)" in "\n".join(status_lines.table(store, "h", LIVE, []))


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(attempt())), JUNK, max_size=4),
    st.dictionaries(st.sampled_from(sorted(progress())), JUNK, max_size=4),
    st.dictionaries(st.sampled_from(sorted(gpu(0))), JUNK, max_size=4),
    st.dictionaries(st.sampled_from([key for key in frame() if key not in ("boot_s", "stages", "gpus")]), JUNK, max_size=3),
)
def test_hostile_frames_print_safely(one: dict, inside: dict, card: dict, around: dict) -> None:
    store = Store()
    whole = attempt(**{"progress": progress(**inside), **one})
    assert store.fold({**frame(stages={"extract": whole}, gpus=[{**gpu(0), **card}, None, 3]), **around})
    found = store.attempt("extract")
    assert found is not None
    texts = [lines.progress_line(store, found, "extract", LIVE), status_lines.line(store, "h", LIVE), outcome.words(found)]
    texts += status_lines.table(store, "h", LIVE, []) + outcome.summary(found)
    assert all(sanitize.is_safe(text) for text in texts)
    for value in (
        lines.progress_json(store, found, NAMES, LIVE),
        status_lines.as_json(store, "h", LIVE, []),
        outcome.row(found, 138.0),
    ):
        json.dumps(value, allow_nan=False)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (LinkStatus("LIVE", 0.4, 0, None, ""), "LIVE 0.4 s"),
        (LinkStatus("LATE", 6.2, 0, None, ""), "LATE 6.2 s"),
        (LinkStatus("NO DATA", 41.0, 0, None, "x"), "NO DATA 41 s (link up, host program silent)"),
        (LinkStatus("RECONNECTING", 12.0, 3, 4.2, "h: refused"), "RECONNECTING 3, next in 4 s, data 12 s old: h: refused"),
        (LinkStatus("CONNECTING", None, 1, None, ""), "CONNECTING 1"),
        (LinkStatus("AUTH NEEDED", None, 1, None, "h: no key fits"), "AUTH NEEDED: h: no key fits"),
    ],
)
def test_the_links_words(status: LinkStatus, words: str) -> None:
    assert link_words(status) == words


def test_a_long_line_has_the_time_in_front_and_breaks_between_its_parts() -> None:
    store = shown(attempt())
    line = lines.progress_line(store, store.attempt("extract"), "extract", LIVE)
    rows = lines.wrapped(line, "12:34:56").split("\n")
    assert len(rows) > 1 and rows[0].startswith("12:34:56  SIMULATED  extract STEADY") and all(len(row) <= 120 for row in rows)
    assert all(row.startswith(" " * 10) for row in rows[1:]), "what goes on stands under what it belongs to"
    assert "  ".join(row.strip() for row in rows) == f"12:34:56  {line}", "nothing of it is lost"


def test_what_never_ran_is_not_called_unsupervised() -> None:
    for state, alarms in ((telemetry.LAUNCHING, False), (telemetry.RUNNING, True), (telemetry.FAILED, False)):
        store = shown(attempt(state=state, supervised=False))
        assert ("UNSUPERVISED" in lines.progress_line(store, store.attempt("extract"), "extract", LIVE)) is alarms, state


def test_what_is_held_out_is_told_apart_in_every_line() -> None:
    done = {"state": "DONE", "exit": {"code": 0}, "receipt": {"verified": True, "bad": 0, "samples": 160, "holdout": 16, "tokens": 9}}
    one = attempt(stage="generate", ledger=None, progress=progress(unit="prompt", done=176, total=176), **done)
    store = shown(one, stages={"generate": one})
    found = store.attempt("generate")
    assert found is not None
    assert lines.done_words(found) == "160 + 16 held out prompts"
    assert outcome.summary(found)[0] == "samples   160 + 16 held out, 9 tokens"
    assert "  generate  DONE 160 + 16 held out prompts" in status_lines.table(store, "h", LIVE, [])
    part = attempt(stage="generate", ledger=None, progress=progress(unit="prompt", done=90, total=176, held_out_total=16))
    for state in ("RUNNING", "STOPPED", "CRASHED"):
        store = shown({**part, "state": state}, stages={"generate": {**part, "state": state}})
        found = store.attempt("generate")
        assert found is not None
        assert "  90 of 176 (16 held out) prompts  " in lines.progress_line(store, found, "generate", LIVE), state


def test_a_server_that_is_not_of_this_run_is_told_with_a_command_that_works_here() -> None:
    how = "eaglewatch stop HOST --run r --stage serve"
    store = shown(attempt(), servers=[{"pid": 9, "engine": "vllm", "port": 8000, "ours": None, "how_to_stop": how}])
    assert any(
        row.endswith("to stop it: eaglewatch stop gpu-box --run r --stage serve") for row in status_lines.table(store, "gpu-box", LIVE, [])
    )
    assert status_lines.as_json(store, "gpu-box", LIVE, [])["servers"][0]["how_to_stop"] == how.replace("HOST", "gpu-box")


def test_a_service_has_no_samples_and_a_check_of_the_whole_counts_for_all() -> None:
    up = attempt(stage="serve", ledger=None, progress=progress(phase="steady", up=True, done=0, tokens=0, bytes=0))
    vocab = {"state": "DONE", "exit": {"code": 0}, "receipt": {"verified": True, "bad": 0, "samples": 160}}
    store = shown(up, stages={"serve": up, "vocab": attempt(stage="vocab", ledger=None, progress=progress(done=160), **vocab)})
    rows = status_lines.as_json(store, "h", LIVE, [])["stages"]
    assert [rows["serve"][key] for key in ("samples", "tokens", "bytes", "verified")] == [None] * 4
    assert rows["vocab"]["verified"] == 160


def test_status_calls_outdated_what_the_table_calls_so() -> None:
    assert standing.state_word("vocab", "DONE", "made of other rows") == "OUTDATED"
    assert (standing.state_word("vocab", "DONE", ""), standing.state_word("serve", "STOPPED", "")) == ("DONE", "OFF")


def test_a_line_with_a_clock_tells_when_it_is_done_and_when_the_disk_is_full() -> None:
    noon = 1_700_049_600.0
    link = dataclasses.replace(LIVE, wall_s=noon)
    small = {"path": "/d", "total_bytes": 10**12, "free_bytes": 10**9, "inodes_free": 9, "boot_s": 137.0}
    store = shown(attempt(progress=progress(total_tokens=20_000_000, total=20_000, total_bytes=2 * 10**12)), disk=small)
    line = lines.progress_line(store, store.attempt("extract"), "extract", link)
    assert "done tomorrow" not in line and ", done 14:30  " in line and "disk 1 GB free, 1.99 TB SHORT, full about 12:00, 1.4 s old" in line
    assert lines.progress_json(store, store.attempt("extract"), NAMES, link)["disk_full_s"] is not None


def test_a_pause_is_told_in_the_place_of_the_estimate() -> None:
    store = shown(attempt())
    for second in (5, 10, 15):
        tree = {"procs": 1, "cpu_s": 3.0, "rss_bytes": 10**9, "states": {"T": 1}, "boot_s": 138.0 + second}
        assert store.fold(frame(138.0 + second, stages={"extract": attempt(tree=tree)}))
    line = lines.progress_line(store, store.attempt("extract"), "extract", LIVE)
    assert "ETA paused: STOPPED BY SIGNAL" in line
    assert lines.progress_json(store, store.attempt("extract"), NAMES, LIVE)["eta_paused"] == "STOPPED BY SIGNAL"
