"""What an action came to is told with its age, and never as a reading of now; in JSON too."""

from typing import Any

import pytest

from console.core import receipt_age, views
from console.core.store import Store
from console.core.views import HostView
from console.headless import status_lines
from console.headless.lines import LinkNow
from pipeline.contract import free, telemetry

LINK = LinkNow("LIVE", "LIVE 0.4 s", 0.4)
RECEIPT = {"line": "FREE: 0 MiB on 8/8", "exit_code": 0, "verified": True, "bad": 0, "boot_id": "b", "boot_s": 1000.0, "wall_s": 5000.0}


def view_of(receipt: dict[str, Any], boot_s: float = 31_000.0, wall_s: float = 35_000.0, **changes: Any) -> HostView:
    one = {
        "attempt": "a",
        "state": telemetry.DONE,
        "by": "me",
        "receipt": receipt,
        "ended_boot_s": 1000.5,
        "run": "k25",
        "exit": {"code": 0},
        **changes,
    }
    found = views.parse({"boot_id": "b", "boot_s": boot_s, "wall_s": wall_s, "actions": {free.ACTION: one}})
    assert found is not None and free.ACTION in found.actions
    return found


def test_the_status_says_how_old_it_is_and_names_the_command_that_shows_it() -> None:
    line = status_lines.action_line(view_of(RECEIPT), free.ACTION, "gpu-host", LINK)
    assert line.startswith("free-gpus: ended 8 h 20 min ago (")
    assert line.endswith("): FREE: 0 MiB on 8/8; all of it: eaglewatch free-gpus gpu-host --run k25 --show")
    live = status_lines.action_line(view_of({}, state=telemetry.RUNNING), free.ACTION, "gpu-host", LINK)
    assert "ended" not in live
    outside = status_lines.action_line(view_of(RECEIPT, run=None), free.ACTION, "gpu-host", LINK)
    assert outside.endswith("eaglewatch free-gpus gpu-host --show")
    restarted = status_lines.action_line(view_of({**RECEIPT, "boot_id": "earlier"}, ended_boot_s=None), free.ACTION, "gpu-host", LINK)
    assert "before the host's restart: FREE" in restarted


@pytest.mark.parametrize(
    ("receipt", "boot_s", "age", "fresh", "told_s"),
    [
        (RECEIPT, 1010.0, 0.4, True, 10.4),
        (RECEIPT, 1061.0, 0.4, False, 61.4),
        (RECEIPT, 1010.0, None, False, None),
        (RECEIPT, 900.0, 0.4, False, None),
        ({**RECEIPT, "boot_id": "earlier", "boot_s": 1009.0}, 1010.0, 0.0, False, 9.5),
    ],
)
def test_only_of_a_minute_ago_it_is_as_good_as_now(
    receipt: dict[str, Any], boot_s: float, age: float | None, fresh: bool, told_s: float | None
) -> None:
    view = view_of(receipt, boot_s)
    when = receipt_age.of(receipt, view.actions[free.ACTION], view, age)
    assert (when.fresh, when.to_json()["age_s"]) == (fresh, told_s)


def test_the_status_for_programs_has_its_end_and_its_age() -> None:
    store = Store()
    store.view = view_of(RECEIPT)
    told = status_lines.as_json(store, "gpu-host", LINK, [])["actions"][free.ACTION]
    assert (told["run"], told["line"], told["ended_boot_s"], told["age_s"]) == ("k25", "FREE: 0 MiB on 8/8", 1000.0, 30_000.4)
    assert told["fresh"] is False and told["state"] == telemetry.DONE
    store.view = view_of({}, state=telemetry.RUNNING)
    assert "age_s" not in status_lines.as_json(store, "gpu-host", LINK, [])["actions"][free.ACTION]
