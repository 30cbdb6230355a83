"""Widgets that screens share: title, key hints, lists, details beside a list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from agent.errors import HermesError
from app.tui.screens.closable import ClosableModal
from themes.skin import Skin
from tools.text.safe_text import left_out, reveal
from widgets.palette import Palette
from widgets.rows.reader import Gutter, Reader, ReaderLook
from widgets.rows.row_list import Draw, RowList
from widgets.rows.row_text import BETWEEN, fit_keys


def palette_of(app: object) -> Palette:
    """Return the palette of the application's skin, or of the default skin if the application has none."""
    skin = getattr(app, "skin", None)
    return Palette(skin if isinstance(skin, Skin) else Skin())


LINE_CHARS = 400
"""The number of characters of a name or a choice that a dialog shows; `o` opens all of them."""


class Skinned(Reader):
    """A text in the colours of the application's skin."""

    def on_mount(self) -> None:
        self._apply_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._apply_skin())

    def _apply_skin(self) -> None:
        self.use(palette_of(self.app))


def line(text: str, limit: int = 4_000) -> str:
    """Return outside text as one line, with invisible characters spelled out; a long text is cut in the
    middle.
    """
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
    """Return a widget with outside text in full, not read as markup, and invisible characters spelled out."""
    return Skinned(
        text, reveal, marks=marks, gutter=gutter, look=ReaderLook(role, "surface"), classes=classes
    )


class ScreenHeader(Horizontal):
    """A title on the left and a state on the right, one line each, cut if there is too little room.

    It uses only colours that every application has, as dialogs also open such screens. On a low terminal
    (class `-low` of the screen) the rule is omitted, which leaves one more line for the content.
    """

    DEFAULT_CSS = """
    ScreenHeader {
        height: 2;
        padding: 0 1;
        border-bottom: solid $border-blurred;
    }
    .-low ScreenHeader {
        height: 1;
        border-bottom: none;
    }
    ScreenHeader > Static {
        height: 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    ScreenHeader > #page-title {
        width: auto;
        max-width: 60%;
        margin-right: 2;
        color: $accent;
        text-style: bold;
    }
    ScreenHeader > #page-state {
        width: 1fr;
        text-align: right;
        color: $text-muted;
    }
    ScreenHeader > #page-state:ansi {
        text-style: dim;
    }
    """

    def __init__(self, title: str, state: str = "") -> None:
        """Both texts are shown without markup, on one line."""
        super().__init__()
        # Kept as an attribute, because text may arrive while the screen is being removed.
        self._title = Static(Content(line(title)), id="page-title")
        self._state = Static(Content(line(state)), id="page-state")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._state

    def retitle(self, title: str) -> None:
        """Change the title."""
        self._title.update(Content(line(title)))

    def say(self, state: str) -> None:
        """Change the text on the right."""
        self._state.update(Content(line(state)), layout=False)


__all__ = ["BETWEEN", "KeyLine", "fit_keys"]


class KeyLine(Widget):
    """A line of key hints: always the last one, the key that goes back, and as many others as fit."""

    DEFAULT_CSS = """
    KeyLine {
        width: 100%;
        height: 1;
        padding: 0 1;
        color: $text-muted;
    }
    KeyLine:ansi {
        text-style: dim;
    }
    """

    def __init__(self, keys: str = "", *, id: str | None = None, classes: str | None = None) -> None:
        """`keys` are separated by ` · `, the most important first and the key that goes back last."""
        super().__init__(id=id, classes=classes)
        self._keys = keys

    def say(self, keys: str) -> None:
        """Change the key hints."""
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def render(self) -> Content:
        return Content(fit_keys(self._keys, self.content_size.width))


Outcome = TypeVar("Outcome")

PAGE_STYLE = Path(__file__).with_name("page.tcss")
"""The stylesheet as an absolute path, because Textual searches next to the module of a subclass."""
WAYS_OUT = "? keys · esc back"
"""The key hints of a page without rows."""
HELP = Binding("f1,question_mark", "app.order('program.help')", "Help", show=False, id="page.help")
"""The binding that opens the help from screens without text input."""


