"""The content of the prompt and its drawing; `widget.Prompt` adds the keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from textual.geometry import Offset, Region
from textual.strip import Strip
from textual.widget import Widget

from themes.skin import Skin
from widgets.key_names import shown_key
from widgets.palette import Palette
from widgets.prompt import keymap, queue_view
from widgets.prompt.buffer import Buffer, is_token
from widgets.prompt.canvas import Canvas
from widgets.prompt.completer import Completer
from widgets.prompt.completion import CommandChoice
from widgets.prompt.grapheme_cells import width
from widgets.prompt.history import History, HistorySearch
from widgets.prompt.layout import row_of
from widgets.prompt.menu import CompletionMenu
from widgets.prompt.painting import GUTTER, SearchView, View, paint, paint_search, text_width
from widgets.prompt.pastes import Pastes
from widgets.prompt.router import route
from widgets.prompt.vi import Vi


class PromptSurface(Widget, can_focus=True):
    """The state of the prompt, what the application sets and reads of it, and its drawing."""

    DEFAULT_CSS = """
    PromptSurface { width: 100%; height: 1; overflow: hidden hidden; }
    """
    ALLOW_SELECT = False

    def __init__(
        self,
        *,
        placeholder: str = "",
        commands: Sequence[CommandChoice] = (),
        files_provider: Callable[[], Iterable[str]] | None = None,
        history: History | None = None,
        vi: bool = False,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.palette = Palette(Skin())
        self.placeholder = placeholder
        self.history = history or History()
        self.pastes = Pastes()
        self.menu = CompletionMenu()
        self.completer = Completer(self.menu, commands, files_provider)
        self._keys = keymap.bound()
        self.stop_key = "esc"
        """How the key that stops the turn is shown; it is the application's, not the prompt's."""
        self._buffer = Buffer()
        self._vi = Vi(self._buffer) if vi else None
        self._busy = False
        self._queued: tuple[str, ...] = ()
        self._steering: tuple[str, ...] = ()
        self._chosen: int | None = None
        self._search: HistorySearch | None = None
        self._canvas = Canvas()
        self._height = 1

    # What the application sets and reads

    @property
    def text(self) -> str:
        """The text as it would be sent, pastes unfolded."""
        return self.pastes.unfold(self._buffer.text)

    @property
    def selected_text(self) -> str:
        """What is selected, pastes unfolded; empty without a selection."""
        return self.pastes.unfold(self._buffer.selected)

    @property
    def busy(self) -> bool:
        """Whether the agent works: then enter queues and ctrl+s steers."""
        return self._busy

    @busy.setter
    def busy(self, busy: bool) -> None:
        self._busy = busy
        self._draw()

    @property
    def queued(self) -> tuple[str, ...]:
        """The messages that wait, in order; shown above the text."""
        return self._queued

    @queued.setter
    def queued(self, queued: tuple[str, ...]) -> None:
        self._queued = tuple(queued)
        if self._chosen is not None:
            self._chosen = min(self._chosen, len(queued) - 1) if queued else None
        self._draw()

    @property
    def steering(self) -> tuple[str, ...]:
        """Messages on their way into the running turn; shown above those that wait."""
        return self._steering

    @steering.setter
    def steering(self, steering: tuple[str, ...]) -> None:
        self._steering = tuple(steering)
        self._draw()

    @property
    def commands(self) -> Sequence[CommandChoice]:
        """What the `/` menu offers."""
        return self.completer.commands

    @commands.setter
    def commands(self, commands: Sequence[CommandChoice]) -> None:
        self.completer.commands = commands

    @property
    def files_provider(self) -> Callable[[], Iterable[str]] | None:
        """Gives the paths the `@` menu offers; called in a thread whenever a mention begins."""
        return self.completer.files_provider

    @files_provider.setter
    def files_provider(self, provider: Callable[[], Iterable[str]] | None) -> None:
        self.completer.files_provider = provider

    @property
    def agents_provider(self) -> Callable[[], Iterable[CommandChoice]] | None:
        """Gives the kinds of agents the `@` menu offers beside files; called as `files_provider` is."""
        return self.completer.agents_provider

    @agents_provider.setter
    def agents_provider(self, provider: Callable[[], Iterable[CommandChoice]] | None) -> None:
        self.completer.agents_provider = provider

    @property
    def vi(self) -> bool:
        """Whether the keys are those of vi."""
        return self._vi is not None

    @vi.setter
    def vi(self, vi: bool) -> None:
        self._vi = Vi(self._buffer) if vi else None
        self._draw()

    def use(self, palette: Palette) -> None:
        """Draw in another palette."""
        self.palette = palette
        self.menu.use(palette)
        self._draw()

    def bind_keys(self, changes: Mapping[str, str]) -> None:
        """Give commands (ids of `keymap.KEYS`) other keys, as `{"prompt.steer": "f2"}`."""
        self._keys = keymap.bound(changes)
        self._draw()

    # Life

    def compose(self) -> Iterable[Widget]:
        yield self.menu

    def on_mount(self) -> None:
        # Nobody looks back before there is a picture.
        self.call_after_refresh(lambda: self.run_worker(self._load_history, group="history"))

    def on_resize(self) -> None:
        self._draw()

    def watch_has_focus(self, has_focus: bool) -> None:
        # The events of focus come before it is known who has it.
        super().watch_has_focus(has_focus)
        self._draw()

    async def _load_history(self) -> None:
        try:
            await asyncio.to_thread(self.history.load)
        except OSError as error:
            self._say(f"What was sent before cannot be read: {error.strerror}.")

    def _say(self, sentence: str) -> None:
        self.app.notify(sentence, severity="warning", markup=False)

    # Drawing

    def _draw(self) -> None:
        """Bring the screen up to date; only rows that differ are painted."""
        cells = self.size.width
        if not self.is_mounted or cells == 0:
            return
        above = queue_view.height(self._queued, self._steering)
        most = max(self.screen.size.height // 3 - above, 1)
        buffer = self._buffer
        shown = self._canvas.wrap(buffer.text, buffer.cursor, text_width(cells), most, self.pastes.labels)
        self._wish_height(above + shown)
        if 0 < self.size.height - above < shown:
            # The new row is written at once; room for it comes with the layout, which takes longer.
            room = self.size.height - above
            shown = self._canvas.wrap(buffer.text, buffer.cursor, text_width(cells), room, self.pastes.labels)
        strips = queue_view.paint(self._queued, self._steering, self._chosen, cells, self.palette)
        strips += paint(self._view(cells, shown), self.palette)
        if (search := self._search) is not None:
            view = SearchView(
                query=search.query, match=search.match, span=search.span, place=search.place, width=cells
            )
            strips[-shown] = paint_search(view, self.palette)
        changed = self._canvas.replace(strips)
        if changed:
            self.refresh(*(Region(0, at, cells, 1) for at in changed))
        if self.has_focus:
            self._place_terminal_cursor(above)

    def _wish_height(self, height: int) -> None:
        if height == self._height:
            return
        self._height = height
        if height > self.size.height:
            self.call_after_refresh(self._take_height)
        else:
            self._take_height()

    def _take_height(self) -> None:
        self.styles.height = self._height

    def _view(self, cells: int, shown: int) -> View:
        buffer = self._buffer
        is_shell = buffer.text.startswith("!")
        return View(
            text=buffer.text,
            rows=self._canvas.rows,
            top=self._canvas.top,
            height=shown,
            width=cells,
            cursor=buffer.cursor,
            selection=buffer.selection,
            focused=self.has_focus and self._chosen is None,
            symbol="!" if is_shell else self.palette.skin.prompt_symbol,
            symbol_role="warning" if is_shell else "user",
            placeholder=self.placeholder,
            hints=self._hints(),
            labels=self.pastes.labels,
        )

    def _hints(self) -> list[str]:
        """What the keys do now, most important last."""
        if self._chosen is not None:
            return ["x delete", "⏎ take back", "esc back"]
        hints: list[str] = []
        if self._vi and self._vi.mode == "normal":
            hints.append(f"vi {self._vi.pending}".rstrip())
        if self.menu.is_open:
            return [*hints, *self._hint("prompt.submit", "take"), *self._hint("prompt.dismiss", "close")]
        if self._token_at_cursor():
            hints += self._hint("prompt.unfold", "open")
        kind = route(self._buffer.text, busy=self._busy, steer=False).kind
        if kind in ("command", "shell"):
            hints += self._hint("prompt.submit", "run")
        elif self._busy:
            hints += [f"queued {len(self._queued)}"] if self._queued else []
            hints += [*self._hint("prompt.submit", "queue"), *self._hint("prompt.steer", "steer")]
        else:
            hints += self._hint("prompt.submit", "send")
        return [*hints, f"{self.stop_key} stop"] if self._busy and self.stop_key else hints

    def _hint(self, command: str, word: str) -> list[str]:
        """The first key of a command and what it does; nothing for a command without a key."""
        key = next((key for key, id in self._keys.items() if id == command), None)
        return [] if key is None else [f"{shown_key(key)} {word}"]

    def _token_at_cursor(self) -> str:
        """The folded paste the cursor touches, empty when there is none."""
        text, at = self._buffer.text, self._buffer.cursor
        return next(
            (character for character in text[at : at + 1] + text[max(at - 1, 0) : at] if is_token(character)),
            "",
        )

    def _place_terminal_cursor(self, above: int) -> None:
        """Tell the terminal where the cursor is: input methods open their window there."""
        rows, cursor = self._canvas.rows, self._buffer.cursor
        row = row_of(rows, cursor)
        column = GUTTER + width(self._buffer.text[rows[row][0] : cursor], self.pastes.labels)
        self.app.cursor_position = self.content_region.offset + Offset(column, above + row - self._canvas.top)

    def render_line(self, y: int) -> Strip:
        if not self._canvas.strips:
            self._draw()  # the first picture is painted before the widget hears of its size
        strips = self._canvas.strips
        if y < len(strips):
            return strips[y]
        return Strip.blank(self.size.width, self.palette.style("text", "surface"))
