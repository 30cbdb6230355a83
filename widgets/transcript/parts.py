"""Items of the conversation, and the parts they are drawn as."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from textual.strip import Strip

from themes.states import glyph
from tools.results import DiffDetail, Display, Outcome, TextDetail
from tools.text.safe_text import clean
from widgets.transcript.blocks import MarkdownBlock, code_of, split
from widgets.transcript.wrap import flat

CHUNK_LINES = 64
CHUNK_CHARS = 8_192


@dataclass(frozen=True, slots=True)
class GapPart:
    """An empty row."""


GAP = GapPart()


@dataclass(frozen=True, slots=True)
class WordsPart:
    """Plain text in one role, wrapped on words, with a glyph in the gutter and a hint at the right edge."""

    text: str
    role: str
    glyph: str = ""
    glyph_role: str = "dim"
    right: str = ""
    rows: int = 0
    """The number of rows after which the rest is folded; 0: all is shown."""
    every_row: bool = False
    """Whether the glyph precedes every row."""
    label: str = ""
    """The start of the text, shown dim: the name of an argument."""


@dataclass(frozen=True, slots=True)
class MarkupPart:
    """One block of markdown."""

    block: MarkdownBlock


def code_in(part: Part) -> str | None:
    """Return the code of a part that is a block of code in prose; None for any other part."""
    return code_of(part.block) if isinstance(part, MarkupPart) and part.block.kind == "fence" else None


@dataclass(frozen=True, slots=True)
class CodePart:
    """Lines of code or output."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A unified diff. `rows` as in `WordsPart`."""

    diff: str
    rows: int = 0


@dataclass(frozen=True, slots=True)
class HeadPart:
    """The header row of a card: state, verb, subject, summary; hint and duration at the right edge."""

    state: str
    """`running`, or the outcome."""
    tool: str
    verb: str
    subject: str
    summary: str
    right: str = ""
    spinner: int = -1
    """The frame of the spinner that is shown; -1: the glyph of the state."""


@dataclass(frozen=True, slots=True)
class PicturePart:
    """A picture; without rows on terminals that cannot draw it. Its name is shown in another part."""

    source: str
    """The source that `PictureCache.load` is given."""


Part = GapPart | WordsPart | MarkupPart | CodePart | DiffPart | HeadPart | PicturePart


def size_of(part: Part) -> tuple[int, int]:
    """Return the characters and line feeds of a part, to estimate its height."""
    match part:
        case GapPart() | HeadPart() | PicturePart():
            return 0, 0
        case WordsPart(text=text) | CodePart(text=text) | DiffPart(diff=text):
            return len(text), text.count("\n")
        case MarkupPart(block=block):
            return len(block.source), block.source.count("\n")


def text_of(part: Part) -> str:
    """Return the searchable text of a part."""
    match part:
        case GapPart() | PicturePart():
            return ""
        case HeadPart():
            return f"{part.verb} {part.subject} {part.summary}"
        case WordsPart(text=text) | CodePart(text=text) | DiffPart(diff=text):
            return text
        case MarkupPart(block=block):
            return block.source


def chunks(text: str) -> Iterator[str]:
    """Split text between lines, or within a very long line, into pieces that are quick to draw."""
    lines: list[str] = []
    size = 0
    for line in text.split("\n"):
        for start in range(0, max(len(line), 1), CHUNK_CHARS):
            piece = line[start : start + CHUNK_CHARS]
            if lines and (len(lines) >= CHUNK_LINES or size + len(piece) > CHUNK_CHARS):
                yield "\n".join(lines)
                lines, size = [], 0
            lines.append(piece)
            size += len(piece)
    yield "\n".join(lines)


class Fold(Enum):
    """The unfolding state of an item."""

    CLOSED = "closed"
    PEEK = "peek"
    """Opened automatically, so that the first rows of the content are shown."""
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class UserItem:
    """A message of the user. `origin` is `prompt`, `queue`, `steer`, or `task`: what an agent was given."""

    text: str
    node: int = 0
    origin: str = "prompt"
    pictures: Sequence[str] = ()
    """The images sent with it, as sources for `PictureCache.load`."""


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """Reasoning of the model. `seconds` is None if it was not timed."""

    text: str
    seconds: float | None = None
    live: bool = False


@dataclass(frozen=True, slots=True)
class AnswerItem:
    """An answer of the model, in markdown."""

    text: str
    node: int = 0


