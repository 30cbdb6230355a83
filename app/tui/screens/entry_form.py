"""A small form: a few lines are typed, one act takes them, and what is wrong is said in the dialog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.errors import HermesError
from app.tui.screens.dialog import Dialog, Hints, ProblemLine
from app.tui.screens.page import Field, line, words
from themes.states import NEEDS_YOU

Result = TypeVar("Result")


class FormLine(NamedTuple):
    """One line of a form."""

    name: str
    hint: str
    """What stands in it while it is empty."""
    is_secret: bool = False
    is_needed: bool = True


class WrongLineError(HermesError):
    """What was typed into one line cannot be used."""

    def __init__(self, sentence: str, name: str) -> None:
        super().__init__(sentence)
        self.name = name


class EntryForm(Dialog[Result | None]):
    """Asks for lines until `act` takes them; ends with what `act` returns, or with None."""

    at_once = True

    def __init__(
        self,
        title: str,
        about: str,
        lines: Sequence[FormLine],
        act: Callable[[Mapping[str, str]], Awaitable[Result]],
        *,
        enters: str = "add it",
        waiting: str = "",
    ) -> None:
        """`act` gets the typed lines by name and raises `HermesError` with a sentence; `waiting` is said
        while it runs.
        """
        super().__init__(self._type)
        self.enters = enters
        self._title, self._about, self._lines = title, about, lines
        self._act, self._waiting = act, waiting

    def body(self) -> ComposeResult:
        yield Static(Content(line(f"{NEEDS_YOU} {self._title}")), classes="who")
        yield words(self._about, "text")
        for each in self._lines:
            yield Field(placeholder=each.hint, password=each.is_secret, compact=True, id=each.name)
        yield Static(id="said", classes="note")
        yield ProblemLine()
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one(f"#{self._lines[0].name}")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        typed = {each.name: self.query_one(f"#{each.name}", Input).value.strip() for each in self._lines}
        missing = next((each.name for each in self._lines if each.is_needed and not typed[each.name]), "")
        if not missing:
            self._submit(typed)
        elif missing == event.input.id:
            self._refuse("Write something here first.", missing)
        else:
            self.query_one(f"#{missing}").focus()

    @work(exclusive=True, group="act")
    async def _submit(self, typed: Mapping[str, str]) -> None:
        self.query_one(ProblemLine).say("")
        self.query_one("#said", Static).update(Content(self._waiting))
        try:
            result = await self._act(typed)
        except (HermesError, OSError) as error:
            self._refuse(str(error), getattr(error, "name", ""))
        else:
            self.dismiss(result)

    def _refuse(self, sentence: str, name: str = "") -> None:
        self.query_one("#said", Static).update("")
        self.query_one(ProblemLine).say(sentence)
        if name:
            self.query_one(f"#{name}").focus()
        self._fit()

    def decline(self) -> None:
        self.dismiss(None)

    def _type(self, text: str) -> None:
        self.query(Input).first(Input).insert_text_at_cursor(text)
