"""The tool mode `native`: calls are sent in the fields that the wire format has for them."""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from agent.core.messages import Image, Message, ToolCall
from agent.model.calls.call_assembly import Assembled, CallAssembler, NewId
from agent.model.calls.call_text import (
    LONGEST_LEAD,
    Rescued,
    find_calls,
    find_in_harmony,
    find_in_thought,
    read_harmony,
)
from agent.model.calls.repair import without_surrogates
from agent.model.codecs.codec import DecodedReply, Decoder, HoldBack
from agent.model.codecs.thinking import ThinkFilter, behind_thought
from agent.model.dialect import ImageRules
from agent.model.protocol import CallFragment, Delta, ReasoningDelta, TextDelta, ToolMode, ToolSpec


class NativeCodec:
    """A codec for the tool mode `native`, which leaves messages unchanged."""

    mode: ToolMode = "native"

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> str:
        """Return `prompt` unchanged, because the tools have a separate field."""
        return prompt

    def rewritten(self, message: Message) -> Message:
        """Return the message unchanged."""
        return message

    def native_tools(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        return tools

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        return None

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder:
        return NativeDecoder(tools)


def new_call_id() -> str:
    """Return a random id of the usual form, for a call that arrived without an id."""
    return f"call_{secrets.token_hex(4)}"


class NativeDecoder:
    """A decoder for one reply: calls from their field, reasoning between `<think>` tags, and calls written as
    text.

    `feed` returns nothing for token counts and the end of the stream, which are not shown.
    """

    longest_lead: int | None = LONGEST_LEAD
    """The limit for text before a tagged call, as in `HoldBack`."""

    def __init__(self, tools: Sequence[ToolSpec], new_id: NewId = new_call_id) -> None:
        self._tools = tuple(tools)
        self._new_id = new_id
        self._think = ThinkFilter()
        self._hold = HoldBack(self._tools, self.longest_lead)
        self._calls = CallAssembler(self._tools, new_id)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._thought: tuple[str, int] = ("", 0)
        """The tag of the newest thought in the text, and where it begins in the reasoning."""

    def feed(self, delta: Delta) -> list[Delta]:
        """Return the deltas to show now."""
        match delta:
            case TextDelta(text):
                return [shown for part in self._think.feed(text) for shown in self._part(*part)]
            case ReasoningDelta(text):
                return self._reason(text)
            case CallFragment():
                return [self._calls.add(delta)]
            case _:
                return []

    def finish(self) -> tuple[list[Delta], DecodedReply]:
        """Return the held-back deltas that must be shown after all, and the whole reply."""
        shown = [delta for part in self._think.finish() for delta in self._part(*part)]
        shown += self._unfinished_thought()
        done = self._calls.finish()
        held = self._hold.text
        if held:
            rest, done = self._settle(held, done)
            shown += self._say(rest)
        text = "".join(self._text)
        if not done.calls and not text.strip() and (found := self._in_thought()):
            self._reasoning = [found.lead]
            done = self._assemble(found.calls)
        if done.calls:
            text = text.rstrip()
        return shown, DecodedReply(
            without_surrogates(text),
            without_surrogates("".join(self._reasoning)),
            done.calls,
            done.repairs,
            done.broken,
        )

    def _settle(self, held: str, done: Assembled) -> tuple[str, Assembled]:
        """Decide on the held-back text; return the part of it to show, and the calls of the reply."""
        if (reply := read_harmony(held)) and (calls := find_in_harmony(reply, self._tools)) is not None:
            self._reasoning.append(reply.reasoning)
            return reply.text, done if done.calls else self._assemble(calls)
        found = self._read(held)
        if found is None and (thought := behind_thought(held)):
            # Reasoning without an opening tag that mentioned a call, and the answer after it.
            self._reasoning += [*self._text, thought[0]]
            self._text.clear()
            held = thought[1].lstrip()
            found = self._read(held)
        if found is None:
            return held, done
        rest, read = found
        if done.calls:
            same = [call.name for call in done.calls] == [call.name for call in read.calls]
            return ("" if same else held), done
        return rest, read

    def _in_thought(self) -> Rescued | None:
        return find_in_thought("".join(self._reasoning), self._tools) if self._tools else None

    def _read(self, held: str) -> tuple[str, Assembled] | None:
        """Return the plain text and the calls in held-back text, or None if it contains no calls."""
        found = find_calls(held, self._tools)
        if found is None:
            return None
        return found.lead, self._assemble(found.calls)

    def _assemble(self, found: Sequence[ToolCall]) -> Assembled:
        """Return calls that were found in text, with new ids."""
        calls = tuple(ToolCall(self._new_id(), call.name, call.arguments) for call in found)
        repairs = ("A tool call written as text was read as a call.",) if calls else ()
        return Assembled(calls, {}, repairs)

    def _part(self, kind: str, text: str) -> list[Delta]:
        if kind == "reasoning":
            return self._reason(text)
        if kind == "open":
            self._thought = (text, len(self._reasoning))
            return []
        if kind == "stray":
            self._take_as_reasoning()
            return []
        shown = self._hold.feed(text)
        self._think.pass_through = self._hold.holding
        return self._say(shown)

    def _unfinished_thought(self) -> list[Delta]:
        """Return as text what follows a think tag that was never closed: the answer only mentioned it."""
        tag, begin = self._thought
        if not self._think.inside or not (self._text or self._hold.text.strip()):
            return []
        text = tag + "".join(self._reasoning[begin:])
        del self._reasoning[begin:]
        return self._say(self._hold.feed(text))

    def _take_as_reasoning(self) -> None:
        """Turn all text so far into reasoning; keep it as text if the reply already has reasoning."""
        before = "".join(self._text) + self._hold.text
        if not before.strip() or not self._reasoning:
            self._reasoning.append(before.strip())
            self._text.clear()
            self._hold = HoldBack(self._tools, self.longest_lead)

    def _reason(self, text: str) -> list[Delta]:
        self._reasoning.append(text)
        return [ReasoningDelta(text)] if text else []

    def _say(self, text: str) -> list[Delta]:
        if not text:
            return []
        self._text.append(text)
        return [TextDelta(text)]


COUNTED = 5_000
"""The characters that an image counts for in estimates: about 1,250 tokens, whatever its size."""

NOT_READ = "this model does not read images"
GONE = "its file is gone"
REFUSED = "this model refused it, or takes no more of them"

_STEP = 3 * 65_536
"""Bytes encoded at once: few, so that other threads can run; a multiple of 3."""


def without_images(message: Message, reason: str = NOT_READ) -> Message:
    """Return the message with a sentence instead of each image."""
    return _with_images(message, [(image, reason) for image in message.images]) if message.images else message


def with_fitting(message: Message, images: ImageRules, left_out: Container[str]) -> Message:
    """Return the message with a sentence instead of each image that the model does not accept.

    The model may accept no images, or refuse large ones. Images whose SHA-256 is in `left_out` are refused
    too.
    """
    if not images.taken:
        return without_images(message)
    refused: list[tuple[Image, str]] = []
    for image in message.images:
        if image.attachment.sha256 in left_out:
            refused.append((image, REFUSED))
        elif images.bytes and image.attachment.size > images.bytes:
            refused.append((image, f"this model takes {images.bytes:,} bytes at most"))
    if not refused:
        return message
    gone = [image for image, _ in refused]
    return replace(
        _with_images(message, refused), images=tuple(image for image in message.images if image not in gone)
    )


def without_lost(message: Message) -> Message:
    """Return the message with a sentence instead of each image whose file is missing."""
    lost = [(image, GONE) for image in message.images if not image.data]
    if not lost:
        return message
    return replace(_with_images(message, lost), images=tuple(image for image in message.images if image.data))


def content_parts(text: bytes, images: tuple[Image, ...]) -> bytes:
    """Return the `content` of a message with images as JSON. `text` is a JSON string, or empty for none.

    The bytes are joined without an encoder: base64 needs no escaping, and an encoder would block other work.
    """
    parts = [b'{"type":"text","text":' + text + b"}"] if text else []
    for image in images:
        kind = json.dumps(f"data:{image.attachment.media_type};base64,").encode()
        parts.append(b'{"type":"image_url","image_url":{"url":' + kind[:-1] + base64_of(image.data) + b'"}}')
    return b"[" + b",".join(parts) + b"]"


def surplus(message: Message) -> int:
    """Return by how many bytes a message's images in a request exceed what they count for in estimates."""
    return sum((len(image.data) + 2) // 3 * 4 - COUNTED for image in message.images if image.data)


def _with_images(message: Message, images: list[tuple[Image, str]]) -> Message:
    sentences = [f"[image: {image.attachment.name}, not sent: {reason}]" for image, reason in images]
    body = [message.content] if message.content.strip() else []
    return replace(message, content="\n".join([*body, *sentences]), images=())


def base64_of(data: bytes) -> bytes:
    """Return `data` as base64, encoded in pieces so that other threads can run in between."""
    return b"".join(b64encode(data[at : at + _STEP]) for at in range(0, len(data), _STEP))