@dataclass(frozen=True, slots=True)
class CallItem:
    """A tool call. `outcome` is None while it runs; `live` is the end of its output so far."""

    call: str
    tool: str
    display: Display
    arguments: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    seconds: float = 0.0
    result: str = ""
    live: str = ""
    files: int = 0
    """The number of files it changed, which can be undone."""


@dataclass(frozen=True, slots=True)
class NoticeItem:
    """A notice of the application; `kind` is as in `agent.events.Noticed`, or `error`."""

    kind: str
    text: str
    detail: str = ""
    """The text shown when it is unfolded, such as what the model reads after a compaction."""


Item = UserItem | ReasoningItem | AnswerItem | CallItem | NoticeItem


def source_of(item: Item) -> str:
    """Return an item's text for searching and copying. Not cleaned."""
    match item:
        case NoticeItem(text=text, detail=detail) if detail:
            return f"{text}\n\n{detail}"
        case NoticeItem(text=text) | UserItem(text=text) | ReasoningItem(text=text) | AnswerItem(text=text):
            return text
        case CallItem():
            display = item.display
            head = " ".join(part for part in (display.verb, display.subject, display.summary) if part)
            return "\n".join(part for part in (head, arguments_text(item), detail_text(item)) if part)


def arguments_text(item: CallItem) -> str:
    """Return the arguments of a call as `name value` lines."""
    return "\n".join(map(_argument, item.arguments.items()))


def _argument(pair: tuple[str, Any]) -> str:
    """Return an argument: its name and value, or its name and the laid out value below it."""
    return pair[0] + _after_name(pair[1])


def _after_name(value: Any) -> str:
    words = _on_one_line(value)
    return f"  {words}" if words is not None else "\n".join(["", *lay_out(value, 1)])


def detail_text(item: CallItem) -> str:
    """Return a call's output as text: its detail, else its result, else its output so far."""
    match item.display.detail:
        case TextDetail(text=text) | DiffDetail(diff=text):
            return text
        case _:
            return item.result or item.live


def single_file_diff(display: Display) -> str:
    """Return the diff of a call that changed one file; empty for any other call."""
    detail = display.detail
    if not isinstance(detail, DiffDetail) or detail.diff.count("\n+++ ") > 1:
        return ""
    return detail.diff


def error_of(item: CallItem) -> str:
    """Return the error sentence of a failed call; empty if there is none."""
    if item.outcome in (None, "done"):
        return ""
    try:
        result = json.loads(item.result)
    except (ValueError, RecursionError):
        return item.result
    error = result.get("error") if isinstance(result, dict) else None
    return error if isinstance(error, str) else ""


def first_fold(item: Item) -> Fold:
    """Return an item's initial fold: `PEEK` for failed calls, edits and pictures, otherwise `CLOSED`."""
    match item:
        case CallItem(outcome="failed" | "denied" | "interrupted"):
            return Fold.PEEK
        case CallItem(outcome="done", display=Display(detail=DiffDetail())):
            return Fold.PEEK
        case CallItem(outcome="done", display=Display(picture=picture)) if picture:
            return Fold.PEEK
        case CallItem(outcome="done", display=Display(detail=TextDetail(), exit_code=code)) if code:
            return Fold.PEEK
        case _:
            return Fold.CLOSED


def folds(item: Item) -> bool:
    """Return whether the item can be unfolded."""
    if isinstance(item, NoticeItem):
        return bool(item.detail)
    return isinstance(item, (UserItem, ReasoningItem, CallItem))


DEEPEST = 8
"""Levels of nested values that are laid out; deeper ones stay JSON."""
SHORT_LIST = 60
"""The maximum characters of a list of plain values on one line."""


def lay_out(value: Any, depth: int = 0) -> list[str]:
    """Return the lines of a value: a name and its value on each, nested ones indented below."""
    indent = "  " * depth
    if (words := _on_one_line(value)) is not None or depth >= DEEPEST:
        return [f"{indent}{each}" for each in (words or value_text(value)).split("\n")]
    lines: list[str] = []
    if isinstance(value, Mapping):
        for name, each in value.items():
            first, *more = lay_out(each, depth + 1)
            beside = not more and _on_one_line(each) is not None
            lines += (
                [f"{indent}{name}  {first[len(indent) + 2 :]}"]
                if beside
                else [f"{indent}{name}", first, *more]
            )
        return lines
    for each in value:
        first, *more = lay_out(each, depth + 1)
        lines += [f"{indent}- {first[len(indent) + 2 :]}", *more]
    return lines


