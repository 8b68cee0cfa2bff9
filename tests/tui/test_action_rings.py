"""The end of an action that no sheet shows is heard, and an alert is called that wherever one is."""

import free_scenes
import scenes
import transition_scenes
from fakes import state_of

from console.core import views
from console.tui.action_notices import ActionNotices
from console.tui.messages import Said
from pipeline.contract import free, transition


def told(first: dict, then: dict, kind: str) -> list[Said]:
    state = state_of(free_scenes.frame(None))
    notices = ActionNotices(state, lambda attempt: False)
    for at, one in enumerate((first, then)):
        view = views.parse(scenes.frame(scenes.NOW_S + at, actions={kind: one}))
        assert view is not None
        said = notices.of(view)
    return said


def test_an_alert_rings_and_says_so() -> None:
    receipt = transition_scenes.receipt(outcome=transition.STOPPED, alert="GPU 3: 5150 anna", exit_code=11, verified=False)
    (said,) = told(transition_scenes.action(), transition_scenes.ended(receipt), transition.ACTION)
    assert (said.rings, said.severity) == (True, "error")
    assert said.text.startswith("ALERT: the transition stopped, the GPUs are held: GPU 3: 5150 anna")


def test_the_end_of_freeing_rings_and_its_beginning_does_not() -> None:
    (said,) = told(free_scenes.action(), free_scenes.ended(free_scenes.receipt(free_scenes.STORY_MIB)), free.ACTION)
    assert said.rings and said.severity == "warning"
    state = state_of(free_scenes.frame(None))
    view = views.parse(free_scenes.frame(free_scenes.action()))
    assert view is not None
    (began,) = ActionNotices(state, lambda attempt: False).of(view)
    assert not began.rings and "are being freed by me on here" in began.text
