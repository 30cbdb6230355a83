"""A line below the conversation that searches it as the user types."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from app.tui.screens.page import Field
from widgets.rows.row_text import fit_keys

if TYPE_CHECKING:
    from app.tui.conversation.session_screen import ConversationScreen
    from widgets.transcript.view import Transcript

KEYS = "⏎ next · ↑ previous · esc close"


class FindBar(Horizontal):
    """A search field below the conversation, with the number of hits.

    Esc closes it and ends the search; the hit stays in view. If it opens with a text, the conversation gets
    the focus, where `n` and `N` continue.
    """

    DEFAULT_CSS = """
    FindBar { height: 1; padding: 0 1; background: $surface; }
    FindBar > Static { width: auto; height: 1; color: $text-muted; }
    FindBar > #find-label { color: $accent; }
    FindBar > Input { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", priority=True, id="find.close"),
        Binding("enter,down,ctrl+f", "step(1)", "Next hit", priority=True, id="find.next"),
        Binding("up,shift+enter", "step(-1)", "Previous hit", priority=True, id="find.previous"),
    ]

    def __init__(self, transcript: Transcript, text: str = "") -> None:
        super().__init__(id="find-bar")
        self._transcript = transcript
        self._text = text
        self._keys = Static(id="find-keys")

    def compose(self) -> ComposeResult:
        yield Static("Find ", id="find-label")
        yield Field(self._text, placeholder="words of the conversation", compact=True, id="find-text")
        yield self._keys

    def on_mount(self) -> None:
        (self._transcript if self._text else self.query_one(Input)).focus()

    def on_resize(self, event: events.Resize) -> None:
        keys = Content(fit_keys(KEYS, event.size.width // 2))
        self._keys.update(keys if event.size.width >= 60 else Content(""))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.run_worker(partial(self.search, event.value), exclusive=True, group="find")

    async def search(self, text: str) -> None:
        """Search for a text and go to the hit nearest to the visible part; an empty text ends the search."""
        navigator = self._transcript.navigator
        if text:
            # From the end on, unless the user is reading further up.
            await navigator.find(text, go=True)
            if not self._transcript.finder.number:
                navigator.find_previous()
        else:
            await navigator.find("")

    def action_step(self, step: int) -> None:
        self._transcript.navigator.find_step(step)

    def action_close(self) -> None:
        """End the search and remove the bar; the last hit stays in view."""
        self._transcript.focus()
        self._transcript.go_on(partial(self._transcript.navigator.find, ""), group="find")
        self.remove()


async def open_bar(screen: ConversationScreen, text: str = "") -> None:
    """Show the bar between conversation and prompt; without `text`, only focus a bar that is already open."""
    screen.workbench.uncover()
    bars = screen.query(FindBar)
    if bars and not text:
        bars.first().query_one(Input).focus()
        return
    await bars.remove()
    bar = FindBar(screen.transcript, text)
    await screen.mount(bar, before=f"#{screen.PROMPT_ID}")
    if text:
        await bar.search(text)
