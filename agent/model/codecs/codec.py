"""The codec of one tool mode: the form of calls and results, independent of the wire format.

A codec rewrites messages into a form that the mode supports, and turns a stream of deltas back into text and
calls. `agent.model.wire_format` handles bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.core.messages import Message, ToolCall
from agent.model.calls.call_text import TAG, TAGS, may_be_call, skip_wrapping
from agent.model.codecs.thinking import CodeState, partial_suffix
from agent.model.protocol import Delta, ToolMode, ToolSpec


@dataclass(frozen=True, slots=True)
class DecodedReply:
    """The content of a complete reply. Calls have unique ids and arguments that are JSON objects.

    `repairs` are short sentences about repairs, which are shown on demand and never sent to the model.
    """

    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    repairs: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    """For calls that must not run, by id, the sentence that the model gets instead: their arguments were cut
    off or beyond repair. Such a call has `{}` as its arguments.
    """


class Decoder(Protocol):
    """A decoder for one reply. A retry of the request needs a new decoder."""

    def feed(self, delta: Delta) -> list[Delta]:
        """Return the deltas to show now. Text that may turn out to be a call is held back."""
        ...

    def finish(self) -> tuple[list[Delta], DecodedReply]:
        """Return the held-back deltas that must be shown after all, and the whole reply."""
        ...


class Codec(Protocol):
    """The encoding and decoding of tool calls in one tool mode."""

    @property
    def mode(self) -> ToolMode: ...

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> str:
        """Return the system prompt with the mode's instructions on calling tools."""
        ...

    def rewritten(self, message: Message) -> Message:
        """Return the message in the form of the mode. Pure: equal messages give equal results."""
        ...

    def native_tools(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """Return the tools for the request's field for tools; empty if the mode does not use it."""
        ...

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        """Return the JSON schema that the whole reply must follow; None if there is none."""
        ...

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder: ...


_SLICE = 4096
"""The number of characters examined at once: each tag in them costs a copy of the rest."""


class HoldBack:
    """Passes text on, but holds back text that begins like a call, as long as it may become one.

    `longest_lead` is the number of characters after which a tag no longer counts as the beginning of a call;
    None means that it always counts, whatever tool it names.
    """

    def __init__(self, tools: Sequence[ToolSpec], longest_lead: int | None) -> None:
        self._tools = tools
        self._longest_lead = longest_lead
        self._any_name = longest_lead is None
        self._shown = 0
        self._head: str | None = "" if tools else None
        """The beginning of a text that may be a call; None while plain text streams."""
        self._tail = ""
        """The end of the plain text, if it may be the beginning of a tag."""
        self._held: list[str] = []
        self._code = CodeState()

    @property
    def holding(self) -> bool:
        """True if the text is treated as a call. All text is then held back without further checks."""
        return bool(self._held)

    @property
    def text(self) -> str:
        """The text that is held back."""
        return "".join(self._held) or (self._head or "") + self._tail

    def feed(self, text: str) -> str:
        """Return the part of the text that can be shown now."""
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
        """Add text to the beginning of the message, and decide whether it may be a call.

        Text to be shown is added to `shown`. Return the text that still has to be examined.
        """
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