def _on_one_line(value: Any) -> str | None:
    """Return the text of a plain value or a short list of them; None if several lines are needed."""
    if not isinstance(value, (Mapping, list, tuple)):
        return value_text(value)
    if not value:
        return "none"
    if isinstance(value, Mapping) or any(isinstance(each, (Mapping, list, tuple)) for each in value):
        return None
    words = ", ".join(map(value_text, value))
    return words if len(words) <= SHORT_LIST and "\n" not in words else None


def value_text(value: Any) -> str:
    """Return an argument's value: a text unchanged, any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "(nested too deeply to be shown)"


PEEK_ROWS = 12
"""The number of rows shown of a card that opened by itself."""
LIVE_ROWS = 3
"""Rows of output below the card of a running call."""
PRETTY_CHARS = 65_536
"""The maximum characters of a result that is reformatted."""
LANGUAGE_LINES = 400
"""The maximum lines of a text shown in the colours of its language; a longer one is shown in parts."""


def call_parts(item: CallItem, fold: Fold, spinner: int = -1) -> list[Part]:
    """Return the parts of a card. `spinner` is the spinner's frame; -1 shows the state's glyph."""
    parts: list[Part] = [head_of(item, fold, spinner)]
    if fold is Fold.OPEN:
        parts += _arguments(item)
        parts += _error(item)
        parts += _live(item) if item.outcome is None else _detail(item)
    elif item.outcome is None:
        parts += _live(item)
    elif fold is Fold.PEEK:
        parts += _error(item)
        parts += _peek(item)
    if fold is not Fold.CLOSED and item.outcome == "done" and item.display.picture:
        parts.append(PicturePart(item.display.picture))
    return parts


def head_of(item: CallItem, fold: Fold, spinner: int = -1) -> HeadPart:
    """Return the header row of a card."""
    display = item.display
    state = item.outcome or "running"
    if state == "done" and display.exit_code:
        state = "exit"
    summary = clean(display.summary)
    if fold is not Fold.CLOSED and clean(error_of(item)).strip().startswith(summary.strip().rstrip("…")):
        # The full sentence is below the row.
        summary = ""
    return HeadPart(
        state=state,
        tool=item.tool,
        verb=clean(display.verb) or clean(item.tool),
        subject=clean(display.subject),
        summary=summary,
        right=_right(item, fold),
        spinner=spinner,
    )


def duration(seconds: float) -> str:
    """Format a duration: `0.1 s`, `42 s`, `3 min 5 s`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _right(item: CallItem, fold: Fold) -> str:
    if item.outcome is None:
        # Whole seconds, so that a row does not change while it is read.
        return f"{int(item.seconds)} s" if item.seconds >= 1 else ""
    kept = f"↺ {item.files:,} {'file' if item.files == 1 else 'files'}   " if item.files else ""
    hint = "⏎ diff   " if isinstance(item.display.detail, DiffDetail) and fold is Fold.CLOSED else ""
    return kept + hint + duration(item.seconds)


def _arguments(item: CallItem) -> Iterator[Part]:
    for name, value in item.arguments.items():
        label = flat(clean(str(name)))
        # Without its name, which a return in the value would write over.
        text = clean(_after_name(value).removeprefix("  "))
        for number, piece in enumerate(chunks(text)):
            shown = f"{label}  {piece}" if number == 0 else piece
            yield WordsPart(shown, "text", label=label if number == 0 else "")


def _error(item: CallItem) -> Iterator[Part]:
    error = clean(error_of(item)).strip()
    if error:
        role = "error" if item.outcome == "failed" else "warning"
        for piece in chunks(error):
            yield WordsPart(piece, role)


def _live(item: CallItem) -> Iterator[Part]:
    lines = clean(item.live).rstrip("\n").split("\n")[-LIVE_ROWS:]
    if any(lines):
        yield CodePart("\n".join(lines))


def _detail(item: CallItem) -> Iterator[Part]:
    match item.display.detail:
        case DiffDetail(diff=diff):
            yield from (DiffPart(piece) for piece in hunks(clean(diff)))
        case TextDetail(text=text, language=language):
            yield from _code(clean(text).rstrip("\n"), language)
        case _ if item.result and not error_of(item):
            yield from _code(result_lines(item.result), "")


def _code(text: str, language: str) -> Iterator[Part]:
    if not text.strip():
        yield WordsPart("no output", "dim")
    elif text.count("\n") <= LANGUAGE_LINES and len(text) <= PRETTY_CHARS:
        yield CodePart(text, language)
    else:
        yield from (CodePart(piece) for piece in chunks(text))


