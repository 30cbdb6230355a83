"""The dialogs that set up a model: choosing a provider, entering a key, adding a server, fetching weights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

from textual import work
from textual.app import App, ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.errors import HermesError
from agent.model.key_check import KeyCheck, KeyProvider, ServerCheck
from agent.model.local.pull import Listener, Progress
from agent.model.local.sources import PROVENANCE, StoppedError, Weights
from agent.model.model_choices import ModelChoice
from app.tui.screens.dialog import Choices, ConfirmDialog, Dialog, Hints, ProblemLine
from app.tui.screens.entry_page import EntryForm, FormLine, WrongLineError
from app.tui.screens.models.model_menu import ModelMenu, Offers, can_run_local, gigabytes
from app.tui.screens.page import BETWEEN, Field, line, words
from themes.states import NEEDS_YOU, glyph
from widgets.panes.status import elapsed, gauge, percent

KEPT = (
    "It is checked with one request, which costs nothing, and kept in the file .env of your Hermes home, "
    "which only you can read."
)

SERVER = "Its models and the form of its requests are found out by asking it. Tab leads to the key."


class ProviderDialog(Dialog[KeyProvider | None]):
    """Asks which provider the key is for."""

    at_once = True

    def __init__(self, providers: Sequence[KeyProvider]) -> None:
        super().__init__()
        self._providers = providers

    def body(self) -> ComposeResult:
        yield words("Choose the provider of your key")
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
    """Asks for a key, which is never shown; ends once the provider has accepted it and it is stored."""

    at_once = True
    enters = "check and keep it"

    def __init__(self, provider: KeyProvider, keys: ModelMenu) -> None:
        super().__init__(self._take)
        self._provider = provider
        self._keys = keys

    def body(self) -> ComposeResult:
        yield Static(Content(line(f"{NEEDS_YOU} A key for {self._provider.name}")), classes="who")
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


class ServerDialog(EntryForm[ServerCheck]):
    """Asks for the address of a server and its key, if any; ends once the server is stored as a provider."""

    def __init__(self, servers: ModelMenu) -> None:
        async def ask(typed: Mapping[str, str]) -> ServerCheck:
            found = await servers.server(typed["address"], typed["key"])
            if found.problem:
                raise WrongLineError(found.problem, "key" if found.about_key else "address")
            return found

        lines = (
            FormLine("address", "http://localhost:8000/v1"),
            FormLine("key", "its key, if it wants one", is_secret=True, is_needed=False),
        )
        super().__init__(
            "A server at an address", SERVER, lines, ask, enters="connect", waiting="connecting …"
        )


LOOKS = 0.2
"""Seconds between two updates of the shown progress."""
BAR = 18
"""The width of the progress bar in cells."""
GRACE = 2.0
"""Seconds that the dialog waits for a stopped download to end."""
SAID = {"fetch": "fetching", "verify": "checking that it is the original"}


class FetchDialog(Dialog[bool]):
    """Fetches a local model and returns True once it is complete. Esc stops; the partial download is kept."""

    at_once = True

    def __init__(
        self, weights: Weights, fetcher: ModelMenu, hold: Callable[[str], None] | None = None
    ) -> None:
        """`hold` takes a message typed for the model during the download; without it, none can be typed."""
        super().__init__(self._take if hold is not None else None)
        self._weights = weights
        self._fetcher = fetcher
        self._hold = hold
        self._stop = Event()
        self._progress: Progress | None = None
        self._pace = Pace()
        self._failed = ""
        self._held = 0

    def body(self) -> ComposeResult:
        size = f", {gigabytes(self._weights.size)}" if self._weights.size else ""
        yield Static(Content(line(f"{NEEDS_YOU} Fetching {self._weights.title}{size}")), classes="who")
        url = self._weights.url
        yield words(f"It comes from {url}." if url else f"It was {PROVENANCE}", "text")
        yield Static("", id="progress", classes="name")
        if self._hold is not None:
            yield Field(placeholder="Say what to do; it is sent when the model is there", compact=True)
            yield Static("", id="held", classes="note")
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one(Hints if self._hold is None else Field)

    def on_mount(self) -> None:
        self.set_interval(LOOKS, self._show)
        self._fetch()

    def on_unmount(self) -> None:
        self._stop.set()

    @work(exclusive=True, group="fetch")
    async def _fetch(self) -> None:
        self._failed, self._progress, self._pace, self._stop = "", None, Pace(), Event()
        self._show()
        self._fit()
        listener = Listener(progress=self._set_progress, note=lambda _sentence: None)
        fetching = asyncio.to_thread(self._fetcher.fetch, self._weights, listener, self._stop)
        try:
            await fetching
        except StoppedError:
            return
        except HermesError as error:
            self._failed = str(error)
            self._show()
            self._fit()
            return
        for field in self.query(Input):
            self._keep(field.value.strip())
        self.dismiss(True)

    def _set_progress(self, progress: Progress) -> None:
        """Store the progress. Called in the thread that downloads."""
        self._progress = progress

    def _show(self) -> None:
        """Show the progress, or why the download failed."""
        shown = f"{glyph('failed')} {self._failed}" if self._failed else self._how_far()
        self.query_one("#progress", Static).update(Content(line(shown)))

    def _how_far(self) -> str:
        progress = self._progress
        if progress is None or not progress.total:
            return "looking for it …"
        share = progress.done / progress.total
        amount = f"{megabytes(progress.done)} of {megabytes(progress.total)}"
        left = self._pace.estimate(progress, time.monotonic())
        parts = [f"{gauge(share, BAR)} {percent(share)}", amount, *left]
        if progress.stage != "fetch":
            parts.append(SAID[progress.stage])
        return " · ".join(parts)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if text := event.value.strip():
            self._keep(text)
            event.input.clear()
            count = "1 message waits" if self._held == 1 else f"{self._held} messages wait"
            self.query_one("#held", Static).update(Content(f"{count} for the model: {line(text, 60)}"))
        else:
            self.key_enter()

    def key_enter(self) -> None:
        """Restart a failed download."""
        if self._failed:
            self._fetch()

    def _keep(self, text: str) -> None:
        if text and self._hold is not None:
            self._hold(text)
            self._held += 1

    def _hints(self, *, scrolls: bool) -> str:
        enters = ["⏎ try again"] if self._failed else ["⏎ hold the message"] if self._hold is not None else []
        return BETWEEN.join([*enters, "esc stop; what is here is kept"])

    def decline(self) -> None:
        self._stop_and_leave()

    @work(exclusive=True, group="leave")
    async def _stop_and_leave(self) -> None:
        """Stop the download, and close the dialog once its worker has ended, or after `GRACE` seconds."""
        self._stop.set()
        end = time.monotonic() + GRACE
        while any(each.group == "fetch" and each.is_running for each in self.workers):
            if time.monotonic() > end:
                break
            await asyncio.sleep(0.02)
        self.dismiss(False)

    def _take(self, text: str) -> None:
        self.query_one(Input).insert_text_at_cursor(text)


class Pace:
    """The download speed, estimated from the last updates."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []
        self._stage = ""

    def estimate(self, progress: Progress, now: float) -> list[str]:
        """Return download speed and remaining time as text; empty until they are known."""
        if progress.stage != self._stage:
            self._stage, self._seen = progress.stage, []
        self._seen = [*self._seen[-50:], (now, progress.done)]
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        if last - first < 1.0 or after <= before or progress.stage != "fetch":
            return []
        speed = (after - before) / (last - first)
        return [f"{speed / 1e6:.1f} MB/s", f"{elapsed((progress.total - progress.done) / speed)} left"]


