"""What all dialogs share: they open armed with patience, and end in a typed outcome."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.css.scalar import Scalar
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.screens.closable import ClosableModal
from app.screens.keyline import BETWEEN, KeyLine
from themes.skin import Skin
from tools.text import left_out, reveal
from widgets.palette import Palette
from widgets.reader import Reader
from widgets.reader_rows import Gutter

Outcome = TypeVar("Outcome")

ARMING_DELAY = 0.35
"""Seconds before a dialog takes its first key; a key in that time starts them anew."""

WIDTH, SHARE = 84, 0.94
"""The widest a dialog gets, in cells, and the most of the screen; as in its stylesheet."""
FRAME = 4
"""Cells of its border and padding."""
AROUND = 5
"""Lines of a dialog beside texts, choices and fields: border, who asks, keys and the line above them."""
AROUND_LOW = 2
"""The same where the screen is too low for them: who asks, and keys."""
PADDING = 2
"""Cells beside what is inside a dialog without a border."""
MOST_LINES = 10
"""Lines the choices take at most."""
HANGING = 3
"""Cells of a choice's number and the blanks behind it."""
LINE_CHARS = 400
"""Characters of a name or a choice that a dialog shows; `o` opens all of them."""


class Dialog(ClosableModal[Outcome]):
    """A question in the middle of the session.

    A key typed before the dialog could be read is never an answer: until it is
    armed, what is typed goes to `spill`, which is the draft it was meant for.
    """

    enters: str = "take it"
    """What enter does with what is written."""
    leaves: ClassVar[str] = "cancel"
    """What esc does."""
    opens: ClassVar[bool] = False
    """Whether it says that `o` opens everything."""
    at_once: ClassVar[bool] = False
    """Whether it takes keys without patience, as the person has just asked for it."""

    CSS_PATH = "dialog.tcss"
    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(self, spill: Callable[[str], None] = lambda _text: None) -> None:
        super().__init__()
        self._spill = spill
        self._arming: Timer | None = None
        self.armed = False

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", disabled=True):
            yield from self.body()

    def body(self) -> ComposeResult:
        """The widgets inside the frame."""
        raise NotImplementedError

    def decline(self) -> None:
        """End with the safe outcome."""
        raise NotImplementedError

    def entry(self) -> Widget:
        """What gets the focus once the dialog is armed."""
        return self.query_one(Choices)

    def whole(self) -> str:
        """Everything that is asked, with nothing left out."""
        return "\n\n".join(text.text for text in self.query(Reader))

    def on_mount(self) -> None:
        if self.at_once:
            self._arm()
        else:
            self._arming = self.set_timer(ARMING_DELAY, self._arm)
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def on_descendant_focus(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Give the texts the room that choices and keys leave them; too low a screen shows no frame."""
        screen = self.app.size
        width = min(WIDTH, int(screen.width * SHARE)) - FRAME
        texts, lists = list(self.query(Reader)), list(self.query(Choices))
        fields = sum(each.display for each in self.query(Input))
        taken = len(texts) + sum(each.wrap(width) + 1 for each in lists) + 2 * fields
        rest, most = screen.height - AROUND - taken, MOST_LINES
        if low := rest < len(texts):
            width = screen.width - PADDING
            room = screen.height - AROUND_LOW - fields
            most = max(room - len(texts), 1)
            rest = room - sum(min(each.wrap(width), most) for each in lists)
        self.query_one("#dialog").set_class(low, "low")
        for each in lists:
            each.limit(most)
        wanted = [text.get_content_height(screen, screen, width) for text in texts]
        given = shared(rest, wanted)
        for text, lines in zip(texts, given, strict=True):
            text.styles.height = text.styles.max_height = lines
        hints = self._hints(scrolls=any(map(operator.gt, wanted, given)))
        for each in self.query(Hints):
            each.say(hints)

    def _hints(self, *, scrolls: bool) -> str:
        """The keys that work now."""
        choices = sum(each.option_count for each in self.query(Choices))
        if not choices or any(each.has_focus for each in self.query(Input)):
            keys = [f"⏎ {self.enters}"]
        else:
            digits = f"1–{min(choices, 9)}" if choices > 1 else "1"
            keys = [f"{digits} or ⏎ choose", *(["o in full"] if self.opens else [])]
        return BETWEEN.join([*keys, *(["PgUp PgDn scroll"] if scrolls else []), f"esc {self.leaves}"])

    def on_key(self, event: events.Key) -> None:
        if self.armed:
            if event.key in ("escape", "ctrl+c"):
                event.stop()
                self.decline()
            return
        event.stop()
        event.prevent_default()
        if event.is_printable and event.character:
            self._spill(event.character)
        if self._arming is not None:
            self._arming.reset()

    def on_paste(self, event: events.Paste) -> None:
        if not self.armed:
            event.stop()
            self._spill(event.text)

    def key_pageup(self) -> None:
        """Scroll back, the last text first."""
        any(text.page(-1) for text in reversed(self.query(Reader)))

    def key_pagedown(self) -> None:
        """Scroll on: the first text to its end, then the next."""
        any(text.page(1) for text in self.query(Reader))

    def key_o(self) -> None:
        """Open everything on the full screen; the dialog waits behind it."""
        from app.screens.detail import DetailScreen

        self.app.push_screen(DetailScreen("In full", self.whole(), spelled=True))

    def _arm(self) -> None:
        self.armed = True
        self.query_one("#dialog").disabled = False
        self.entry().focus()


def shared(room: int, wanted: Sequence[int]) -> list[int]:
    """How many of `room` lines each text gets: what it wants, else the earlier ones the larger part. Pure."""
    given: list[int] = []
    for at, lines in enumerate(wanted):
        rest = sum(wanted[at + 1 :])
        most = max(room - rest, room * 3 // 5 if rest else room, 1)
        given.append(min(lines, most))
        room -= given[-1]
    return given


class Hints(KeyLine):
    """The keys of a dialog, which it says itself."""

    def __init__(self) -> None:
        super().__init__(classes="keys")


class Choices(OptionList):
    """A list of choices: arrows, j and k, digits, enter and the mouse."""

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

    def on_blur(self) -> None:
        self._hand_on()

    def _hand_on(self) -> None:
        """Give what was typed right after the choice to whatever has the keys now."""
        held, self._held = self._held or [], None
        if held and self.is_attached and (focused := self.screen.focused) is not None:
            for event in held:
                focused.post_message(events.Key(event.key, event.character))

    def on_key(self, event: events.Key) -> None:
        if self._held is not None:
            # The choice is made, though not carried out: this key is no second one.
            event.stop()
            event.prevent_default()
            self._held.append(event)
        elif event.character and event.character.isascii() and event.character.isdigit():
            number = int(event.character)
            if 1 <= number <= self.option_count:
                event.stop()
                self.highlighted = number - 1
                self.action_select()


def hanging(number: int, lines: Sequence[Content]) -> Content:
    """The lines of a choice behind its number. Pure."""
    return Content(f"{number}".ljust(HANGING)) + Content("\n" + " " * HANGING).join(lines)


class Field(Input):
    """A line to write in. Its cursor blinks only where things may move."""

    def on_mount(self) -> None:
        self.cursor_blink = self.app.animation_level != "none"


class Skinned(Reader):
    """A text in the skin of the application."""

    def on_mount(self) -> None:
        self._wear_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._wear_skin())

    def _wear_skin(self) -> None:
        self.use(Palette(getattr(self.app, "skin", None) or Skin()))


def line(text: str, limit: int = 4_000) -> str:
    """Outside text as one line, with what cannot be seen spelled out; of a huge one, start and end."""
    if len(text) > limit:
        half = limit // 2
        text = text[:half] + left_out(len(text) - 2 * half, len(text)) + text[-half:]
    return " ".join(reveal(text).split())


def words(
    text: str,
    classes: str = "",
    *,
    role: str = "text",
    marks: re.Pattern[str] | None = None,
    gutter: int | Gutter = 0,
) -> Skinned:
    """Outside text in full, never read as markup, with what cannot be seen spelled out."""
    return Skinned(text, reveal, marks=marks, role=role, background="surface", gutter=gutter, classes=classes)
