"""Every action in the command palette; what cannot be done now says why."""

from collections.abc import Callable

from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.markup import escape

from console.tui.bindings import ACTIONS, Action, reason
from console.tui.draw import MUTED


class Palette(CommandPalette):
    """Textual's, which ended the console at a page key before its list has a line."""

    def _action_command_list(self, action: str) -> None:
        if self.query_one(CommandList)._index_to_line:
            super()._action_command_list(action)


class ActionProvider(Provider):
    """Gives the table of actions to Textual's palette."""

    async def discover(self) -> Hits:
        for action in ACTIONS:
            yield DiscoveryHit(self._label(action), self._perform(action), text=action.label, help=self._help(action))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in ACTIONS:
            score = matcher.match(f"{action.label} {action.id.replace('_', ' ')}")
            if score > 0:
                yield Hit(score, self._label(action), self._perform(action), text=action.label, help=self._help(action))

    def _label(self, action: Action) -> Content:
        key = f"  {action.key}" if action.key else ""
        return Content.assemble((action.label, MUTED if self._why(action) else ""), (key, MUTED))

    def _help(self, action: Action) -> str:
        why = self._why(action)
        return escape(f"not now: {why}" if why else action.help)  # the palette reads it as markup

    def _why(self, action: Action) -> str | None:
        return reason(action, self.app.state)  # type: ignore[attr-defined]

    def _perform(self, action: Action) -> Callable[[], None]:
        return lambda: self.app.perform(action.id)  # type: ignore[attr-defined]
