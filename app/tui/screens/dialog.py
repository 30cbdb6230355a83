"""The base class of dialogs: they ignore early key presses, and return a typed outcome."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.css.scalar import Scalar
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.tui.screens.closable import ClosableModal
from app.tui.screens.page import BETWEEN, HELP, LINE_CHARS, Field, KeyLine, ScreenHeader, Skinned, line, words
from themes.states import glyph
from tools.text.safe_text import clean, reveal
from tools.text.words import plural
from widgets.rows.reader import Reader, ReaderLook, diff_tones
from widgets.rows.row_text import letters

MOST_LINES = 10
"""The largest number of lines of the choices."""
HANGING = 3
"""The width in cells of a choice's number and the blanks after it."""


class Choices(OptionList):
    """A list of choices, operated with arrows, j and k, digits, enter and the mouse. Its dialog handles other
    keys.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("j", "cursor_down", "Down"), ("k", "cursor_up", "Up")]

    def __init__(self, choices: list[str], *, chosen: int = 0, id: str | None = None) -> None:
        self._chosen = chosen
        self._held: list[events.Key] | None = None
        self._texts = [Content(line(choice, LINE_CHARS)) for choice in choices]
        options = [Option(indent_choice(at, [text]), id=str(at)) for at, text in enumerate(self._texts, 1)]
        super().__init__(*options, id=id, compact=True)

    def wrap(self, width: int) -> int:
        """Wrap the choices for an inner width of `width` cells; return the number of lines."""
        wrapped = [text.wrap(max(width - 2 - HANGING, 1)) for text in self._texts]
        if sum(map(len, wrapped)) > MOST_LINES:  # a scrollbar takes a column
            wrapped = [text.wrap(max(width - 4 - HANGING, 1)) for text in self._texts]
        for at, lines in enumerate(wrapped):
            prompt = indent_choice(at + 1, lines)
            if prompt != self.get_option_at_index(at).prompt:
                self.replace_option_prompt_at_index(at, prompt)
        return min(sum(map(len, wrapped)), MOST_LINES)

    def limit(self, lines: int) -> None:
        """Limit the height to `lines`, and keep the chosen entry visible."""
        if self.styles.max_height != Scalar.from_number(lines):
            self.styles.max_height = lines
            self.call_after_refresh(self.scroll_to_highlight)

    def on_mount(self) -> None:
        self.highlighted = self._chosen

    def action_select(self) -> None:
        self._held = []
        super().action_select()
        self.call_after_refresh(self._forward_keys)

    async def on_blur(self) -> None:
        await self._forward_keys()

    async def _forward_keys(self) -> None:
        """Send the keys typed right after the choice once more, for the widget that now has the focus."""
        held, self._held = self._held or [], None
        for event in held:
            await self.app.on_event(events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """Give a paste to the screen directly, so that an enter key after it cannot be handled first."""
        if (takes := getattr(self.screen, "on_paste", None)) is not None:
            takes(event)

    def on_key(self, event: events.Key) -> None:
        if self._held is not None:
            # A choice was made but not applied yet: this key must not make a second one.
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


def indent_choice(number: int, lines: Sequence[Content]) -> Content:
    """Return the lines of a choice indented after its number. Pure."""
    return Content(f"{number}".ljust(HANGING)) + Content("\n" + " " * HANGING).join(lines)


Outcome = TypeVar("Outcome")

ARMING_DELAY = 0.35
"""Seconds before a dialog accepts keys; a key within that time restarts the delay."""

WIDTH, SHARE = 84, 0.94
"""The largest width of a dialog, in cells and as a share of the screen; as in its stylesheet."""
FRAME = 4
"""The width in cells of the dialog's border and padding."""
AROUND = 5
"""Lines of a dialog besides texts, choices and fields: border, asking agent, keys, and a blank line."""
AROUND_LOW = 2
"""Lines besides them on a low screen: asking agent and keys."""
PADDING = 2
"""The number of cells beside the contents of a dialog without a border, both sides together."""


