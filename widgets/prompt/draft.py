"""The draft: typed, pasted and dropped content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from widgets.prompt import grapheme_cells
from widgets.prompt.buffer import TOKENS, Buffer, is_token, without_tokens

Mode = Literal["normal", "insert"]

MOST_TIMES = 9_999
"""The largest count; more would only be a slip of the fingers."""


class _Reach(NamedTuple):
    """The target of a motion. `whole`: operators use whole lines; `inclusive`: they include the target
    character.
    """

    to: int
    whole: bool = False
    inclusive: bool = False


_NAMES = {
    "dollar_sign": "$",
    "circumflex_accent": "^",
    "left": "h",
    "right": "l",
    "up": "k",
    "down": "j",
    "home": "0",
    "end": "$",
    "backspace": "h",
    "delete": "x",
}


class Vi:
    """The state between keys: mode, count, operator, and yanked text."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.mode: Mode = "insert"
        self._count = ""
        self._operator = ""
        self._operator_count = 1
        self._prefix = ""
        self._whole = False

    @property
    def pending(self) -> str:
        """The typed part of an unfinished command, such as `2d`."""
        shown = str(self._operator_count) if self._operator_count > 1 else ""
        return shown + self._operator + self._count + self._prefix

    def escape(self) -> bool:
        """Leave insert mode or drop an unfinished command; return False if there was neither."""
        if self.mode == "insert":
            self.mode = "normal"
            buffer = self.buffer
            if buffer.cursor > buffer.line_start():
                buffer.move(buffer.previous_character())
            return True
        unfinished = bool(self.pending)
        self._reset()
        return unfinished

    def key(self, key: str) -> bool:
        """Handle a key of normal mode; return False if it has no meaning, as always in insert mode."""
        if self.mode == "insert":
            return False
        key = _NAMES.get(key, key)
        if key.isdecimal() and key.isascii() and (key != "0" or self._count):
            self._count = str(min(int(self._count + key), MOST_TIMES))
            return True
        if key == "g" and not self._prefix:
            self._prefix = "g"
            return True
        if self._prefix:
            key, self._prefix = self._prefix + key, ""
        known = self._command(key)
        if not known:
            self._reset()
        self._keep_on_line()
        return known or len(key) == 1

    def _command(self, key: str) -> bool:
        counted = bool(self._count)
        count = int(self._count or 1) * self._operator_count
        if key in ("d", "c", "y") and not self._operator:
            self._operator, self._operator_count, self._count = key, count, ""
            return True
        if self._operator:
            explicit = counted or self._operator_count > 1
            operator = self._operator
            self._reset()
            return self._operate(operator, key, count, explicit)
        self._reset()
        if reach := self._reach(key, count, counted):
            if key in "jk":
                self._rows(count if key == "j" else -count)
            else:
                self.buffer.move(reach.to)
            return True
        action = self._actions().get(key)
        if action is not None:
            action(count)
        return action is not None

    def _actions(self) -> dict[str, Callable[[int], None]]:
        return {
            "i": lambda _: self._insert_at(self.buffer.cursor),
            "a": lambda _: self._insert_at(self._position_right(1)),
            "I": lambda _: self._insert_at(self._first_of_line()),
            "A": lambda _: self._insert_at(self.buffer.line_end()),
            "o": lambda _: self._open(self.buffer.line_end(), below=True),
            "O": lambda _: self._open(self.buffer.line_start(), below=False),
            "x": lambda count: self._cut(self.buffer.cursor, self._position_right(count)),
            "D": lambda _: self._cut(self.buffer.cursor, self.buffer.line_end()),
            "C": lambda _: self._change(self.buffer.cursor, self.buffer.line_end()),
            "p": lambda count: self._paste(count, behind=True),
            "P": lambda count: self._paste(count, behind=False),
            "u": lambda count: self._repeat(self.buffer.undo, count),
            "ctrl+r": lambda count: self._repeat(self.buffer.redo, count),
        }

    # Motions

    def _reach(self, key: str, count: int, counted: bool) -> _Reach | None:
        buffer = self.buffer
        if key in ("w", "b", "e"):
            to = buffer.cursor
            for _ in range(count):
                following = _WORDS[key](buffer.text, to)
                if following == to:
                    break
                to = following
            return _Reach(to, inclusive=key == "e")
        if key in ("gg", "G"):
            lines = buffer.lines()
            line = count - 1 if counted else (0 if key == "gg" else len(lines) - 1)
            start, end = lines[min(line, len(lines) - 1)]
            return _Reach(_first_of(buffer.text, start, end), whole=True)
        plain: dict[str, Callable[[], _Reach]] = {
            "h": lambda: _Reach(self._position_left(count)),
            "l": lambda: _Reach(self._position_right(count)),
            "0": lambda: _Reach(buffer.line_start()),
            "^": lambda: _Reach(self._first_of_line()),
            "$": lambda: _Reach(self._end_of_line(count)),
            "j": lambda: _Reach(self._other_line(count), whole=True),
            "k": lambda: _Reach(self._other_line(-count), whole=True),
        }
        return plain[key]() if key in plain else None

    def _position_left(self, count: int) -> int:
        at, start = self.buffer.cursor, self.buffer.line_start()
        for _ in range(min(count, at - start)):
            at = grapheme_cells.before(self.buffer.text, at)
        return max(at, start)

    def _position_right(self, count: int) -> int:
        at, end = self.buffer.cursor, self.buffer.line_end()
        for _ in range(min(count, end - at)):
            at = grapheme_cells.after(self.buffer.text, at)
        return min(at, end)

    def _first_of_line(self) -> int:
        return _first_of(self.buffer.text, self.buffer.line_start(), self.buffer.line_end())

    def _line(self) -> int:
        return self.buffer.text.count("\n", 0, self.buffer.cursor)

    def _end_of_line(self, count: int) -> int:
        lines = self.buffer.lines()
        return lines[min(self._line() + count - 1, len(lines) - 1)][1]

    def _other_line(self, count: int) -> int:
        lines = self.buffer.lines()
        target = self._line() + count
        return lines[target][0] if 0 <= target < len(lines) else -1

    def _rows(self, count: int) -> None:
        """Move as far as there are lines, as a count too large does in vi's arrows."""
        last = len(self.buffer.lines()) - 1
        room = last - self._line() if count > 0 else self._line()
        step = min(count, room) if count > 0 else max(count, -room)
        if step:
            self.buffer.move_rows(step)

    # Operators

    def _operate(self, operator: str, key: str, count: int, counted: bool) -> bool:
        buffer = self.buffer
        if key == operator:
            self._operate_lines(operator, self._line(), self._line() + count - 1)
            return True
        at = buffer.cursor
        on_word = at < len(buffer.text) and not buffer.text[at].isspace()
        if operator == "c" and key == "w" and on_word:
            # `cw` leaves the blank behind the word, as vi always did.
            to = at
            for turn in range(count):
                to = _run_end(buffer.text, to) if turn == 0 else _word_end(buffer.text, to - 1) + 1
            self._apply(operator, at, min(max(to, grapheme_cells.after(buffer.text, at)), len(buffer.text)))
            return True
        reach = self._reach(key, count, counted)
        if reach is None:
            return False
        if reach.to < 0:
            return True
        if reach.whole:
            other = buffer.text.count("\n", 0, reach.to)
            self._operate_lines(operator, *sorted((self._line(), other)))
            return True
        start, end = min(at, reach.to), max(at, reach.to)
        if reach.inclusive:
            end = grapheme_cells.after(buffer.text, end)
        elif key == "w" and "\n" in buffer.text[start:end] and count == 1:
            # The last word of a line is taken without its line feed.
            end = buffer.line_end()
        self._apply(operator, start, end)
        return True

    def _apply(self, operator: str, start: int, end: int) -> None:
        if operator == "d":
            self._cut(start, end)
        elif operator == "c":
            self._change(start, end)
        else:
            self._keep(self.buffer.text[start:end])
            self.buffer.move(start)

    def _operate_lines(self, operator: str, first: int, last: int) -> None:
        buffer = self.buffer
        lines = buffer.lines()
        last = min(last, len(lines) - 1)
        start, end = lines[first][0], lines[last][1]
        self._keep(buffer.text[start:end], whole=True)
        if operator == "y":
            buffer.move(min(start, buffer.cursor))
            return
        if operator == "c":
            buffer.replace(start, end, "")
            self.mode = "insert"
            return
        if last + 1 < len(lines):
            end += 1
        elif start > 0:
            start -= 1
        buffer.replace(start, end, "")
        buffer.move(self._first_of_line())

    def _keep(self, text: str, *, whole: bool = False) -> None:
        self.buffer.killed, self._whole = text, whole

    def _cut(self, start: int, end: int) -> None:
        if end > start:
            self._keep(self.buffer.text[start:end])
            self.buffer.replace(start, end, "")

    def _change(self, start: int, end: int) -> None:
        self._cut(start, end)
        self.mode = "insert"

    # Inserting

    def _insert_at(self, to: int) -> None:
        self.buffer.move(to)
        self.mode = "insert"

    def _open(self, at: int, *, below: bool) -> None:
        self.buffer.replace(at, at, "\n")
        self._insert_at(at + 1 if below else at)

    def _paste(self, count: int, *, behind: bool) -> None:
        buffer = self.buffer
        text = buffer.killed * count
        if not text and not self._whole:
            return
        if self._whole:
            block = "\n".join([buffer.killed] * count)
            at = buffer.line_end() if behind else buffer.line_start()
            buffer.replace(at, at, "\n" + block if behind else block + "\n")
            start = at + 1 if behind else at
            end = buffer.text.find("\n", start)
            buffer.move(_first_of(buffer.text, start, len(buffer.text) if end < 0 else end))
            return
        at = self._position_right(1) if behind else buffer.cursor
        buffer.replace(at, at, text)
        buffer.move(buffer.previous_character() if "\n" not in text else at)

    def _repeat(self, step: Callable[[], bool], count: int) -> None:
        for _ in range(count):
            if not step():
                break

    def _reset(self) -> None:
        self._count = self._operator = self._prefix = ""
        self._operator_count = 1

    def _keep_on_line(self) -> None:
        """Move the cursor from the end of a line onto its last character, as normal mode requires."""
        buffer = self.buffer
        at_end = buffer.cursor == buffer.line_end() and buffer.cursor > buffer.line_start()
        if self.mode == "normal" and at_end:
            goal = buffer.goal
            buffer.move(buffer.previous_character())
            buffer.goal = goal


