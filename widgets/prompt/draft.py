"""The draft: what is written, pasted and dropped into it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tools.text.safe_text import clean
from widgets.prompt.buffer import TOKENS, Buffer, is_token, without_tokens
from widgets.prompt.vi import Vi

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""How names of images end."""
LONGEST = 20_000
"""Characters of a paste that is read as paths."""
MOST = 50
"""Paths in one paste."""

_ROOTED = ("/", "~/", "file://")
_MENTION = re.compile(r"""(?:^|(?<=[\s(\['"]))@(?:"([^"\n]+)"|([^\s"]+))""", re.MULTILINE)
_TRAILING = ".,;:!?)]}'"


class MentionedFile(NamedTuple):
    """An image a message speaks of: the words that do, and the path they mean."""

    mention: str
    path: str


class FoundFile(NamedTuple):
    """A file that is there. `label` is what is drawn for an image, empty for another file.

    `problem` is a sentence about an image that cannot be attached.
    """

    path: str
    label: str = ""
    problem: str = ""


def readings(text: str) -> list[list[str]]:
    """The ways to read a whole text as full paths, likeliest first; none when it cannot be that."""
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
    """The images a text mentions as `@path` or `@"path"`, each once, in order."""
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
    """A word as a full path; empty when it is not one."""
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
    """What stands for paths that are still looked at: the last part of the first, and how many follow."""
    first = paths[0].rstrip("/").rpartition("/")[2][:40]
    return f"[file: {first}]" if len(paths) == 1 else f"[file: {first} +{len(paths) - 1}]"


LINES = 8
"""A paste of more lines is folded."""
CHARACTERS = 1_000
"""A paste of more characters is folded."""
LARGEST_OPEN = 50_000
"""Characters up to which a folded paste can be opened in the prompt."""


def tidy(text: str) -> str:
    """Text from outside as the prompt keeps it: line feeds for any line end, no control characters."""
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def is_long(text: str) -> bool:
    """Whether a paste is folded."""
    return len(text) > CHARACTERS or len(text.rstrip("\n").split("\n", LINES + 1)) > LINES


class Pastes:
    """The pastes and images of one prompt by the code point that stands for each.

    An image stands for its mention. While a paste of paths is looked at on the
    disk it is pending, and stands for what was pasted.
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
        """Keep a text; returns the one character that stands for it. An untidy one is tidied later."""
        token = self._token(text, f"[paste #{len(self._texts) + 1} · {_size(text)}]")
        if not is_tidy:
            self._untidy.add(token)
        return token

    def hold(self, text: str, label: str) -> str:
        """Keep a paste of paths until it is known what they are; returns its token."""
        token = self._token(text, label)
        self._pending.add(token)
        return token

    def settle(self, token: str, text: str) -> bool:
        """A paste of paths was looked at. False when the prompt has forgotten it meanwhile."""
        if token not in self._pending or self._texts[token] != text:
            return False
        self._pending.discard(token)
        return True

    @property
    def is_pending(self) -> bool:
        """Whether a paste is still looked at."""
        return bool(self._pending)

    def add_image(self, image: MentionedFile, label: str, token: str = "") -> str:
        """Keep an image, under a new token or in place of what `token` stood for; returns the token."""
        token = token or self._token("", "")
        self._texts[token] = image.mention
        self._labels[token] = label
        self._images[token] = image
        return token

    def images(self, text: str) -> tuple[MentionedFile, ...]:
        """The images of a text, each once: its tokens, and those mentioned in what can be seen of it.

        What a folded paste says attaches nothing: nobody has read it.
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
        """A paste as it goes into the buffer: itself when short, else a token for it."""
        return self.fold(text) if is_long(text) else without_tokens(text)

    def content(self, token: str) -> str:
        """What a token stands for, tidy; empty when it is not one of these."""
        text = self._texts.get(token, "")
        if token in self._untidy:
            text = self._texts[token] = tidy(text)
            self._untidy.discard(token)
        return text

    def unfold(self, text: str) -> str:
        """`text` with every token replaced by what it stands for."""
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
    """A text with its folded pastes. It knows nothing of a screen."""

    def __init__(self, *, vi: bool = False) -> None:
        self.pastes = Pastes()
        self.buffer = Buffer()
        self.vi: Vi | None = None
        """The keys of vi, None for those of readline."""
        self.use_vi(vi)

    @property
    def text(self) -> str:
        """The text as it would be sent, pastes unfolded."""
        return self.pastes.unfold(self.buffer.text)

    @property
    def selected(self) -> str:
        """What is selected, pastes unfolded; empty without a selection."""
        return self.pastes.unfold(self.buffer.selected)

    def use_vi(self, wanted: bool) -> None:
        """Take the keys of vi, in insert mode, or those of readline."""
        self.vi = Vi(self.buffer) if wanted else None

    def replace(self, text: str) -> None:
        """Put another text in place of the whole; undo brings that back. A very long one is folded."""
        text = self.pastes.fold(text) if len(text) > FOLDED_WHEN_SET else without_tokens(text)
        self.buffer.replace(0, len(self.buffer.text), text)

    def exchange(self, old: str, new: str) -> bool:
        """Put `new` in place of the last `old` before the cursor, which stays where it is in the text.

        False when `old` is not there any more.
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
        """Empty it; undo does not reach behind this. What was cut can still be yanked."""
        killed, self.buffer = self.buffer.killed, Buffer()
        self.buffer.killed = killed
        self.use_vi(self.vi is not None)
        if not any(map(is_token, killed)):
            self.pastes.clear()

    def token_at_cursor(self) -> str:
        """The folded paste the cursor touches, empty when there is none."""
        text, at = self.buffer.text, self.buffer.cursor
        for character in text[at : at + 1] + text[max(at - 1, 0) : at]:
            if not character.isascii() and is_token(character):
                return character
        return ""

    def unfold(self, token: str) -> bool:
        """Put the text of a paste the cursor touches in its place. False when it is too long for that."""
        text = self.pastes.content(token)
        if len(text) > LARGEST_OPEN:
            return False
        buffer = self.buffer
        at = buffer.cursor if buffer.text[buffer.cursor : buffer.cursor + 1] == token else buffer.cursor - 1
        buffer.replace(at, at + 1, without_tokens(text))
        return True
