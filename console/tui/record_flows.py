"""What the keys do that show and keep the record: since, history, the incident bundle, a test alert."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from textual.content import Content

from console.core import alerting, fmt, since
from console.core.past import Past
from console.core.since import Line
from console.tui import gates
from console.tui.absence import Absence, LookBack
from console.tui.draw import MUTED, rows
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.history import HistoryScreen
from console.tui.screens.kept import Ask, KeptScreen, Wanted, times_of
from console.tui.screens.since import SinceScreen
from console.tui.state import ConsoleState
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp

LAST_HOURS = 24
"""What ``since`` shows when nobody was away."""


class RecordFlows:
    """Base of the flows, which set ``_app``."""

    _app: "ConsoleApp"

    @property
    def _state(self) -> ConsoleState:
        return self._app.state

    def _beside(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside everything else, once at a time: looking and telling keep nobody from stopping a job meanwhile."""
        app = self._app
        if any(one.group == name and not one.is_finished for one in app.workers):
            work.close()
            app.say(f"{name}: it is under way already")
            return
        app.run_worker(self._told(name, work), group=name, exit_on_error=False)

    async def _told(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except StageError as error:
            self._app.problem(name, str(error))

    def since(self) -> None:
        """What happened in the newest absence; without one in the last day."""
        back = self._state.looked_back
        if back is not None and back.run == self._state.run:
            self.look_back(back)
        else:
            self._beside("Since", self._last_day())

    def look_back(self, back: LookBack) -> None:
        """Open the sheet of what the host told."""

        def evidence(line: Line) -> None:
            if not line.stage or not line.attempt:
                self._app.say(f"{line.what}: this line is about no attempt; A shows the audit log, there and here", "warning")
                return
            self._kept(Wanted(back.run, line.stage, line.attempt, line.boot_s))

        self._app.push_screen(SinceScreen(self._state, back, evidence, self._again))

    def _again(self, back: LookBack) -> None:
        self._app.sheets.look_back(lambda: self.look_back(back))

    def looked_back(self, back: LookBack | None) -> None:
        """An absence is over: its sheet comes first; where nothing happened, a line that passes by says so."""
        app = self._app
        self._state.looking_back = False
        if back is None:
            app.tick()
            return
        self._state.looked_back = back
        if back.record.lines:
            app.endings.drop({one.attempt for one in back.record.lines})  # their sheet would only say it again
            self._again(back)
            app.tick()
            return
        when = since.times(back.record, back.asked_s, self._state.utc_offset_s).of(back.absence.since_wall_s)
        lasted = fmt.duration(back.absence.lasted_s)
        app.say(f"since {when} ({back.absence.how} {lasted}) nothing happened in {back.run} on {self._state.host}")

    async def _last_day(self) -> None:
        app, state = self._app, self._state
        seconds = LAST_HOURS * 3600.0
        absence = Absence(f"the last {LAST_HOURS} h", state.wall_s + times_of(state).ahead_s - seconds, 0.0)
        back = await app.controller.look_back(absence)
        if back is None:
            app.problem("Since", f"the host program of {state.host} tells no record of what happened")
        elif not back.record.lines:
            app.say(f"in the last {LAST_HOURS} h nothing happened in {state.run} on {state.host}")
        else:
            self._again(back)  # the answer took a while: over no dialog that was opened meanwhile
            app.tick()

    def history(self) -> None:
        def opened(one: Past) -> None:
            self._kept(Wanted(one.run, one.stage, one.attempt), one)

        state = self._state
        stage = self._app.dashboard.focused_stage or (state.attempt.stage if state.attempt else None)
        self._app.push_screen(HistoryScreen(state, stage, self._app.controller.history, opened, times_of(state)))

    def _kept(self, wanted: Wanted, known: Past | None = None) -> None:
        controller = self._app.controller
        ask = Ask(controller.events, controller.provenance_of, controller.history)
        self._app.push_screen(KeptScreen(self._state, wanted, ask, times_of(self._state), known))

    def test_alert(self) -> None:
        self._beside("Send test alert", self._test_alert())

    async def _test_alert(self) -> None:
        app, state = self._app, self._state
        ways = alerting.ways(state.resolved)
        lines = [
            *(rows([(one.how, one.what) for one in ways]) or [Content(" by the settings that this console has read: nowhere")]),
            Content(),
            Content.styled(f" {state.host} sends it now, marked as a test; the run's [alerts] say where to", MUTED),
        ]
        if not await app.push_screen_wait(ConfirmScreen(state, f"Send a test alert from {state.host}?", lines, "Send it", danger=False)):
            return
        if reason := gates.test_alert(state):
            app.say(f"Send test alert: {reason}", "warning")
            return
        sent = await app.controller.alert_test()
        told = alerting.words(sent)
        if alerting.delivered(sent):
            app.say(f"test alert of {state.run}: {told}")
        else:
            app.problem("Test alert: NOT delivered", told)

    def incident(self) -> None:
        from console.tui import incident

        taken = incident.picture(self._app)  # before anything else is drawn
        self._beside("Incident bundle", incident.save(self._app, taken))
