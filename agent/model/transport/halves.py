"""Characters that JSON escapes divide over two pieces of a stream, put together again."""

from __future__ import annotations


class HalfCharacters:
    """Holds back the half of a character at the end of a piece until the other one comes.

    Python keeps lone UTF-16 surrogates of JSON escapes; no encoder takes them later. A channel
    is whatever pieces belong together by.
    """

    def __init__(self) -> None:
        self._halves: dict[object, str] = {}

    def whole(self, text: str, channel: object) -> str:
        """`text` without halves of characters: one at its end waits, a lost one becomes U+FFFD."""
        if text.isascii() and not self._halves:
            return text
        text = self._halves.pop(channel, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[channel] = text[-1]
            text = text[:-1]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def flush(self) -> list[object]:
        """The channels whose last character never became whole; each once."""
        channels, self._halves = list(self._halves), {}
        return channels
