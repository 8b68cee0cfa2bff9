"""How a stall reads on the dashboard: in words, on strip and headline, with its evidence; judged by the real rules out of frames."""

import pytest
import scenes
import stall_scenes
from fakes import Fixture, app_of, redraw, showing, state_of

from console.remote.state import LinkStatus
from console.tui import health, words
from console.tui.state import ConsoleState
from console.tui.widgets.evidence import below
from console.tui.widgets.progress import progress


def state_after(frames: list) -> ConsoleState:
    state = state_of(frames[0])
    for frame in frames[1:]:
        state.store.fold(frame)
        assert state.view is not None
        state.history.observe(state.view)
    return state


def lines(state: ConsoleState, width: int = 80) -> list[str]:
    assert state.attempt is not None
    return [one.plain.strip() for one in (*progress(state, state.attempt, width)[:3], *below(state, width)[:2])]


def test_a_stall_says_so_on_headline_and_strip_with_its_evidence() -> None:
    state = state_after(stall_scenes.stalled())
    headline, _, first, second, evidence = lines(state)
    assert headline.startswith("EXTRACT STALLED 3 min 20 s  ETA paused")
    assert f"{first} {second}".startswith(
        "nothing happens: no new unit for 3 min 20 s (usual 3.2 s, longest 9.0 s); processor 0.0 % of a core"
    )
    assert evidence.startswith("evidence/14 s  files +0  +0 B  cpu 0%  gpu 0%  beat 1 s")
    assert words.cell(state, words.STAGES["extract"], words.USUAL)[0] == "▶EXTRACT STALLED"
    assert state.attempt is not None and words.state_word(state, state.attempt) == "STALLED"
    wide = lines(state, 160)
    assert wide[2].endswith("GPUs idle, no I/O") and wide[3].startswith("evidence/14 s"), "where it fits it is one line"


def test_what_is_only_noteworthy_stands_beside_the_phase_and_takes_nothings_place() -> None:
    frames = stall_scenes.stalled(36)
    for number, frame in enumerate(frames):  # busy: the processor goes on
        frame["stages"]["extract"]["tree"].update(cpu_s=3000.0 + number * 2, states={"R": 2, "S": 7})
    state = state_after(frames)
    headline, _, pace, evidence, _ = lines(state)
    assert headline.startswith("EXTRACT STEADY  QUIET 36 s") and "tok/s" in pace and evidence.startswith("evidence/")
    assert "STALLED" not in words.cell(state, words.STAGES["extract"], words.USUAL)[0]


def test_a_healthy_job_shows_no_level_and_the_gaps_that_the_host_has_learned() -> None:
    state = state_after(stall_scenes.steady())
    headline, _, pace, _, _ = lines(state)
    assert headline.startswith("EXTRACT STEADY") and not any(word in headline for word in ("OK", "QUIET", "STALLED"))
    assert "usual 3.2 s, longest 9.0 s" in pace


def test_processes_that_a_signal_stopped_are_told_with_how_long_that_is() -> None:
    frames = stall_scenes.steady()
    last = frames[-1]["stages"]["extract"]
    for number in range(1, 8):
        now = scenes.NOW_S + 2 * number
        tree = {**last["tree"], "states": {"T": 9}, "boot_s": now - 0.5}
        frames.append(scenes.frame(now, stages=scenes.stages(extract={**last, "tree": tree, "lookout": stall_scenes.lookout(now)})))
    state = state_after(frames)
    headline, _, first, _, _ = lines(state)
    assert headline.startswith("EXTRACT STOPPED BY SIGNAL") and "9 of 9 processes are stopped" in first
    assert words.cell(state, words.STAGES["extract"], words.SHORT)[0] == "▶EXTRACT STOPPED"


@pytest.mark.parametrize(("seen", "told"), [(5, "ranks 5 of 8"), (8, "ranks 8 of 8")])
def test_ranks_are_counted_while_it_starts(seen: int, told: str) -> None:
    state = state_after(stall_scenes.starting(seen))
    assert told in lines(state)[2]
    assert "ranks" not in lines(state_after(stall_scenes.steady()))[2], "once it works they are a row of the evidence"


