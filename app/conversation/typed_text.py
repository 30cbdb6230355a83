"""Text typed while something else than the prompt has the keys: it goes to the prompt all the same."""

from __future__ import annotations

from collections.abc import Container

from textual import events

from widgets.prompt.widget import Prompt


def type_into(prompt: Prompt, event: events.Key | events.Paste, bound: Container[str]) -> None:
    """Hand a paste or a character that nobody on the way took to the prompt, with the keys.

    A character for which a key is `bound` stays what it is.
    """
    if prompt.has_focus:
        return
    if isinstance(event, events.Paste):
        typed: events.Event = events.Paste(event.text)
    elif event.is_printable and event.key not in bound:
        typed = events.Key(event.key, event.character)
    else:
        return
    event.stop()
    event.prevent_default()
    prompt.focus()
    prompt.post_message(typed)