class Dialog(ClosableModal[Outcome]):
    """A question shown above the session.

    A key pressed before the dialog could be read is never an answer. Until the dialog is armed, typed text
    goes to `paste_into_draft`, which adds it to the draft it was meant for. The same happens later, next to a
    list of choices, with text that is not a key of the dialog. After that, the draft gets all text, including
    digits and enter, until an arrow key or esc returns to the choices.
    """

    enters: str = "take it"
    """The effect of enter on the typed text, for the key hints."""
    leaves: ClassVar[str] = "cancel"
    """The effect of esc, for the key hints."""
    opens: ClassVar[bool] = False
    """True if the hints mention that `o` opens the full text."""
    at_once: ClassVar[bool] = False
    """True if the dialog accepts keys at once, because the user has just opened it."""
    weighs_digits: ClassVar[bool] = False
    """True if a digit chooses only after a short pause, as a text may begin with it."""

    CSS_PATH: ClassVar = Path(__file__).with_name("dialog.tcss")
    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(self, paste_into_draft: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self._paste_into_draft = paste_into_draft or self._paste_into_app_draft
        self._to_prompt = False
        """True if typed text goes to the draft."""
        self._moved = ""
        """Letters that just moved the cursor; if text follows, they belong to it."""
        self._arming: Timer | None = None
        self._choosing: Timer | None = None
        """The timer that accepts the choice of a typed digit."""
        self._covered: Widget | None = None
        """The focused widget when another dialog opened above this one."""
        self._frame = Vertical(id="dialog", disabled=True)
        self.armed = False
        self._said = ""
        """The key hints shown last."""

    def compose(self) -> ComposeResult:
        with self._frame:
            yield from self.body()

    def show_waiting_count(self, count: int) -> None:
        """Show on the frame how many other questions wait behind this one."""
        self._frame.border_subtitle = f"{count} more wait{'s' if count == 1 else ''}" if count > 0 else ""

    def body(self) -> ComposeResult:
        """Yield the widgets inside the frame."""
        raise NotImplementedError

    def decline(self) -> None:
        """End the dialog with its safe outcome."""
        raise NotImplementedError

    def entry(self) -> Widget:
        """Return the widget that gets the focus once the dialog is armed."""
        return self.query_one(Choices)

    def full_text(self) -> str:
        """Return the full text of the question."""
        return "\n\n".join(text.text for text in self.query(Reader))

    def on_mount(self) -> None:
        if self.at_once:
            self._arm()
        else:
            self._arming = self.set_timer(ARMING_DELAY, self._arm)
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def on_screen_suspend(self) -> None:
        """When another dialog opens above this one, remember the focus and hide the frame."""
        if isinstance(self.app.screen, Dialog):
            self._covered = self.focused
            self._frame.visible = False

    def on_screen_resume(self) -> None:
        if not self._frame.visible:
            self._frame.visible = True
            self.set_focus(self._covered)

    def on_descendant_focus(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Give the texts the lines that choices and key hints leave free; hide the frame on a very low
        screen.
        """
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
        self._frame.set_class(low, "low")
        for each in lists:
            each.limit(most)
        wanted = [text.get_content_height(screen, screen, width) for text in texts]
        given = share_lines(rest, wanted)
        for text, lines in zip(texts, given, strict=True):
            text.styles.height = text.styles.max_height = lines
        self._said = hints = self._hints(scrolls=any(map(operator.gt, wanted, given)))
        for each in self.query(Hints):
            each.say(hints)

    def _hints(self, *, scrolls: bool) -> str:
        """Return the key hints for the keys that work now."""
        choices = sum(each.option_count for each in self.query(Choices))
        if self.armed and self.writes:
            return f"⏎ send what you wrote{BETWEEN}↑↓ or esc back to the choices"
        if not choices or any(each.has_focus for each in self.query(Input)):
            keys = [f"⏎ {self.enters}"]
        else:
            digits = f"1–{min(choices, 9)}" if choices > 1 else "1"
            keys = [f"{digits} or ⏎ choose", *(["o in full"] if self.opens else [])]
        return BETWEEN.join([*keys, *(["PgUp PgDn scroll"] if scrolls else []), f"esc {self.leaves}"])

    @property
    def writes(self) -> bool:
        """True while typed text goes to the draft instead of choosing."""
        return self._to_prompt

    def on_key(self, event: events.Key) -> None:
        if self.armed:
            if event.key in ("escape", "ctrl+c"):
                event.stop()
                self.decline()
            return
        event.stop()
        event.prevent_default()
        if event.is_printable and event.character:
            self._to_prompt = True
            self._paste_into_draft(event.character)
        elif event.key in ("enter", "backspace"):
            self._press(event.key)
        if self._arming is not None:
            self._arming.reset()

    def takes_typing(self, event: events.Key) -> bool:
        """Handle a key as text for the draft or as a pending digit; return whether that was done."""
        if not self.armed or not any(each.has_focus for each in self.query(Choices)):
            return False
        typed = event.character if event.is_printable else None
        choosing, self._choosing = self._choosing, None
        if choosing is not None:
            choosing.stop()
        elif typed in ("j", "k") and not self.writes:
            self._moved += typed
            return False
        moved, self._moved = self._moved, ""
        if self.writes and event.key in ("escape", "up", "down", "tab", "shift+tab"):
            self.back_to_choices()
        elif typed and (self.writes or choosing is not None or not self._is_choice(typed)):
            self._to_prompt = True
            self._paste_into_draft(moved + typed)
        elif self.writes and event.key in ("enter", "backspace"):
            self._press(event.key)
        elif self.weighs_digits and typed and typed.isdigit():
            self._moved = moved + typed
            self.query_one(Choices).highlighted = int(typed) - 1
            self._choosing = self.set_timer(ARMING_DELAY, self._take_pointed)
        else:
            return False
        event.stop()
        event.prevent_default()
        self._fit()
        return True

    def _is_choice(self, typed: str) -> bool:
        """Return whether a character is the number of a choice or a key from the hints."""
        most = sum(each.option_count for each in self.query(Choices))
        return typed in letters(self._said) or (typed in "123456789" and int(typed) <= most)

    def _take_pointed(self) -> None:
        """Accept the choice whose digit was typed, because no further key followed."""
        self._choosing, self._moved = None, ""
        self.query_one(Choices).action_select()

    def back_to_choices(self) -> None:
        """Let typed keys choose again instead of going to the draft."""
        self._to_prompt = False

    def _press(self, key: str) -> None:
        """Press a key in the prompt; enter sends the draft, and later keys are for the dialog again."""
        if press := getattr(self.app, "press_on_draft", None):
            press(key)
        if key == "enter":
            self._to_prompt = False

    def _paste_into_app_draft(self, text: str) -> None:
        if paste_into_draft := getattr(self.app, "paste_into_draft", None):
            paste_into_draft(text)

    def on_paste(self, event: events.Paste) -> None:
        if not self.armed or any(each.has_focus for each in self.query(Choices)):
            event.stop()
            self._to_prompt = True
            self._paste_into_draft(event.text)
            self._fit()

    def key_pageup(self) -> None:
        """Scroll up by a page: the last text first, then those above it."""
        any(text.page(-1) for text in reversed(self.query(Reader)))

    def key_pagedown(self) -> None:
        """Scroll down by a page: the first text to its end, then the next one."""
        any(text.page(1) for text in self.query(Reader))

    def key_o(self) -> None:
        """Open the full text on its own screen; the dialog waits behind it."""
        self.app.push_screen(DetailScreen("In full", self.full_text(), spelled=True))

    def _arm(self) -> None:
        self.armed = True
        self._frame.disabled = False
        self.entry().focus()


def share_lines(room: int, wanted: Sequence[int]) -> list[int]:
    """Return how many of `room` lines each text gets.

    Each gets the lines it needs; if they do not suffice, earlier texts get the larger part. Pure.
    """
    given: list[int] = []
    for at, lines in enumerate(wanted):
        rest = sum(wanted[at + 1 :])
        most = max(room - rest, room * 3 // 5 if rest else room, 1)
        given.append(min(lines, most))
        room -= given[-1]
    return given


class Hints(KeyLine):
    """The keys of a dialog, shown by the dialog itself."""

    def __init__(self) -> None:
        super().__init__(classes="keys")


class ProblemLine(Static):
    """A line that says why the typed text cannot be used; hidden while there is no problem."""

    def __init__(self) -> None:
        super().__init__(classes="problem")
        self.display = False

    def say(self, problem: str) -> None:
        """Show the problem; an empty one hides the line."""
        self.update(Content(f"{glyph('failed')} {line(problem, LINE_CHARS)}" if problem else ""))
        self.display = bool(problem)


class ConfirmDialog(Dialog[bool]):
    """Asks for confirmation; any outcome other than yes is False."""

    def __init__(self, question: str, yes: str, no: str = "Cancel") -> None:
        super().__init__()
        self._question = question
        self._yes = yes
        self._no = no

    def body(self) -> ComposeResult:
        yield words(self._question)
        yield Choices([self._yes, self._no], chosen=1)
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_index == 0)

    def decline(self) -> None:
        self.dismiss(False)


class ChangeDialog(ConfirmDialog):
    """Asks for confirmation, and shows the lines that changed since the last one, if any."""

    opens = True

    def __init__(self, question: str, difference: str, yes: str, no: str = "Cancel") -> None:
        """`difference` holds unified diffs, which are outside text."""
        super().__init__(question, yes, no)
        self._difference = difference.rstrip("\n")

    def body(self) -> ComposeResult:
        yield words(self._question)
        if self._difference:
            yield Skinned(
                self._difference.rstrip("\n"),
                reveal,
                look=ReaderLook(background="surface"),
                diffs=True,
                classes="text",
            )
        yield Choices([self._yes, self._no], chosen=1)
        yield Hints()

    def key_o(self) -> None:
        self.app.push_screen(DetailScreen("In full", self.full_text(), spelled=True, diffs=True))


async def _no_problem(_text: str) -> str:
    return ""


class TextDialog(Dialog[str | None]):
    """Asks for a line of text. Keys typed while it opens are kept."""

    at_once = True

    def __init__(
        self,
        label: str,
        value: str = "",
        *,
        enters: str = "take it",
        check: Callable[[str], Awaitable[str]] = _no_problem,
    ) -> None:
        """`enters` names the effect of enter. If `check` returns a problem, it is shown and the dialog stays
        open.
        """
        super().__init__(self._take)
        self._check = check
        self.enters = enters
        self._label = label
        self._value = value

    def body(self) -> ComposeResult:
        yield words(self._label)
        yield Field(line(self._value), compact=True)
        yield ProblemLine()
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one(Input)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._submit(event.value)

    @work(exclusive=True, group="check")
    async def _submit(self, text: str) -> None:
        problem = await self._check(text)
        self.query_one(ProblemLine).say(problem)
        if not problem:
            self.dismiss(text)

    def decline(self) -> None:
        self.dismiss(None)

    def _take(self, text: str) -> None:
        self.query_one(Input).insert_text_at_cursor(text)


class DetailScreen(ClosableModal[None]):
    """A text on its own screen, which scrolls in both directions and can be selected and copied.

    `spelled` keeps every character and spells out invisible ones, for texts that a user decides on; other
    texts are shown as a terminal would show them. `diffs` colours lines of unified diffs, which is the
    default for texts that are not spelled.
    """

    CSS_PATH: ClassVar = Path(__file__).with_name("detail.tcss")
    AUTO_FOCUS = "Reader"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back"),
        Binding("y", "copy", "copy"),
        HELP,
    ]

    def __init__(self, title: str, text: str, *, spelled: bool = False, diffs: bool = False) -> None:
        super().__init__()
        self._title = line(title)
        show = reveal if spelled else str
        shown = text if spelled else clean(text)
        tones = diffs or not spelled
        self.reader = Skinned(shown, show, wrap=spelled, look=ReaderLook(focusable=True), diffs=tones)

    def compose(self) -> ComposeResult:
        yield ScreenHeader(self._title)
        yield self.reader
        yield KeyLine("↑↓←→ move · w wrap · y copy · esc back")

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.get_selected_text() or clean(self.reader.text))


MOST_CHANGES = 60
"""The number of lines that are shown; the whole difference has a screen of its own."""
LONGEST = 300
"""The number of characters of a line that are shown."""
_TONES = {"added": "$added", "removed": "$removed", "dim": "$text-muted"}


def difference_parts(text: str, more: str) -> list[tuple[str, str]]:
    """Return the first lines of a diff, which is outside text, with their colours. Pure.

    `more` says where to see the rest.
    """
    lines = text.splitlines()
    tones = diff_tones(lines)
    parts = [
        (f"{_cut(each)}\n", _TONES.get(tones.get(number, ""), ""))
        for number, each in enumerate(lines[:MOST_CHANGES])
    ]
    if len(lines) > MOST_CHANGES:
        parts.append((f"… {plural(len(lines) - MOST_CHANGES, 'more line')}; {more}\n", "$text-muted"))
    return parts


def _cut(line: str) -> str:
    return reveal(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")
