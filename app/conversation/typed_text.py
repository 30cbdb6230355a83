"""Text typed while something else than the prompt has the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import events
from textual.screen import Screen

if TYPE_CHECKING:
    from widgets.prompt.widget import Prompt

    _Screen = Screen[Any]
else:
    _Screen = object


class TypesIntoPrompt(_Screen):
    """A screen whose prompt gets what is typed elsewhere and is no command there."""

    prompt: Prompt

    def on_key(self, event: events.Key) -> None:
        """Hand a character that nobody on the way took, and that no key stands for, to the prompt."""
        if self.prompt.has_focus or not event.is_printable or event.key in self.active_bindings:
            return
        self._type(event, events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """Hand a paste to the prompt that nobody on the way took."""
        if not self.prompt.has_focus:
            self._type(event, events.Paste(event.text))

    def _type(self, event: events.Event, typed: events.Key | events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.prompt.focus()
        self.prompt.post_message(typed)
