"""What the screen says in every state of link, run and host: the words, the ages, and the mark of old numbers."""

from typing import Any

import pytest
import scenes
from fakes import FakeLink, Fixture, app_of, painted, redraw, showing, until

from console.headless import audit
from console.remote.state import LinkStatus

OLD_MARKED = ("EXTRACT STEADY", "147/992 GB written", "last file", "ledger 1,480 files")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize(
    ("status", "header", "banner"),
    [
        (LinkStatus("LIVE", 0.4, 0, None, ""), "LIVE 0.4 s", None),
        (LinkStatus("LATE", 6.0, 0, None, ""), "LATE 6.0 s", None),
        (LinkStatus("NO DATA", 41.0, 0, None, "silent"), "NO DATA 41 s", "the link is up, the host program is silent"),
        (LinkStatus("RECONNECTING", 94.0, 3, 4.0, "gpu-host: lost"), "RECONNECTING 3, next in 4 s", "gpu-host: lost"),
        (LinkStatus("RECONNECTING", 94.0, 3, None, ""), "RECONNECTING 3 now", "1 min 34 s old"),
        (LinkStatus("AUTH NEEDED", 600.0, 1, None, "login refused"), "AUTH NEEDED", "login refused; r dials again"),
        (LinkStatus("HOST KEY", 600.0, 1, None, "HOST KEY CHANGED"), "HOST KEY", "HOST KEY CHANGED; r dials again"),
        (LinkStatus("FAILED", 600.0, 1, None, "no Python there"), "FAILED", "no Python there; r dials again"),
    ],
)
async def test_each_link_state_has_its_word_and_age_and_no_old_number_is_without_a_mark(
    status: LinkStatus, header: str, banner: str | None, size: tuple[int, int]
) -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture, *size) as pilot:
        fixture.link.now = status
        lines = (await redraw(pilot)).splitlines()
        assert header in lines[0]
        marked = [line for line in lines if line.startswith("!")]
        if banner is None:
            assert "57 min left" in "\n".join(lines)
            assert all("old" in line or "GPU" in line for line in marked), "readings of more than 5 s say so, whatever the link says"
            return
        text = "\n".join(lines)
        assert banner in text and "all numbers below are" in lines[1] and "jobs on the host do not depend on this" in lines[1]
        assert "min left" not in text and "14:08" not in text, "an estimate needs a link that says that the work goes on"
        for words in OLD_MARKED:
            assert any(words in line for line in marked), words
        assert sum(line.lstrip("!").split()[0].isdigit() for line in marked) == 8, "each GPU's row"


async def test_a_machine_that_slept_says_for_how_long_until_the_link_is_live_again() -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        fixture.clock.boot_s += 25_920
        fixture.clock.asleep_s += 25_920
        fixture.link.now = LinkStatus("RECONNECTING", 25_921.0, 1, None, "")
        lines = (await redraw(pilot)).splitlines()
        assert "ASLEEP 7 h 12 min, RECONNECTING 1 now" in lines[0]
        assert "all numbers below are 7 h 12 min old; jobs on the host do not depend on this" in lines[1]
        fixture.link.now = LinkStatus("LIVE", 0.2, 0, None, "")
        await redraw(pilot)
        fixture.link.now = LinkStatus("RECONNECTING", 20.0, 1, None, "")
        assert "ASLEEP" not in await redraw(pilot)


def runs(*names: str) -> Any:
    return lambda link: link.answers.update(runs={"runs": [{"name": one, "stages": {}} for one in names]})


def nvml(**state: Any) -> list[dict[str, Any]]:
    return [scenes.frame(nvml={**scenes.frame()["nvml"], **state}, gpus=None)]


NO_RUN = [scenes.frame(run=None, stages={})]
EMPTY: dict[str, tuple[Fixture, str]] = {
    "never connected": (Fixture(connected=False), "waiting for the first reading of gpu-host"),
    "no run chosen": (Fixture(run=None, frames=NO_RUN, prepare=runs("a", "b")), "o opens one of 2: a, b"),
    "no run at all": (Fixture(run=None, frames=NO_RUN, prepare=runs()), "no run on gpu-host yet"),
    "a run that is not there": (
        Fixture(frames=[scenes.frame(run={"name": scenes.RUN, "exists": False, "settings_sha256": None}, stages={})]),
        "run k25-10k is not on gpu-host yet",
    ),
    "nothing ran": (Fixture(frames=scenes.nothing_ran()), "nothing has run in k25-10k yet"),
    "stages not told": (Fixture(frames=[scenes.frame(stages=None)]), "the host could not tell about run k25-10k"),
    "NVML starting": (Fixture(frames=nvml(state="starting")), "NVML starting"),
    "NVML stuck": (Fixture(frames=nvml(state="stuck", detail="no answer for 12 s")), "NVML stuck: no answer for 12 s"),
    "NVML error": (Fixture(frames=nvml(state="error", detail="driver not loaded")), "NVML error: driver not loaded"),
    "no GPU list": (Fixture(frames=nvml()), "no readings were told"),
    "no disk": (Fixture(frames=[scenes.frame(disk=None, output_disk=None)]), "disk not told"),
    "disk unreadable": (
        Fixture(frames=[scenes.frame(output_disk={**scenes.disk("/d", 1.0), "free_bytes": "error: EIO"})]),
        "disk error: EIO",
    ),
    "no progress": (Fixture(frames=[scenes.frame(stages={"extract": scenes.attempt(progress=None, ledger=None)})]), "said nothing yet"),
}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("name", list(EMPTY))
async def test_what_is_not_there_is_said_and_never_drawn_as_zero(name: str, size: tuple[int, int]) -> None:
    fixture, words = EMPTY[name]
    async with showing(fixture, *size) as pilot:
        text = await redraw(pilot)
        assert words in text
        if name.startswith(("never", "NVML", "no GPU")):
            assert " 0 MiB" not in text and "%" not in text.splitlines()[2]


