"""Recorded answers of models, returned by a client that first compares the request with the recorded one."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.core.event_data import Usage
from agent.core.messages import Message, ToolCall
from agent.core.store.nodes import Node
from agent.errors import ConfigError, ModelError
from agent.knowledge.context.message_history import calls_of, conversation, sealed_of
from agent.model.codecs.codec import Codec, DecodedReply, Decoder
from agent.model.dialect import DEFAULT, Dialect, load
from agent.model.protocol import (
    THOUGHT,
    CallFragment,
    Delta,
    ModelRequest,
    Profile,
    ReasoningDelta,
    ReplyEnd,
    SealedDelta,
    TextDelta,
    ToolMode,
    ToolSpec,
    UsageDelta,
)
from agent.model.usage import COUNTS
from agent.model.wire_format import Wire
from agent.session.replay.tape import Tape, is_answer
from agent.session.turns.request_record import answer_digests, settings_of, short_digest

_MOST_FRAMES = 10_000_000
"""More frames than any request has; a recorded position beyond this is damaged data."""


@dataclass(slots=True)
class Compared:
    """Counts of compared requests, by the way in which they were compared."""

    whole: int = 0
    """Requests compared byte for byte, as they were sent."""
    bytes: int = 0
    parts: int = 0
    """Requests compared by their parts, because no body was sent (a model within the program)."""
    unrecorded: int = 0
    """Requests not compared: their session was stored before requests were recorded."""


def recorded_dialect(record: Mapping[str, Any]) -> Dialect:
    """Return the dialect of a recorded request. Parts missing in the record have their default values."""
    told = (record.get("sent") or {}).get("dialect") or {}
    base = load(DEFAULT)
    return base.apply_change({name: values for name, values in told.items() if isinstance(values, dict)})


class RecordedAnswers:
    """A `ModelClient` for one route that answers from the tape of recorded nodes."""

    def __init__(
        self, tape: Tape, route: str, wire: Wire, profile: Profile, compared: Compared, frames: list[str]
    ) -> None:
        self._tape = tape
        self._route = route
        self._wire = wire
        self._profile = profile
        self._compared = compared
        self._frames = frames
        """The digests of this route's message frames; empty texts where none was recorded."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        node = self._tape.next()
        if node is None or not is_answer(node) or node.data.get("model", "") != self._route:
            raise ModelError("not_found", f"{self._route} gave no answer here.")
        record = node.data.get("request")
        if isinstance(record, Mapping):
            dialect = recorded_dialect(record)
            if (trial := request.trial) is not None and trial.rebuild is not None:
                trial.dialect = dialect
                request = await trial.rebuild(request, dialect)
                trial.dialect = None
            self._compare(request, record, node)
            self._check_answer(record, node)
        else:
            self._compared.unrecorded += 1
        for delta in deltas_of(node):
            yield delta

    async def aclose(self) -> None:
        pass

    def _compare(self, request: ModelRequest, record: Mapping[str, Any], node: Node) -> None:
        """Raise `ReplayDifference` if the request differs from the recorded one; otherwise count it."""
        start = int(record["from"])
        if not 0 <= start <= _MOST_FRAMES:
            raise ValueError("no place in a request")
        self._frames += [""] * (start - len(self._frames))
        self._frames[start:] = list(record["frames"])
        sent = record.get("sent")
        if not isinstance(sent, Mapping):
            self._name_part(request, record, node)
            self._compared.parts += 1
            return
        body = self._body(request, sent)
        if hashlib.sha256(body).hexdigest() != sent["sha256"]:
            self._name_part(request, record, node)
            self._tape.differ("the body of the request", f"{sent['bytes']} bytes", f"{len(body)} bytes", node)
        self._compared.whole += 1
        self._compared.bytes += len(body)

    def _body(self, request: ModelRequest, sent: Mapping[str, Any]) -> bytes:
        """Return the body as it would be sent, with the cache marks and output limit of the record."""
        dialect = recorded_dialect({"sent": sent})
        leaving = replace(request, max_output=sent["max_output"], marks=tuple(sent["marks"]), told=None)
        return self._wire.format.body(leaving, dialect)

    def _name_part(self, request: ModelRequest, record: Mapping[str, Any], node: Node) -> None:
        """Raise a `ReplayDifference` that names the differing part of the request, if there is one."""
        differ = self._tape.differ
        for name, part in (("system", request.system), ("tools", request.tools)):
            if record[name] != short_digest(part):
                differ(f"request.{name}", record[name], short_digest(part), node)
        for name, value in settings_of(request).items():
            if record["settings"].get(name) != value:
                differ(f"request.{name}", record["settings"].get(name), value, node)
        now = [short_digest(frame.data) for frame in request.frames]
        for place, (one, other) in enumerate(zip(self._frames, now, strict=False)):
            if one and one != other:
                what, source = self._frame_of(request, place)
                differ(f"request.messages[{place}], {what}", one, other, source or node)
        if record["count"] != len(now):
            differ("request.messages", f"{record['count']} frames", f"{len(now)} frames", node)

    def _frame_of(self, request: ModelRequest, place: int) -> tuple[str, Node | None]:
        """Return a label for a frame of a request, and the node from which it was made, or None."""
        path = self._tape.read()
        framer = self._wire.framer(self._route, request.tools + request.system)
        thinks = any(frame.kind == THOUGHT for frame in request.frames)
        count = 0
        turned = [(0, each) for each in self._profile.examples]
        turned += [(each.node, each.message) for each in conversation(path)]
        for number, message in turned:
            made = [frame for frame in framer.frames(message) if thinks or frame.kind != THOUGHT]
            count += len(made)
            if place < count:
                source = next((node for node in path if node.id == number), None)
                return _message_label(message, source, path), source
        return "which no message makes", None

    def _check_answer(self, record: Mapping[str, Any], node: Node) -> None:
        now = answer_digests(node.content, str(node.data.get("reasoning", "")), calls_of(node))
        for name, digest in record["answer"].items():
            if digest != now[name]:
                self._tape.differ(f"answer.{name}", digest, now[name], node)


