"""What a command is."""

from __future__ import annotations

from typing import Literal, NamedTuple

from widgets.key_names import shown_key

Group = Literal["Turn", "Conversation", "Sessions", "View", "Program"]
GROUPS: tuple[Group, ...] = ("Turn", "Conversation", "Sessions", "View", "Program")
NO_KEY = "no-key-"
"""Before an id: a key that nobody can press, for commands without one, so that they can be given one."""


class Command(NamedTuple):
    """Something a person can ask the program to do."""

    id: str
    """Stable name, `group.verb`, under which its keys can be mapped anew."""
    group: Group
    name: str
    """What the palette shows."""
    description: str
    """One line for help: what it does, and what it does not."""
    action: str
    """The method of `Actions` that does it."""
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
