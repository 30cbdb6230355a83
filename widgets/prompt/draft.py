"""The text being written: the buffer, what is folded into it, and the keys of vi where they are wanted."""

from __future__ import annotations

from widgets.prompt.buffer import Buffer, is_token, without_tokens
from widgets.prompt.pastes import LARGEST_OPEN, Pastes
from widgets.prompt.vi import Vi

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
