"""The declaration of a side pane: its name and position, its command, the events it handles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.events import Event
from app.tui.commands.registry import AppCommand
from tools.parts import PartKind

if TYPE_CHECKING:
    from widgets.panes.pane import Pane

PANES = PartKind("panes", "app.tui.panes", "_pane")


def _ignore_event(_pane: Any, _event: Event) -> None:
    pass


@dataclass(frozen=True, slots=True)
class PaneKind:
    """The declaration of one side pane."""

    name: str
    """The name of the pane and of the command that opens it."""
    place: int
    """The position among the panes: they are sorted by it, and the built-in ones have 10 to 40."""
    make: Callable[[], Pane]
    events: tuple[type[Event], ...] = ()
    """Event types that the pane handles itself, from every agent."""
    handle: Callable[[Any, Event], None] = _ignore_event
    """Passes such an event to the pane. It must be quick, as it runs on the event loop; the pane repaints
    later.
    """
    label: str = ""
    """The name in palette and help; empty if the command is in `app.tui.commands.registry`."""
    about: str = ""
    """A sentence for help."""
    key: str = ""
    """The key that opens the pane, by Textual's name; empty for none."""

    def command(self) -> AppCommand | None:
        """The command that opens the pane, with a slash command of its name; None without a label."""
        if not self.label:
            return None
        return AppCommand(
            id=f"view.{self.name}",
            group="View",
            name=self.label,
            description=self.about,
            action=lambda app, _argument: app.session.workbench.open(self.name),
            keys=(self.key,) if self.key else (),
            slash=self.name,
        )


def pane_kinds() -> list[PaneKind]:
    """Import and return all kinds of panes in order; one that cannot be loaded is logged and left out."""
    return sorted(PANES.declarations("PANE"), key=lambda kind: kind.place)
