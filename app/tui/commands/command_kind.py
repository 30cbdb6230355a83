"""Declaration of a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from widgets.key_names import shown_key

Group = Literal["Turn", "Conversation", "Sessions", "View", "Program"]
GROUPS: tuple[Group, ...] = ("Turn", "Conversation", "Sessions", "View", "Program")
NO_KEY = "no-key-"
"""Before an id: a key that nobody can press, for commands without one, so that they can be given one."""


class AppCommand(NamedTuple):
    """Something a person can ask the program to do."""

    id: str
    """Stable name, `group.verb`, under which its keys can be mapped anew."""
    group: Group
    name: str
    """What the palette shows."""
    description: str
    """One line for help: what it does, and what it does not."""
    action: str | Callable[[Any, str], object]
    """What does it: a method of `Actions` by its name, or a function, plain or async.

    The function gets the application and what was typed after the slash command; a `HermesError` it raises
    is told as a sentence."""
    keys: tuple[str, ...] = ()
    """Keys as Textual names them."""
    slash: str = ""
    """The word after the slash; empty if it has none."""
    argument_hint: str = ""
    """What may follow the slash command; empty if nothing may."""
    first: bool = True
    """Whether its keys are taken before the focused widget sees them."""
    by_prompt: bool = False
    """Whether the prompt itself reads its keys, because they act on what is being written."""

    @property
    def keys_shown(self) -> str:
        """The keys in a terminal's own notation, such as `^P`."""
        return " ".join(shown_key(key) for key in self.keys)
