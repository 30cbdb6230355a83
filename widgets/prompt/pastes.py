"""Long pastes and images, each one character of the text, unfolded when it is sent."""

from __future__ import annotations

from collections.abc import Mapping

from tools.text.safe_text import clean
from widgets.prompt.buffer import TOKENS, is_token, without_tokens
from widgets.prompt.dropped import MentionedFile, images_mentioned

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
        """What a token stands for, tidy; empty when it is none of these."""
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