def _peek(item: CallItem) -> Iterator[Part]:
    match item.display.detail:
        case DiffDetail(diff=diff):
            yield DiffPart(clean(diff), rows=PEEK_ROWS)
        case TextDetail(text=text, language=language) if not item.display.picture:
            # Errors are at the end of an output.
            lines = clean(text).strip("\n").split("\n")
            if len(lines) > PEEK_ROWS:
                yield WordsPart(f"… {len(lines) - PEEK_ROWS:,} more above, ⏎", "dim")
            if any(lines):
                yield CodePart("\n".join(lines[-PEEK_ROWS:]), language)


def hunks(diff: str) -> Iterator[str]:
    """Split a long diff before hunks, so that each piece keeps its line numbers."""
    lines: list[str] = []
    for line in diff.split("\n"):
        if len(lines) >= 200 and line.startswith(("@@ ", "diff ")):
            yield "\n".join(lines)
            lines = []
        lines.append(line)
    if any(lines):
        yield "\n".join(lines)


def result_lines(result: str) -> str:
    """Return a JSON result with one field per line; a very long one or other text is only cleaned."""
    if len(result) <= PRETTY_CHARS:
        try:
            return clean("\n".join(lay_out(json.loads(result))))
        except (ValueError, RecursionError):
            pass
    return clean(result)


USER_ROWS, TASK_ROWS = 20, 4
"""Rows shown of a message by the user, or of a task, before it is unfolded."""

MOST_BEHIND = 60_000
"""The maximum characters of a notice's detail that are shown in the conversation."""

_NOTICE_ROLES = {
    "warning": "warning",
    "recovery": "warning",
    "store": "warning",
    "cut": "warning",
    "error": "error",
    "failure": "error",
}
"""The role of each kind of notice, as named in live events or as stored."""
_MARKED = {"error": glyph("failed"), "failure": glyph("failed"), "cut": glyph("stopped")}
_ORIGINS = {"steer": "steered", "task": "its task"}


def parts_of(item: Item, fold: Fold) -> list[Part]:
    """Return the parts of an item, top to bottom. An empty answer has none."""
    match item:
        case UserItem():
            return _user(item, fold)
        case ReasoningItem():
            return _reasoning(item, fold)
        case AnswerItem(text=text):
            return with_gaps([MarkupPart(block) for block in split(clean(text))])
        case CallItem():
            return call_parts(item, fold)
        case NoticeItem(detail=detail) if detail:
            return _opening(item, fold)
        case NoticeItem(kind=kind, text=text):
            role = _NOTICE_ROLES.get(kind, "dim")
            if kind in _MARKED:
                return list(_long(clean(text), role, _MARKED[kind]))
            return [
                WordsPart(piece, role, glyph="┊", glyph_role=role, every_row=True)
                for piece in chunks(clean(text))
            ]


def gap_between(before: Item | None, item: Item) -> bool:
    """Return whether an empty row separates two items.

    Calls and the reasoning between them are not separated, nor are adjacent notices.
    """
    if before is None:
        return False
    work = (CallItem, ReasoningItem)
    together = isinstance(before, work) and isinstance(item, work)
    return not (together or (isinstance(before, NoticeItem) and isinstance(item, NoticeItem)))


def with_gaps(parts: list[Part]) -> list[Part]:
    """Insert an empty row between blocks of markdown."""
    done: list[Part] = []
    for part in parts:
        if done:
            done.append(GAP)
        done.append(part)
    return done


def _user(item: UserItem, fold: Fold) -> list[Part]:
    text = clean(item.text).strip("\n")
    right = _ORIGINS.get(item.origin, "")
    pictures = [PicturePart(source) for source in item.pictures]
    role, mark, rows = ("dim", "┊", TASK_ROWS) if item.origin == "task" else ("user", "❯", USER_ROWS)
    if fold is Fold.CLOSED:
        said = WordsPart(text, role, glyph=mark, glyph_role=role, right=right, rows=rows)
        return [said, *pictures]
    return [*_long(text, role, mark, right), *pictures]


def _reasoning(item: ReasoningItem, fold: Fold) -> list[Part]:
    closed = fold is Fold.CLOSED
    title = WordsPart(_thought_line(item), "dim", glyph="▸" if closed else "▾", glyph_role="dim")
    if closed:
        return [title]
    return [title, *_long(clean(item.text).strip("\n"), "reasoning")]


