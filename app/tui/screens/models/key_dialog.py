"""The dialogs that take a key for a provider: which one, the key, and what its models are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.errors import HermesError
from agent.model.key_check import KeyCheck, KeyProvider, ServerCheck
from agent.model.model_choices import ModelChoice
from app.tui.screens.choices import Choices
from app.tui.screens.dialog import Dialog, Hints, ProblemLine
from app.tui.screens.field import Field
from app.tui.screens.wording import line, words

KEPT = (
    "It is checked with one request, which costs nothing, and kept in the file .env of your Hermes home, "
    "which only you can read."
)

SERVER = "Its models and the form of its requests are found out by asking it. Tab leads to the key."


class KeyKeeper(Protocol):
    """Checking and keeping a key; `app.tui.screens.models.model_menu.ModelMenu` is the real one."""

    async def check(self, provider: KeyProvider, key: str) -> KeyCheck: ...

    async def keep_key(self, provider: KeyProvider, key: str) -> None: ...

    async def problem_of(self, model: str) -> str: ...

    async def server(self, address: str, key: str) -> ServerCheck: ...

    async def of_provider(self, provider: str, names: Sequence[str]) -> list[ModelChoice]: ...


class ProviderDialog(Dialog[KeyProvider | None]):
    """Asks whose key it is."""

    at_once = True

    def __init__(self, providers: Sequence[KeyProvider]) -> None:
        super().__init__()
        self._providers = providers

    def body(self) -> ComposeResult:
        yield words("Which provider is your key for?")
        yield Choices([_title(each) for each in self._providers])
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._providers[event.option_index])

    def decline(self) -> None:
        self.dismiss(None)


def _title(provider: KeyProvider) -> str:
    return f"{provider.name} – {provider.variable}{' (set)' * provider.is_set}"


class KeyDialog(Dialog[KeyCheck | None]):
    """Takes a key, which is never shown; ends once the provider took it and it is kept."""

    at_once = True
    enters = "check and keep it"

    def __init__(self, provider: KeyProvider, keys: KeyKeeper) -> None:
        super().__init__(self._take)
        self._provider = provider
        self._keys = keys

    def body(self) -> ComposeResult:
        yield Static(Content(line(f"◆ A key for {self._provider.name}")), classes="who")
        yield words(f"{KEPT} The variable is {self._provider.variable}.", "text")
        yield Field(password=True, placeholder="paste or type it", compact=True)
        yield Static(id="said", classes="note")
        yield ProblemLine()
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one(Input)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if key := event.value.strip():
            self._check(key)

    @work(exclusive=True, group="key")
    async def _check(self, key: str) -> None:
        field = self.query_one(Field)
        field.disabled = True
        self.query_one(ProblemLine).say("")
        self._say(f"asking {self._provider.name} …")
        check = await self._keys.check(self._provider, key)
        problem = check.problem
        if not problem:
            try:
                await self._keys.keep_key(self._provider, key)
            except HermesError as error:
                problem = str(error)
        if not problem:
            self.dismiss(check)
            return
        self._say("")
        self.query_one(ProblemLine).say(problem)
        field.disabled = False
        field.focus()

    def _say(self, text: str) -> None:
        self.query_one("#said", Static).update(Content(line(text)))

    def decline(self) -> None:
        self.dismiss(None)

    def _take(self, text: str) -> None:
        self.query_one(Input).insert_text_at_cursor(text)


class ServerDialog(Dialog[ServerCheck | None]):
    """Takes the address of a server and the key it may want; ends once it is kept as a provider."""

    at_once = True
    enters = "ask it"

    def __init__(self, servers: KeyKeeper) -> None:
        super().__init__(self._take)
        self._servers = servers

    def body(self) -> ComposeResult:
        yield Static(Content("◆ A server at an address"), classes="who")
        yield words(SERVER, "text")
        yield Field(placeholder="http://localhost:8000/v1", compact=True, id="address")
        yield Field(password=True, placeholder="its key, if it wants one", compact=True, id="key")
        yield Static(id="said", classes="note")
        yield ProblemLine()
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one("#address")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        address, key = (self.query_one(name, Input).value.strip() for name in ("#address", "#key"))
        if address:
            self._ask(address, key)

    @work(exclusive=True, group="server")
    async def _ask(self, address: str, key: str) -> None:
        self.query_one(ProblemLine).say("")
        self.query_one("#said", Static).update("asking it …")
        try:
            found = await self._servers.server(address, key)
        except HermesError as error:
            found = ServerCheck(problem=str(error))
        self.query_one("#said", Static).update("")
        if not found.problem:
            self.dismiss(found)
            return
        self.query_one(ProblemLine).say(found.problem)
        self.query_one("#key" if found.about_key else "#address").focus()

    def decline(self) -> None:
        self.dismiss(None)

    def _take(self, text: str) -> None:
        self.query_one("#address", Input).insert_text_at_cursor(text)
