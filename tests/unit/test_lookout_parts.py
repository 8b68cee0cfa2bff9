"""What the console takes of a host's lookout, whatever comes."""

import math
from typing import Any

import pytest

from console.core import attempt
from pipeline.contract.signals import GapStats

WHOLE: dict[str, Any] = {
    "boot_s": 9.0, "level": "STALLED", "severity": "red", "line": "nothing happens", "since_boot_s": 4.0, "phase": "steady",
    "gaps": {"steady": {"count": 30, "median_s": 2.0, "q99_s": 5.0, "longest_s": 9.0}}, "power_w": {"0": 410.5, "1": 400},
    "ranks_seen": 8, "workers": ["Worker_TP0", "Worker_TP1"],
    "alarms": [{"kind": "cuda", "count": 2, "line": "CUDA error: 700", "worker": "Worker_TP1", "boot_s": 8.0}],
    "alerts": [{"what": "red", "how": "webhook https://x/...", "boot_s": 8.5, "ok": None, "detail": "being sent"}],
    "log": {"skipped_bytes": 7},
}  # fmt: skip


def of(**fields: Any) -> attempt.Attempt:
    found = attempt.parse({"state": "RUNNING", "attempt": "a1", **fields}, "extract")
    assert found is not None
    return found


def test_a_whole_one() -> None:
    one = of(lookout=WHOLE, rank_progress=[{"rank": 1, "done": 2}, {"rank": 0, "phase": "steady", "done": 3, "last_boot_s": 1.0}]).lookout
    assert one is not None and (one.level, one.severity, one.since_boot_s, one.log_skipped_bytes) == ("STALLED", "red", 4.0, 7)
    assert one.gaps == {"steady": GapStats(30, 2.0, 5.0, 9.0)} and one.power_w == {0: 410.5, 1: 400}
    assert one.alarms[0].worker == one.workers[1] and one.alerts[0].ok is None


def test_ranks_tree_and_earlier_loads() -> None:
    one = of(
        rank_progress=[{"rank": 1, "done": 2}, {"rank": 0, "done": 3, "beat_boot_s": 1.0}, {"rank": -1}, 7],
        tree={"states": {"S": 8, "D": 1, "long": 1, "X": -1}, "boot_s": 5.0, "read_bytes": 4, "write_bytes": None},
        load_prior={"median_s": 1471.0, "count": 3},
        ranks_expected=8,
    )
    assert [(rank.rank, rank.done) for rank in one.rank_progress] == [(0, 3), (1, 2)] and one.ranks_expected == 8
    assert (one.states, one.tree_boot_s, one.read_bytes, one.write_bytes) == ({"S": 8, "D": 1}, 5.0, 4, None)
    assert one.load_prior is not None and (one.load_prior.median_s, one.load_prior.count) == (1471.0, 3)


@pytest.mark.parametrize("value", [None, 7, "x", [], [WHOLE], {}, {"a": {}}, math.nan, True, {"\x1b[31m": "\x1b[31m"}])
def test_damage_is_never_believed_and_never_raises(value: Any) -> None:
    for key in WHOLE:
        one = of(lookout={**WHOLE, key: value}, rank_progress=value, tree=value, load_prior=value, ranks_expected=value).lookout
        assert one is not None and one.severity in ("ok", "grey", "amber", "red")
        if key == "severity":
            assert one.severity == "grey", "an unknown severity is no all-clear"
        assert "\x1b" not in repr(one)
    bare = of(lookout=value)
    assert bare.lookout is None or (bare.lookout.level == "" and not bare.lookout.alarms)
    assert bare.rank_progress == () and bare.load_prior is None
    for kind in ("alarms", "alerts", "workers"):
        assert of(lookout={**WHOLE, kind: [value]}).lookout is not None
    assert of(lookout={**WHOLE, "gaps": {"steady": value}, "power_w": {"0": value, "x": 1}}).lookout is not None
