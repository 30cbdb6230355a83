"""The wire format of a provider: how a conversation becomes requests, and how its stream is read.

A format is one of two axes. The other one is the tool mode (`agent.model.codecs`), which
says how calls travel where a model has no field for them. A format declares itself as
`FORMAT` in a module of its own; `agent.model.format_registry` finds it by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from agent.core.messages import Message
from agent.model.protocol import Delta, FinishReason, Frame, ModelRequest, Thinking, ToolSpec

if TYPE_CHECKING:
    from agent.model.dialect import Dialect


class Framer(Protocol):
    """Turns the messages of one conversation into frames, each exactly once and in their order.

    It may remember what came before, so that ids are unique and what a provider signed is
    only sent where it is valid. The same messages in the same order give the same frames.
    """

    def frames(self, message: Message) -> list[Frame]:
        """The frames of the next message; possibly none."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of everything framed so far in hex; empty where the format has no use for it."""
        ...

    def may_think(self, wanted: Thinking | None) -> bool:
        """Whether the next request may ask for thinking. If not, frames of thoughts are left out."""
        ...


class EventReader(Protocol):
    """Reads the events of one reply, in order, as JSON objects. Unknown events are skipped."""

    finish: FinishReason | None
    """Why the model stopped, once it said so."""
    over: bool
    """Whether nothing more is to come."""
    failed: str
    """Why the provider gave up in the middle of the reply, if it did and says no more about it."""

    def read(self, event: dict[str, Any]) -> list[Delta]:
        """The deltas in one event, or in one whole reply."""
        ...

    def flush(self) -> list[Delta]:
        """What was held back, when nothing more will come."""
        ...

    def is_reply(self, document: dict[str, Any]) -> bool:
        """Whether a body that is one object, not a stream, is a reply of this format."""
        ...

    def complaint(self, event: dict[str, Any]) -> Mapping[str, Any] | None:
        """The error an event reports, in a form `complaints.complaint_of` reads; None if it reports none."""
        ...


class WireFormat(Protocol):
    """One form of requests and replies. Formats have no state; frames and readers do."""

    @property
    def name(self) -> str:
        """What `providers.NAME.format` calls it."""
        ...

    @property
    def title(self) -> str:
        """What people call it, such as `chat completions`."""
        ...

    @property
    def endpoint(self) -> str:
        """What is appended to a base URL, such as `/chat/completions`."""
        ...

    @property
    def marks_cache(self) -> bool:
        """Whether requests tell the provider up to where its cache is to reach."""
        ...

    def system(self, prompt: str) -> bytes:
        """The wire form of the system prompt; empty for none."""
        ...

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ...) -> bytes:
        """The wire form of the tools on offer (a JSON array), or empty if there are none."""
        ...

    def framer(self, owner: str, head: bytes, dialect: Dialect = ...) -> Framer:
        """A framer for one conversation. `owner` is the label of the model that reads it, `head` what
        precedes the conversation: tools and system prompt."""
        ...

    def body(self, request: ModelRequest, dialect: Dialect = ...) -> bytes:
        """The body of a request. Frames, system prompt and tools go in as the bytes they are."""
        ...

    def headers(self, api_key: str) -> Mapping[str, str]:
        """The headers that carry the key and the version; nothing for an empty key that needs none."""
        ...

    def reader(self) -> EventReader: ...
