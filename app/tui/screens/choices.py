"""A list of numbered choices, as in every dialog that offers some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.css.scalar import Scalar
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.tui.screens.wording import LINE_CHARS, line

MOST_LINES = 10
"""Lines the choices take at most."""
HANGING = 3
"""Cells of a choice's number and the blanks behind it."""


class Choices(OptionList):
    """A list of choices: arrows, j and k, digits, enter and the mouse. Other text is for its dialog."""

    BINDINGS: ClassVar[list[BindingType]] = [("j", "cursor_down", "Down"), ("k", "cursor_up", "Up")]

    def __init__(self, choices: list[str], *, chosen: int = 0, id: str | None = None) -> None:
        self._chosen = chosen
        self._held: list[events.Key] | None = None
        self._texts = [Content(line(choice, LINE_CHARS)) for choice in choices]
        options = [Option(hanging(at, [text]), id=str(at)) for at, text in enumerate(self._texts, 1)]
        super().__init__(*options, id=id, compact=True)

    def wrap(self, width: int) -> int:
        """Wrap the choices for a frame with so many cells inside; how many lines they take."""
        wrapped = [text.wrap(max(width - 2 - HANGING, 1)) for text in self._texts]
        if sum(map(len, wrapped)) > MOST_LINES:  # there is a scrollbar beside them
            wrapped = [text.wrap(max(width - 4 - HANGING, 1)) for text in self._texts]
        for at, lines in enumerate(wrapped):
            prompt = hanging(at + 1, lines)
            if prompt != self.get_option_at_index(at).prompt:
                self.replace_option_prompt_at_index(at, prompt)
        return min(sum(map(len, wrapped)), MOST_LINES)

    def limit(self, lines: int) -> None:
        """Take so many lines at most, and keep the chosen one in sight."""
        if self.styles.max_height != Scalar.from_number(lines):
            self.styles.max_height = lines
            self.call_after_refresh(self.scroll_to_highlight)

    def on_mount(self) -> None:
        self.highlighted = self._chosen

    def action_select(self) -> None:
        self._held = []
        super().action_select()
        self.call_after_refresh(self._hand_on)

    async def on_blur(self) -> None:
        await self._hand_on()

    async def _hand_on(self) -> None:
        """Let what was typed right after the choice come again, for whatever has the keys now."""
        held, self._held = self._held or [], None
        for event in held:
            await self.app.on_event(events.Key(event.key, event.character))

    def on_key(self, event: events.Key) -> None:
        if self._held is not None:
            # The choice is made, though not carried out: this key is no second one.
            event.stop()
            event.prevent_default()
            self._held.append(event)
        elif (takes := getattr(self.screen, "takes_typing", None)) is not None and takes(event):
            return
        elif event.character and event.character.isascii() and event.character.isdigit():
            number = int(event.character)
            if 1 <= number <= self.option_count:
                event.stop()
                self.highlighted = number - 1
                self.action_select()


def hanging(number: int, lines: Sequence[Content]) -> Content:
    """The lines of a choice behind its number. Pure."""
    return Content(f"{number}".ljust(HANGING)) + Content("\n" + " " * HANGING).join(lines)
