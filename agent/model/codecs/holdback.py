"""Deciding while a reply streams which text to show and which may turn out to be a call."""

from __future__ import annotations

from collections.abc import Sequence

from agent.model.calls.call_marks import TAG, TAGS
from agent.model.calls.call_text import may_be_call, skip_wrapping
from agent.model.codecs.thinking import CodeState, partial_suffix
from agent.model.protocol import ToolSpec

_SLICE = 4096
"""Characters looked at in one go: each tag in them costs a copy of the rest."""


class HoldBack:
    """Passes text on and holds back what begins like a call, as long as it may become one.

    `longest_lead` is the number of characters after which a tag is no longer
    taken for the beginning of a call; None means that it always is, whatever
    tool it names.
    """

    def __init__(self, tools: Sequence[ToolSpec], longest_lead: int | None) -> None:
        self._tools = tools
        self._longest_lead = longest_lead
        self._any_name = longest_lead is None
        self._shown = 0
        self._head: str | None = "" if tools else None
        """The beginning of what may be a call; None while plain text streams."""
        self._tail = ""
        """The end of the plain text, if it may be the beginning of a tag."""
        self._held: list[str] = []
        self._code = CodeState()

    @property
    def holding(self) -> bool:
        """Whether text is taken for a call; it is then not looked into any more."""
        return bool(self._held)

    @property
    def held(self) -> str:
        """What is being held back."""
        return "".join(self._held) or (self._head or "") + self._tail

    def feed(self, text: str) -> str:
        """The part of the text that can be shown now."""
        shown: list[str] = []
        for at in range(0, len(text), _SLICE):
            if self._held:
                self._held.append(text[at:])
                break
            self._feed(text[at : at + _SLICE], shown)
        return "".join(shown)

    def _feed(self, text: str, shown: list[str]) -> None:
        while text and not self._held:
            text = self._decide(text, shown) if self._head is not None else self._stream(text, shown)

    def _decide(self, text: str, shown: list[str]) -> str:
        """Add to the head and judge it. Returns text that is still to be looked at."""
        self._head = (self._head or "") + text
        verdict = may_be_call(self._head, self._tools, any_name=self._any_name)
        if verdict == "yes":
            self._held.append(self._head)
            self._head = None
        elif verdict == "no":
            head, self._head = self._head, None
            length, _ = skip_wrapping(head)
            self._show(head[:length], shown)
            return head[length:]
        return ""

    def _stream(self, text: str, shown: list[str]) -> str:
        text, self._tail = self._tail + text, ""
        tag = TAG.search(text)
        lead = self._shown + (tag.start() if tag else 0)
        if not self._tools or (self._longest_lead is not None and lead > self._longest_lead):
            self._show(text, shown)
            return ""
        end = tag.start() if tag else len(text) - partial_suffix(text, TAGS)
        self._show(text[:end], shown)
        if tag is None:
            self._tail = text[end:]
            return ""
        if self._code.inside:
            self._show(tag.group(), shown)
            return text[tag.end() :]
        self._head = ""
        return text[end:]

    def _show(self, text: str, shown: list[str]) -> None:
        if text:
            self._code.feed(text)
            self._shown += len(text)
            shown.append(text)
