"""The rule that text typed while another widget has the focus goes to the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import events
from textual.screen import Screen

from app.tui.conversation.session_screen import ConversationScreen

if TYPE_CHECKING:
    from app.tui.app_context import AppContext


def focus_prompt(screen: Screen[object], event: events.Key | events.Paste) -> None:
    """Focus the prompt of a conversation if the event is text that the focused widget does not use.

    A widget uses a character if its key hints list it, or if the user has bound it there. Text widgets and
    lists being filtered use every character; blanks and punctuation bound to an action are used, too.
    """
    if not isinstance(screen, ConversationScreen) or screen.prompt.has_focus:
        return
    if isinstance(event, events.Key) and not event.is_printable:
        return
    key, typed = (event.key, event.character) if isinstance(event, events.Key) else ("a", "a")
    if (part := screen.focused) is not None and part.check_consume_key(key, typed):
        return
    if isinstance(event, events.Key) and (active := screen.active_bindings.get(key)) is not None:
        chosen = cast("AppContext", screen.app).keys.changed
        # A blank or punctuation starts no message, so it remains a command of this widget.
        if active.binding.id in chosen or typed in screen.keys_shown() or not (typed or "").isalnum():
            return
    screen.set_focus(screen.prompt)


def is_text(event: events.Event) -> bool:
    """Return whether the event is text rather than a command. Pure."""
    return isinstance(event, events.Paste) or (isinstance(event, events.Key) and event.is_printable)