class Page(ClosableModal[Outcome]):
    """A full-size screen with one list of rows, in the colours of the application's skin.

    Textual calls the `on_mount` of each class separately, subclasses first.
    """

    CSS_PATH: ClassVar = PAGE_STYLE
    AUTO_FOCUS = "RowList"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "back", "Back", id="page.back"), HELP]
    heading: ClassVar[str] = ""
    """The title, a word or two."""
    keys: ClassVar[str] = "/ filter · y copy · ? keys · esc back"
    """The key hints at the bottom."""

    def __init__(self, rows: RowList) -> None:
        super().__init__()
        self.rows = rows
        self.head = ScreenHeader(self.heading)
        self.foot = KeyLine(self.keys)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.rows
        yield from self.below()
        yield self.foot

    def below(self) -> list[Widget]:
        """Return the widgets between the rows and the key line."""
        return []

    def on_mount(self) -> None:
        self._apply_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._apply_skin())

    def state(self, text: str) -> None:
        """Show a text at the right end of the title."""
        self.head.say(text)

    def offer(self, some: bool) -> None:
        """Show the key hints: all of them with `some` rows, else those that need no row."""
        self.set_class(not some, "bare")
        self.foot.say(self.keys if some else WAYS_OUT)

    def fail(self, error: HermesError) -> None:
        """Show an error instead of the rows; rows that are listed stay, with the error beside the title."""
        self.state(line(str(error)) if self.rows.count else "")
        if not self.rows.count:
            self.rows.problem = line(str(error))
            self.rows.repaint()
            self.offer(False)

    def action_back(self) -> None:
        self.dismiss(None)

    def _apply_skin(self) -> None:
        self.rows.use(palette_of(self.app))


class Field(Input):
    """An input field whose cursor blinks only if motion is enabled."""

    def on_mount(self) -> None:
        self.cursor_blink = self.app.animation_level != "none"


BESIDE = 100
"""The number of columns from which the details are next to the rows."""
PAUSE = 0.08
"""Seconds that the cursor rests on a row before its details are loaded."""


class PointedRows(RowList):
    """Rows that send a message when the cursor moves."""

    class Pointed(Message):
        """Sent when the cursor moves to another row or the row changes; the index is None without a row."""

        def __init__(self, index: int | None) -> None:
            super().__init__()
            self.index = index

    def __init__(self, draw: Draw, *, search_text: Callable[[int], str] | None = None, empty: str) -> None:
        super().__init__(draw, search_text=search_text, empty=empty)
        self._told: int | None = -1

    def cursor_moved(self) -> None:
        super().cursor_moved()
        if self._told != self.cursor:
            self._told = self.cursor
            self.post_message(self.Pointed(self.cursor))

    def repaint(self) -> None:
        super().repaint()
        if self.is_running:
            self.cursor_moved()


class SplitPage(Page[Outcome]):
    """A screen with a list of rows, and details of the row under the cursor in the widgets of `beside`."""

    CSS_PATH: ClassVar = [PAGE_STYLE, Path(__file__).with_name("split.tcss")]

    def compose(self) -> ComposeResult:
        yield self.head
        with Container(id="split"):
            yield self.rows
            with Vertical(id="split-beside"):
                yield from self.beside()
        yield self.foot

    def beside(self) -> Iterable[Widget]:
        """Return the widgets with details of the row under the cursor."""
        raise NotImplementedError

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < BESIDE, "narrow")


MARK = "▌"


class MarkedList(OptionList):
    """An option list that marks the highlighted row with a glyph, not by colour alone.

    The glyph takes the first cell of each line of that option; the prompts leave it blank.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"marked-list--mark"}
    DEFAULT_CSS = """
    MarkedList > .marked-list--mark {
        color: $accent;
    }
    """

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        first = next(iter(strip), None)
        if first is None or first.style is None or not first.text.startswith(" "):
            return strip
        # Each option's number is in the style of its cells, which clicks use too.
        if self.highlighted is None or first.style.meta.get("option") != self.highlighted:
            return strip
        color = self.get_component_rich_style("marked-list--mark", partial=True)
        ink = Style(color=first.style.color)
        # In the terminal's own colours, dim text has that of the text, which the chosen row reverses.
        row = [
            Segment(text, style + ink if style and style.color and style.color.is_default else style)
            for text, style, _ in (Segment(MARK, first.style + color), *strip.crop(1))
        ]
        return Strip(row, strip.cell_length)