def test_a_lost_link_changes_no_word_and_lets_no_clock_run() -> None:
    state = state_after(stall_scenes.stalled())
    state.link = LinkStatus("RECONNECTING", 1200.0, 3, 4.0, "connection lost")
    headline = lines(state)[0]
    assert headline.startswith("EXTRACT STALLED 3 min 20 s  as of 20 min ago")


def test_an_alarm_takes_the_place_of_what_is_proven_until_it_was_seen_and_again_when_there_are_more() -> None:
    frames = stall_scenes.steady(
        alarms=[stall_scenes.alarm(scenes.NOW_S), stall_scenes.alarm(scenes.NOW_S, kind="nccl", count=1, boot_s=1.0)]
    )
    state = state_after(frames)
    told = lines(state)[-1]
    assert told.startswith("ALARM CUDA error x3, Worker_TP3, 12 s ago") and told.endswith("+1 more  e: all") and len(told) <= 78
    assert "ERROR torch.AcceleratorError: CUDA error: an illegal memory access" in lines(state, 160)[-1]
    health.see(state)
    assert lines(state)[-1].startswith("verified")
    more = stall_scenes.steady(alarms=[stall_scenes.alarm(scenes.NOW_S, count=4)])[-1]
    state.store.fold({**more, "boot_s": scenes.NOW_S + 1})
    assert lines(state)[-1].startswith("ALARM CUDA error x4")


def test_an_alarm_and_a_stall_both_have_room() -> None:
    frames = stall_scenes.stalled()
    frames[-1]["stages"]["extract"]["lookout"]["alarms"] = [stall_scenes.alarm(frames[-1]["boot_s"])]
    _, _, verdict, evidence, alarm = lines(state_after(frames))
    assert verdict.startswith("nothing happens") and verdict.endswith("…") and len(verdict) <= 78
    assert evidence.startswith("evidence/") and alarm.startswith("ALARM CUDA error x3")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_all_gpus_and_the_log_stay_in_sight_of_a_stall(size: tuple[int, int]) -> None:
    frames = stall_scenes.stalled()
    frames[-1]["stages"]["extract"]["lookout"]["alarms"] = [stall_scenes.alarm(frames[-1]["boot_s"])]
    async with showing(Fixture(frames=frames, log=scenes.LOG), *size) as pilot:
        app_of(pilot).clear_notifications()
        rows = (await redraw(pilot)).splitlines()
        assert sum(row.lstrip().startswith(str(index)) for index, row in zip(range(8), rows[3:], strict=False)) == 8
        text = "\n".join(rows)
        assert "▶EXTRACT STALLED" in text and "EXTRACT STALLED 3 min 20 s" in text and "ALARM CUDA error x3" in text and "─ log" in text


def test_an_alarm_of_a_stage_that_is_not_looked_at_is_told_with_its_name() -> None:
    frames = stall_scenes.steady()
    server = scenes.attempt(
        stage="serve",
        attempt="20251231-080000-0123456789ab",
        lookout=stall_scenes.lookout(scenes.NOW_S, alarms=[stall_scenes.alarm(scenes.NOW_S)]),
    )
    frames[-1]["stages"]["serve"] = server
    state = state_after(frames)
    assert state.attempt is not None and state.attempt.stage == "extract"
    assert lines(state)[-1].startswith("ALARM CUDA error x3 in serve, Worker_TP3, 12 s ago")


def test_a_server_that_is_stalled_says_so_on_the_strip_and_in_its_own_lines() -> None:
    frames = stall_scenes.steady()
    told = stall_scenes.lookout(scenes.NOW_S, level="STALLED", severity="red", line="nothing happens: no new unit for 4 min")
    up = scenes.progress(phase="steady", up=True, up_boot_s=scenes.NOW_S - 300, last_boot_s=None)
    frames[-1]["stages"]["serve"] = scenes.attempt(stage="serve", attempt="20251231-080000-0123456789ab", lookout=told, progress=up)
    state = state_after(frames)
    assert words.cell(state, words.STAGES["serve"], words.USUAL)[0] == "✗serve STALLED"
    state.looked_at = "serve"
    headline, _, line, _, _ = lines(state)
    assert headline.startswith("SERVE STALLED") and line == "nothing happens: no new unit for 4 min"
