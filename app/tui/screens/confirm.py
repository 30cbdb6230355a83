"""The dialog before something that cannot be taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual import work
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Input

from app.tui.screens.choices import Choices
from app.tui.screens.detail import DetailScreen
from app.tui.screens.dialog import Dialog, Hints, ProblemLine
from app.tui.screens.field import Field
from app.tui.screens.wording import Skinned, line, words
from tools.text.safe_text import reveal


class ConfirmDialog(Dialog[bool]):
    """Asks for a yes; anything else is a no."""

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
    """Asks for a yes, and shows the lines that changed since the last one, if any did."""

    opens = True

    def __init__(self, question: str, difference: str, yes: str, no: str = "Cancel") -> None:
        """`difference` holds unified diffs. Outside text."""
        super().__init__(question, yes, no)
        self._difference = difference.rstrip("\n")

    def body(self) -> ComposeResult:
        yield words(self._question)
        if self._difference:
            yield Skinned(
                self._difference.rstrip("\n"), reveal, background="surface", diffs=True, classes="text"
            )
        yield Choices([self._yes, self._no], chosen=1)
        yield Hints()

    def key_o(self) -> None:
        self.app.push_screen(DetailScreen("In full", self.whole(), spelled=True, diffs=True))


async def _no_problem(_text: str) -> str:
    return ""


class TextDialog(Dialog[str | None]):
    """Asks for one line. What was typed while it opened belongs to it."""

    at_once = True

    def __init__(
        self,
        label: str,
        value: str = "",
        *,
        enters: str = "take it",
        check: Callable[[str], Awaitable[str]] = _no_problem,
    ) -> None:
        """`enters` says what enter does; what `check` finds wrong is shown, and the dialog stays."""
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