def _first_of(text: str, start: int, end: int) -> int:
    while start < end and text[start] in " \t":
        start += 1
    return start


def _class(character: str) -> int:
    if character.isspace():
        return 0
    if is_token(character):
        return 3
    return 1 if character.isalnum() or character == "_" else 2


def _run_end(text: str, at: int) -> int:
    """Return the end of the run of one character class at `at`."""
    kind = _class(text[at]) if at < len(text) else 0
    while at < len(text) and _class(text[at]) == kind:
        at += 1
    return at


def _word_start(text: str, at: int) -> int:
    """Return the start of the next word; an empty line counts as a word."""
    if at < len(text) and not text[at].isspace():
        at = _run_end(text, at)
    while at < len(text) and text[at].isspace():
        at += 1
        if text[at - 1 : at + 1] == "\n\n":
            break
    return at


def _word_before(text: str, at: int) -> int:
    at -= 1
    while at > 0 and text[at].isspace():
        at -= 1
    while at > 0 and _class(text[at - 1]) == _class(text[at]):
        at -= 1
    return max(at, 0)


def _word_end(text: str, at: int) -> int:
    """Return the last character of the next word that ends after `at`."""
    at += 1
    while at < len(text) and text[at].isspace():
        at += 1
    return max(min(_run_end(text, at), len(text)) - 1, 0)