async def test_a_host_with_one_live_run_opens_it_by_itself() -> None:
    def prepare(link: FakeLink) -> None:
        live = {"extract": {"attempt": scenes.ATTEMPT, "state": "RUNNING"}}
        link.answers["runs"] = {"runs": [{"name": "old", "stages": {}}, {"name": scenes.RUN, "stages": live}]}

    fixture = Fixture(run=None, frames=NO_RUN, prepare=prepare)
    async with showing(fixture) as pilot:
        await until(pilot, lambda: app_of(pilot).state.run == scenes.RUN)
        fixture.link.feed(scenes.frame(scenes.NOW_S + 1))
        assert "EXTRACT STEADY" in await redraw(pilot)


@pytest.mark.parametrize("usual", ["", "rehearsal"])
async def test_the_run_whose_transition_ended_unseen_is_opened_before_the_live_and_the_usual_one(usual: str) -> None:
    def prepare(link: FakeLink) -> None:
        ended = {"attempt": "x", "state": "DONE", "by": audit.who(), "ended_boot_s": scenes.NOW_S - 100}
        live = {"name": "rehearsal", "stages": {"serve": {"attempt": "y", "state": "RUNNING"}}, "transition": None}
        link.answers["runs"] = {"runs": [live, {"name": scenes.RUN, "stages": {}, "transition": ended}]}

    for opened in (scenes.RUN, "rehearsal"):  # seen once, it is no news any more
        fixture = Fixture(run=None, frames=NO_RUN, prepare=prepare, usual_run=usual)
        async with showing(fixture) as pilot:
            await until(pilot, lambda opened=opened: app_of(pilot).state.run == opened)
            fixture.link.feed(scenes.frame(scenes.NOW_S + 1))
            await redraw(pilot)


async def test_a_run_is_opened_by_hand_and_the_log_is_its_own() -> None:
    fixture = Fixture(frames=scenes.steady(), log="of the first run\n", prepare=runs(scenes.RUN, "other"))
    async with showing(fixture) as pilot:
        await until(pilot, lambda: "of the first run" in "\n".join(painted(app_of(pilot))))
        await pilot.press("o", "down", "enter")
        await until(pilot, lambda: app_of(pilot).state.run == fixture.link.run == "other")
        await until(pilot, lambda: "of the first run" not in "\n".join(painted(app_of(pilot))))


async def test_a_disk_that_will_not_hold_says_how_much_is_missing() -> None:
    small = {**scenes.disk("/data/hidden_states", scenes.NOW_S), "free_bytes": 500 * 10**9}
    async with showing(Fixture(frames=[scenes.frame(output_disk=small)])) as pilot:
        # Missing are 345 GB of the plan and the 20 GB that the stage keeps free.
        await until(pilot, lambda: "disk 500 GB free, 365 GB SHORT, full about 13:44" in "\n".join(painted(app_of(pilot))))


async def test_simulated_and_unsupervised_and_disagreement_are_marked() -> None:
    one = scenes.attempt(supervised=False, simulated=True, ledger={"files": 3, "bytes": 1, "tokens": 1, "disagree": 2})
    async with showing(Fixture(frames=[scenes.frame(stages={"extract": one})]), 120, 40) as pilot:
        text = await redraw(pilot)
        assert "SIMULATED" in text.splitlines()[0] and "UNSUPERVISED" in text and "LEDGER: 2 contradictory lines" in text


@pytest.mark.parametrize("offset_s", [0, 7200, -12600])
async def test_a_clock_says_whose_it_is_when_the_zones_differ(offset_s: int) -> None:
    async with showing(Fixture(frames=[scenes.frame(utc_offset_s=offset_s)]), 120, 40) as pilot:
        first = (await redraw(pilot)).splitlines()[0]
        assert first.rstrip().endswith("13:12") if not offset_s else "13:12 local" in first and "host (UTC" in first


async def test_the_estimate_is_absent_while_loading_and_names_tomorrow() -> None:
    async with showing(Fixture(frames=scenes.loading())) as pilot:
        text = await redraw(pilot)
        assert "no ETA while loading" in text and "left" not in text and "LOADING  for 12 min 3 s" in text
    fixture = Fixture(frames=scenes.steady())
    fixture.clock.wall_s += 10.5 * 3600  # 23:42
    async with showing(fixture) as pilot:
        assert "done tomorrow 00:38" in await redraw(pilot)


ENDS = {
    "FAILED": "FAILED", "STOPPED": "stopped", "CRASHED": "CRASHED", "REFUSED": "refused", "LAUNCH_FAILED": "did not start",
    "LOST_REBOOT": "lost: host restarted", "ENDED_UNKNOWN": "ended, code unknown", "UNVERIFIED": "ended, NOT verified",
    "DONE": "ended, NOT verified", "a word of the future": "UNKNOWN",
}  # fmt: skip


@pytest.mark.parametrize("state", list(ENDS))
async def test_the_word_for_an_end_is_the_honest_one(state: str) -> None:
    """Here DONE comes without a receipt: it is not believed."""
    one = scenes.attempt(state=state, why="because", ended_boot_s=scenes.NOW_S - 5, tree=None)
    async with showing(Fixture(frames=[scenes.frame(stages={"extract": one})])) as pilot:
        text = await redraw(pilot)
        assert f"EXTRACT {ENDS[state]}" in text
        assert "✓" not in text and "every check passed" not in text
        assert state == "FAILED" or "FAILED" not in text
