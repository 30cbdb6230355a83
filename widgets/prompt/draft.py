"""The draft: typed, pasted and dropped content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from widgets.prompt.buffer import TOKENS, Buffer, is_token, without_tokens
from widgets.prompt.vi import Vi

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""The file name extensions of images."""
LONGEST = 20_000
"""The maximum characters of a paste that is checked for paths."""
MOST = 50
"""The maximum number of paths in one paste."""

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
"""The maximum characters of a folded paste that can be opened in the prompt."""


def tidy(text: str) -> str:
    """Return outside text with line feeds as line endings and without control characters."""
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
        """The displayed text for each code point, such as `[paste #1 · 340 lines]`."""
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

        A mention inside a folded paste attaches nothing, because the user may not have read it.
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
        """Forget all pastes. Call it only if no text contains a token."""
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
        """The vi keys; None for readline keys."""
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
        """Replace the last `old` before the cursor, or else the first one, with `new`; the cursor stays.

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