_WORDS: dict[str, Callable[[str, int], int]] = {"w": _word_start, "b": _word_before, "e": _word_end}


SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""How names of images end."""
LONGEST = 20_000
"""Characters of a paste that is read as paths."""
MOST = 50
"""Paths in one paste."""

_ROOTED = ("/", "~/", "file://")
_MENTION = lazy_pattern(r"""(?:^|(?<=[\s(\['"]))@(?:"([^"\n]+)"|([^\s"]+))""", re.MULTILINE)
_TRAILING = ".,;:!?)]}'"


class MentionedFile(NamedTuple):
    """An image mentioned in a message: the words of the mention, and the path."""

    mention: str
    path: str


class FoundFile(NamedTuple):
    """An existing file. `label` is the displayed name of an image, empty for other files.

    `problem` is a sentence about an image that cannot be attached.
    """

    path: str
    label: str = ""
    problem: str = ""


def readings(text: str) -> list[list[str]]:
    """Return the ways to read a text as a list of full paths, likeliest first; none if it is not one."""
    import shlex

    text = text.strip()
    if len(text) > LONGEST or not text.startswith((*_ROOTED, "'", '"')):
        return []
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    found: list[list[str]] = []
    for reading in (lines, words):
        paths = [_path(each) for each in reading]
        if paths and len(paths) <= MOST and all(paths) and paths not in found:
            found.append(paths)
    return found


def images_mentioned(text: str) -> list[MentionedFile]:
    """Return the images mentioned as `@path` or `@"path"`, each once, in order."""
    found = dict.fromkeys(_mentions(text))
    return list(found)


def _mentions(text: str) -> Iterator[MentionedFile]:
    for match in _MENTION.finditer(text):
        path = match[1] or match[2]
        if match[2]:
            path = path.rstrip(_TRAILING)
        if path.lower().endswith(SUFFIXES):
            yield MentionedFile(f'@"{path}"' if match[1] else f"@{path}", path)


def _path(word: str) -> str:
    """Return a word as a full path; empty if it is not one."""
    if not word.startswith(_ROOTED):
        return ""
    if not word.startswith("file://"):
        return word
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(word)
    except ValueError:
        return ""
    return unquote(parts.path) if parts.netloc in ("", "localhost") else ""


def names(paths: Sequence[str]) -> str:
    """Return a label for paths being checked: the name of the first and the number of the rest."""
    first = paths[0].rstrip("/").rpartition("/")[2][:40]
    return f"[file: {first}]" if len(paths) == 1 else f"[file: {first} +{len(paths) - 1}]"


LINES = 8
"""A paste of more lines is folded."""
CHARACTERS = 1_000
"""A paste of more characters is folded."""
LARGEST_OPEN = 50_000
"""Characters up to which a folded paste can be opened in the prompt."""


def tidy(text: str) -> str:
    """Return outside text with line feeds as line ends and without control characters."""
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def is_long(text: str) -> bool:
    """Return whether a paste is long enough to be folded."""
    return len(text) > CHARACTERS or len(text.rstrip("\n").split("\n", LINES + 1)) > LINES


class Pastes:
    """The pastes and images of a prompt, by the code point that represents each.

    An image represents its mention. Pasted paths are pending while they are checked on disk, and then
    represent the pasted text.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self.labels: Mapping[str, str] = self._labels
        """What is drawn for each code point: `[paste #1 · 340 lines]`."""
        self._untidy: set[str] = set()
        self._images: dict[str, MentionedFile] = {}
        self._pending: set[str] = set()

    def fold(self, text: str, *, is_tidy: bool = True) -> str:
        """Store a text and return its token. Text that is not tidy is tidied later."""
        token = self._token(text, f"[paste #{len(self._texts) + 1} · {_size(text)}]")
        if not is_tidy:
            self._untidy.add(token)
        return token

    def hold(self, text: str, label: str) -> str:
        """Store pasted paths until they are checked; return their token."""
        token = self._token(text, label)
        self._pending.add(token)
        return token

    def settle(self, token: str, text: str) -> bool:
        """Replace the text of a checked paste; return False if its token no longer exists."""
        if token not in self._pending or self._texts[token] != text:
            return False
        self._pending.discard(token)
        return True

    @property
    def is_pending(self) -> bool:
        """Return whether a paste is still being checked."""
        return bool(self._pending)

    def add_image(self, image: MentionedFile, label: str, token: str = "") -> str:
        """Store an image under a new token, or under `token`; return the token."""
        token = token or self._token("", "")
        self._texts[token] = image.mention
        self._labels[token] = label
        self._images[token] = image
        return token

    def images(self, text: str) -> tuple[MentionedFile, ...]:
        """Return the images of a text, each once: its tokens, and those mentioned in its visible part.

        A mention inside a folded paste attaches nothing, as nobody has read it.
        """
        seen = "".join(" " if is_token(character) else character for character in text)
        tokens = (self._images[character] for character in text if character in self._images)
        return tuple(dict.fromkeys([*tokens, *images_mentioned(seen)]))

    def _token(self, text: str, label: str) -> str:
        # A token is never reused while undo could bring it back.
        token = chr(TOKENS[len(self._texts) % len(TOKENS)])
        self._texts[token] = text
        self._labels[token] = label
        return token

    def take(self, text: str) -> str:
        """Return a paste for the buffer: a short one unchanged, else a token."""
        return self.fold(text) if is_long(text) else without_tokens(text)

    def content(self, token: str) -> str:
        """Return the tidy text of a token; empty if it is unknown."""
        text = self._texts.get(token, "")
        if token in self._untidy:
            text = self._texts[token] = tidy(text)
            self._untidy.discard(token)
        return text

    def unfold(self, text: str) -> str:
        """Return `text` with every token replaced by its content."""
        if text.isascii():
            return text
        pieces: list[str] = []
        start = 0
        for at, character in enumerate(text):
            if is_token(character):
                pieces += [text[start:at], self.content(character)]
                start = at + 1
        return "".join(pieces) + text[start:]

    def clear(self) -> None:
        """Forget all pastes. Only when no text holds a token any more."""
        self._texts.clear()
        self._labels.clear()
        self._untidy.clear()
        self._images.clear()
        self._pending.clear()


def _size(text: str) -> str:
    text = text.rstrip("\r\n")
    lines = text.count("\n") + text.count("\r") - text.count("\r\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


FOLDED_WHEN_SET = 20_000
"""Characters from which a text that is put into the prompt (history, editor) is folded."""


class Draft:
    """A text with its folded pastes, independent of a screen."""

    def __init__(self, *, vi: bool = False) -> None:
        self.pastes = Pastes()
        self.buffer = Buffer()
        self.vi: Vi | None = None
        """The keys of vi, None for those of readline."""
        self.use_vi(vi)

    @property
    def text(self) -> str:
        """The text to send, with pastes unfolded."""
        return self.pastes.unfold(self.buffer.text)

    @property
    def selected(self) -> str:
        """The selected text with pastes unfolded; empty without a selection."""
        return self.pastes.unfold(self.buffer.selected)

    def use_vi(self, wanted: bool) -> None:
        """Use vi keys, starting in insert mode, or readline keys."""
        self.vi = Vi(self.buffer) if wanted else None

    def replace(self, text: str) -> None:
        """Replace the whole text; undo restores it. A very long text is folded."""
        text = self.pastes.fold(text) if len(text) > FOLDED_WHEN_SET else without_tokens(text)
        self.buffer.replace(0, len(self.buffer.text), text)

    def exchange(self, old: str, new: str) -> bool:
        """Replace the last `old` before the cursor with `new`; the cursor keeps its place in the text.

        Return False if `old` does not occur.
        """
        buffer = self.buffer
        cursor = buffer.cursor
        at = buffer.text.rfind(old, 0, cursor)
        at = buffer.text.find(old) if at < 0 else at
        if at < 0:
            return False
        buffer.replace(at, at + len(old), new)
        if cursor >= at + len(old):
            buffer.move(cursor + len(new) - len(old))
        elif cursor <= at:
            buffer.move(cursor)
        return True

    def clear(self) -> None:
        """Empty the draft and its undo history. Killed text can still be yanked."""
        killed, self.buffer = self.buffer.killed, Buffer()
        self.buffer.killed = killed
        self.use_vi(self.vi is not None)
        if not any(map(is_token, killed)):
            self.pastes.clear()

    def token_at_cursor(self) -> str:
        """Return the folded paste next to the cursor; empty if there is none."""
        text, at = self.buffer.text, self.buffer.cursor
        for character in text[at : at + 1] + text[max(at - 1, 0) : at]:
            if not character.isascii() and is_token(character):
                return character
        return ""

    def unfold(self, token: str) -> bool:
        """Replace a paste next to the cursor with its text; return False if the text is too long."""
        text = self.pastes.content(token)
        if len(text) > LARGEST_OPEN:
            return False
        buffer = self.buffer
        at = buffer.cursor if buffer.text[buffer.cursor : buffer.cursor + 1] == token else buffer.cursor - 1
        buffer.replace(at, at + 1, without_tokens(text))
        return True