def megabytes(size: int) -> str:
    """Return a size as `470 MB` or `1.12 GB`. Pure."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


async def obtain_model(app: App[Any], choice: ModelChoice, offers: Offers, setup: ModelMenu) -> str | None:
    """Get the key or the weights that a model lacks; return the name of the model to use.

    Empty if the user cancelled, or must still choose a model; None if nothing can be set up here.
    """
    if choice.missing_key:
        provider = next((each for each in offers.providers if each.variable == choice.missing_key), None)
        if provider is None:
            return None
        if await app.push_screen_wait(KeyDialog(provider, setup)) is None:
            return ""
        return "" if choice.name.endswith("/…") else choice.name
    if choice.name == "local" and offers.weights is not None:
        size = gigabytes(offers.weights.size) if offers.weights.size else "its size is not known"
        question = ConfirmDialog(f"Fetch the local model ({size})?", "Fetch it and use it", "Not now")
        if not await app.push_screen_wait(question):
            return ""
        return await fetch_model(app, offers.weights, offers, setup)
    return None


async def fetch_model(
    app: App[Any],
    weights: Weights,
    offers: Offers,
    setup: ModelMenu,
    hold: Callable[[str], None] | None = None,
) -> str:
    """Fetch a local model, and first, if needed, the extra for it; return `local`, or "" if cancelled."""
    if offers.problem and not can_run_local():
        from app.tui.screens.extra_dialog import offer_extra

        if not await offer_extra(app.push_screen_wait, offers.problem):
            return ""
    return "local" if await app.push_screen_wait(FetchDialog(weights, setup, hold)) else ""