def deltas_of(node: Node) -> list[Delta]:
    """Return a stored answer as the deltas of a stream: text, calls and sealed parts in their order."""
    raw = node.data.get("raw")
    if isinstance(raw, Mapping):
        text, reasoning = str(raw["text"]), str(raw["reasoning"])
        pieces = [CallFragment(*each) for each in raw["calls"]]
    else:
        text, reasoning = node.content, str(node.data.get("reasoning", ""))
        made = enumerate(calls_of(node))
        pieces = [CallFragment(at, call.id, call.name, call.arguments) for at, call in made]
    deltas: list[Delta] = [ReasoningDelta(reasoning)] if reasoning else []
    sealed = sealed_of(node)
    written, begun = 0, set[int]()
    for part in sealed.parts if sealed is not None else ():
        if part.text > written:
            deltas.append(TextDelta(text[written : part.text]))
            written = part.text
        while pieces and (pieces[0].index in begun or len(begun) < part.calls):
            begun.add(pieces[0].index)
            deltas.append(pieces.pop(0))
        deltas.append(SealedDelta(part.data))
    if text[written:]:
        deltas.append(TextDelta(text[written:]))
    deltas += pieces
    if used := node.data.get("usage"):
        deltas.append(UsageDelta(Usage(**{name: used.get(name) for name in COUNTS})))
    return [*deltas, ReplyEnd(node.data.get("finish", "unknown"))]


class RecordedIds:
    """A tool mode that gives calls the ids they have in the record instead of new ones."""

    def __init__(self, codec: Codec, tape: Tape) -> None:
        self._codec = codec
        self._tape = tape

    @property
    def mode(self) -> ToolMode:
        return self._codec.mode

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> str:
        return self._codec.system(prompt, tools)

    def rewritten(self, message: Message) -> Message:
        return self._codec.rewritten(message)

    def native_tools(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        return self._codec.native_tools(tools)

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        return self._codec.reply_schema(tools)

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder:
        return _RecordedIds(self._codec.decoder(tools), self._tape)


class _RecordedIds:
    def __init__(self, decoder: Decoder, tape: Tape) -> None:
        self._decoder = decoder
        self._tape = tape

    def feed(self, delta: Delta) -> list[Delta]:
        return self._decoder.feed(delta)

    def finish(self) -> tuple[list[Delta], DecodedReply]:
        shown, reply = self._decoder.finish()
        node = self._tape.next()
        recorded = calls_of(node) if node is not None else ()
        if len(recorded) != len(reply.calls):
            return shown, reply
        names = {made.id: then.id for made, then in zip(reply.calls, recorded, strict=True)}
        calls = tuple(ToolCall(names[call.id], call.name, call.arguments) for call in reply.calls)
        broken = {names[id]: why for id, why in reply.broken.items()}
        return shown, replace(reply, calls=calls, broken=broken)


def codec_of(mode: str) -> Codec:
    """Return the codec of a recorded tool mode. Raises `ConfigError` for a mode unknown to this version."""
    from agent.model.codecs import codec_for

    try:
        return codec_for(mode)  # type: ignore[arg-type]
    except (KeyError, ValueError):
        raise ConfigError(f"The session was recorded in a tool mode that is not known: {mode}.") from None


def _message_label(message: Message, node: Node | None, path: Sequence[Node]) -> str:
    match message.role:
        case "assistant":
            step = sum(is_answer(each) for each in path if node is not None and each.id <= node.id)
            return f"the answer of step {step}"
        case "tool":
            return f"the result of {message.name or 'a call'} ({message.call_id})"
        case _:
            return "what was said to the model"