def _opening(item: NoticeItem, fold: Fold) -> list[Part]:
    """Return the parts of a notice with details, shortened unless fully open."""
    closed = fold is Fold.CLOSED
    role = _NOTICE_ROLES.get(item.kind, "dim")
    title = WordsPart(clean(item.text), role, glyph="▸" if closed else "▾", glyph_role=role)
    if closed:
        return [title]
    shown = clean(item.detail[:MOST_BEHIND]).strip("\n")
    if (more := len(item.detail) - MOST_BEHIND) > 0:
        shown += f"\n… {more:,} more characters; opened in full, all of it is there"
    return [title, *_long(shown, "dim")]


def _thought_line(item: ReasoningItem) -> str:
    if item.live:
        return f"Thinking … {item.seconds:.0f} s" if item.seconds else "Thinking …"
    if item.seconds is not None:
        return f"Thought for {item.seconds:.0f} s" if item.seconds >= 1 else "Thought for a moment"
    words = len(item.text.split())
    return f"Thought · {words:,} {'word' if words == 1 else 'words'}"


def _long(text: str, role: str, glyph: str = "", right: str = "") -> Iterator[Part]:
    """Split long text into parts, so that only visible ones are wrapped."""
    for piece in chunks(text):
        yield WordsPart(piece, role, glyph=glyph, glyph_role=role, right=right)
        glyph = right = ""


class DocumentEntry:
    """An item in the document, with its state."""

    __slots__ = ("age", "chosen", "closed", "gap", "heights", "item", "live", "open", "parts", "written")

    def __init__(self, item: Item, gap: bool, age: int = 0) -> None:
        self.item = item
        self.gap = gap
        """Whether an empty row precedes the item."""
        self.age = age
        """How often everything had been folded or unfolded when this was last brought up to date."""
        self.chosen: Fold | None = None
        """The fold state that the user chose; None: the one that suits the item."""
        self.parts: list[Part] | None = None
        """The parts of the item; None until they are needed."""
        self.heights: list[int] = []
        """Rows of its parts: as drawn, or estimated."""
        self.open = False
        """Whether it is an answer that is still being written."""
        self.live: Sequence[Strip] = ()
        """Rows of the last part while it is still being written."""
        self.closed = 0
        """How many parts of an answer that is being written are complete."""
        self.written: tuple[Item, Fold | None, int] | None = None
        """The state in which the archive contains the item; None: it does not."""

    @property
    def state(self) -> tuple[Item, Fold | None, int]:
        """The changeable data that archiving must preserve."""
        return self.item, self.chosen, self.age

    @property
    def fold(self) -> Fold:
        """The item's current fold."""
        return self.chosen or first_fold(self.item)

    def guess(self, room: int) -> int:
        """Return the height estimated from the item's length; `room` is the columns of a row."""
        match self.item:
            case AnswerItem(text=text) | UserItem(text=text):
                return 2 + len(text) // room
            case _:
                return 1 + self.gap


Key = Part | tuple[Part, int]
"""A part, with the first cell of its code that is shown unless that is 0."""

KEPT_ROWS = 6_000
"""The maximum number of cached rows, in whole parts."""


def alike(rows: list[Strip], before: Sequence[Strip]) -> list[Strip]:
    """Return `rows`, reusing the old object of each row equal to its predecessor, whose caches stay valid."""
    same = [old if new is old or new == old else new for new, old in zip(rows, before, strict=False)]
    return [*same, *rows[len(same) :]]


class RowCache:
    """The drawn rows of parts; least recently used ones are dropped first."""

    def __init__(self, limit: int = KEPT_ROWS) -> None:
        self._limit = limit
        self._strips: OrderedDict[Key, list[Strip]] = OrderedDict()
        self.rows = 0
        """The number of cached rows."""

    def get(self, part: Key) -> list[Strip] | None:
        """Return the rows of a part; None if they are not cached."""
        strips = self._strips.get(part)
        if strips is not None:
            self._strips.move_to_end(part)
        return strips

    def store(self, part: Key, strips: list[Strip]) -> None:
        """Cache the rows of a part that is not cached. One part is kept regardless of its size."""
        self._strips[part] = strips
        self.rows += len(strips)
        while self.rows > self._limit and len(self._strips) > 1:
            self.rows -= len(self._strips.popitem(last=False)[1])

    def drop(self, part: Part) -> None:
        """Drop a part's rows, so that it is drawn again."""
        self.rows -= len(self._strips.pop(part, ()))

    def clear(self) -> None:
        """Drop all rows."""
        self._strips.clear()
        self.rows = 0
