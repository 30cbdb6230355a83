"""The dialogs that change one setting: a line to type into, and a list to choose from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.errors import HermesError
from app.tui.screens.choices import Choices
from app.tui.screens.dialog import Dialog, Hints
from app.tui.screens.field import Field
from app.tui.screens.settings.settings_rows import SettingRow
from app.tui.screens.wording import line, words

Take = Callable[[str], Awaitable[None]]
"""Takes what was typed; raises `HermesError` with a sentence when it cannot be had."""


class LineEditor(Dialog[bool]):
    """One line for one setting. It stays open, and says why, until the value is taken. True: it was."""

    at_once = True

    def __init__(self, row: SettingRow, take: Take) -> None:
        super().__init__(self._type)
        self._row = row
        self._take = take

    def body(self) -> ComposeResult:
        row = self._row
        yield Static(Content.assemble((line(row.key), "bold")), classes="name")
        yield words(row.help.replace("`", ""))
        yield Static(Content(f"Takes {row.takes.replace('`', '')}."), classes="note")
        hidden = "" if row.given is not None else "the present value is not shown; type a new one"
        yield Field(line(row.given or ""), placeholder=hidden, compact=True)
        yield Static(Content(""), classes="who", id="refusal")
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one(Input)

    def on_input_changed(self) -> None:
        self._refuse("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._submit(event.value)

    @work(exclusive=True, group="take")
    async def _submit(self, text: str) -> None:
        try:
            await self._take(text.strip())
        except HermesError as error:
            self._refuse(str(error))
        else:
            self.dismiss(True)

    def _refuse(self, sentence: str) -> None:
        self.query_one("#refusal", Static).update(Content("\n".join(map(line, sentence.splitlines()))))

    def decline(self) -> None:
        self.dismiss(False)

    def _type(self, text: str) -> None:
        self.query_one(Input).insert_text_at_cursor(text)


class ChoiceEditor(Dialog[str | None]):
    """The values a setting can have. Ends with the one that was chosen, or None."""

    at_once = True

    def __init__(self, row: SettingRow) -> None:
        super().__init__()
        self._row = row

    def body(self) -> ComposeResult:
        row = self._row
        yield Static(Content.assemble((line(row.key), "bold")), classes="name")
        yield words(row.help.replace("`", ""))
        present = row.value if row.value in row.choices else row.default
        at = row.choices.index(present) if present in row.choices else 0
        shown = [f"{each} (default)" if each == row.default else each for each in row.choices]
        yield Choices(shown, chosen=at)
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._row.choices[event.option_index])

    def decline(self) -> None:
        self.dismiss(None)
