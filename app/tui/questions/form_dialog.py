"""The dialog for a form from a tool server. Its fields scroll if the screen is too low."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.core.event_data import FormReply
from agent.integrations.mcp.server_requests import filled_form
from agent.integrations.server_events import FormAsked
from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.page import BETWEEN, LINE_CHARS, Field, line, words
from themes.states import NEEDS_YOU
from widgets.rows.reader import Reader

if TYPE_CHECKING:
    from agent.integrations.mcp.server_requests import FormField

SEND, DECLINE = "Send it", "Decline"
UNCHOSEN = "–"
SECRET = "▲ It seems to ask for a secret, which the server will learn."
TAKES = {"number": "a number", "integer": "a whole number", "choices": "several, with commas between"}
_AROUND, _LEAST = 12, 3
"""The number of lines outside message and fields, and the smallest number of lines for the fields."""


class OneOf(Static, can_focus=True):
    """A field that shows one of several values, changed with the arrow keys or the space bar."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "step(1)", "Next", show=False),
        Binding("left", "step(-1)", "Previous", show=False),
    ]

    def __init__(self, values: list[str], chosen: str) -> None:
        super().__init__(classes="one-of")
        self._values = values
        self._at = values.index(chosen) if chosen in values else 0

    @property
    def value(self) -> str:
        """The chosen value; empty if there is none."""
        return "" if self._values[self._at] == UNCHOSEN else self._values[self._at]

    def on_mount(self) -> None:
        self._show()

    def on_click(self) -> None:
        self.action_step(1)

    def action_step(self, by: int) -> None:
        """Move by `by` values, wrapping around at the ends."""
        self._at = (self._at + by) % len(self._values)
        self._show()

    def _show(self) -> None:
        self.update(Content(f"‹ {line(self._values[self._at])} ›"))


class FormDialog(Dialog[FormReply]):
    """Shows the asking server and a field for each value; sends the values only if the user confirms."""

    CSS_PATH: ClassVar = [
        Path(__file__).parents[1] / "screens" / "dialog.tcss",
        Path(__file__).with_name("form_dialog.tcss"),
    ]
    enters = "next"
    leaves = "cancel"
    opens = True

    def __init__(
        self, request: FormAsked, paste_into_draft: Callable[[str], None] = lambda _text: None
    ) -> None:
        super().__init__(paste_into_draft)
        self.request = request
        self._inputs: dict[str, Field | OneOf] = {field.name: _input(field) for field in request.fields}
        self._notes = {field.name: Static("", classes="wrong") for field in request.fields}
        self._fields = VerticalScroll(id="form-fields", can_focus=False)

    def body(self) -> ComposeResult:
        asks = (
            f"{NEEDS_YOU} The MCP server {line(self.request.server, LINE_CHARS)} asks you to fill in a form"
        )
        yield Static(Content(asks), classes="who")
        yield words(self.request.message, "text")
        with self._fields:
            for field in self.request.fields:
                yield Static(_head(field), classes="field-head")
                if field.is_secret:
                    yield Static(Content(SECRET), classes="wrong shown")
                yield self._inputs[field.name]
                yield self._notes[field.name]
        yield Choices([SEND, DECLINE])
        yield Hints()

    def entry(self) -> Widget:
        return next(iter(self._inputs.values()), self.query_one(Choices))

    def decline(self) -> None:
        self.dismiss(FormReply("cancelled"))

    def full_text(self) -> str:
        heads = (_head(field).plain for field in self.request.fields)
        return "\n\n".join((f"The MCP server {self.request.server} asks", self.request.message, *heads))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.focus_next()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        if event.option_index == 1:
            self.dismiss(FormReply("declined"))
            return
        texts = {name: each.value for name, each in self._inputs.items()}
        values, wrong = filled_form(self.request.fields, texts)
        for name, note in self._notes.items():
            note.update(Content(wrong.get(name, "")))
            note.set_class(name in wrong, "shown")
        if wrong:
            self._inputs[next(iter(wrong))].focus()
        else:
            self.dismiss(FormReply("answered", values))

    def on_key(self, event: events.Key) -> None:
        super().on_key(event)
        if self.armed and event.key == "enter" and isinstance(self.focused, OneOf):
            event.stop()
            self.focus_next()

    def _fit(self) -> None:
        """Size the fields so that they and the message fit on the screen, and update the key hints."""
        screen = self.app.size
        self._frame.set_class(screen.height < _AROUND + _LEAST, "low")
        width = min(84, int(screen.width * 0.94)) - 4
        room = max(screen.height - _AROUND, _LEAST)
        for text in self.query(Reader):
            lines = min(text.get_content_height(screen, screen, width), max(room // 3, 1))
            text.styles.height = text.styles.max_height = lines
            room -= lines
        self._fields.styles.max_height = max(room, _LEAST)
        for each in self.query(Choices):
            each.wrap(width)
        hints = ["tab ⏎ next field", "← → choose", "PgUp PgDn scroll", f"esc {self.leaves}"]
        for hint in self.query(Hints):
            hint.say(BETWEEN.join(hints))

    def key_pageup(self) -> None:
        self._fields.scroll_page_up(animate=False)

    def key_pagedown(self) -> None:
        self._fields.scroll_page_down(animate=False)


def _input(field: FormField) -> Field | OneOf:
    labels = ["yes", "no"] if field.kind == "yes-no" else [label for _, label in field.choices]
    if field.kind in ("yes-no", "choice") and labels:
        return OneOf([UNCHOSEN, *(line(label) for label in labels)], line(field.default_text))
    takes = TAKES.get(field.kind, "")
    if field.minimum is not None or field.maximum is not None:
        takes += f" from {field.minimum:g}" if field.minimum is not None else ""
        takes += f" to {field.maximum:g}" if field.maximum is not None else ""
    return Field(
        value=field.default_text,
        placeholder=takes.strip() or field.format,
        password=field.is_secret,
        compact=True,
    )


def _head(field: FormField) -> Content:
    """Return a field's name, a mark if it is required, its description and its choices."""
    described = field.label[len(field.title) + 2 :]
    choices = ", ".join(label for _, label in field.choices) if field.kind == "choices" else ""
    more = BETWEEN.join(each for each in (described, choices) if each)
    name = Content.styled(line(field.title), "$text bold")
    needed = Content.styled(" *", "$warning") if field.required else Content("")
    return Content("").join([name, needed, Content.styled(f"  {line(more)}" if more else "", "$text-muted")])
