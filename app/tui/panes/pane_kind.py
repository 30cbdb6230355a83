"""Declaration of a side pane: its name and place, its command, the events it handles."""

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


def _hears_nothing(_pane: Any, _event: Event) -> None:
    pass


@dataclass(frozen=True, slots=True)
class PaneKind:
    """The declaration of one side pane."""

    name: str
    """What the pane calls itself; the command that opens it has the same name."""
    place: int
    """Panes stand in the order of their places; those of the program have 10 to 40."""
    make: Callable[[], Pane]
    events: tuple[type[Event], ...] = ()
    """What it takes itself, of every agent."""
    hear: Callable[[Any, Event], None] = _hears_nothing
    """Tells the pane such an event. Quick: it runs on the event loop, and the pane draws later."""
    label: str = ""
    """What palette and help call it; empty if its command is in `app.tui.commands.registry`."""
    about: str = ""
    """A line for help, ended by a full stop."""
    key: str = ""
    """Opens it, as Textual names keys; empty for none."""

    def command(self) -> AppCommand | None:
        """The command that opens the pane, which can also be typed after a slash."""
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
    """Import and return all panes in their order; one that cannot be loaded is logged and left out."""
    found: list[PaneKind] = [module.PANE for module in PANES.load_all()[0]]
    return sorted(found, key=lambda kind: kind.place)
