"""The table of the content of the model's context window, layer by layer.

It is derived only from the stored path, so it can be made at any time, even during a turn. Only the provider
can count tokens exactly. The numbers of the layers are estimates at the ratio learned from its last count.

The module also keeps the ledger of the prompt prefix: content that was sent is sent again unchanged.
Providers cache prompts from the front, so one changed byte early in a request makes the rest expensive. Each
frame (a serialised message) is therefore made exactly once. A request is the same frames as before plus new
ones at the end. A change to earlier frames must be declared as a break; an undeclared one is a bug, and is
detected here.

Cache marks tell a provider where its cached prefix should end. They move with every request and are not
compared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent.core.messages import Message
from agent.core.store.nodes import Node
from agent.core.store.stored_path import iterate
from agent.knowledge.context.layer import Part
from agent.knowledge.context.message_history import MessageHistory, conversation, masked_nodes, sent_from
from agent.knowledge.context.quarantine import KeptPassage, passages_of
from agent.model.protocol import THOUGHT, Frame, ToolSpec
from agent.model.wire_format import Wire
from tools.text.words import plural


@dataclass(frozen=True, slots=True)
class Break:
    """A point at which the next request does not begin with the previous one. Undeclared, it is a bug."""

    reason: str
    declared: bool


@dataclass(frozen=True, slots=True)
class Sending:
    """The content of the next request."""

    frames: tuple[Frame, ...]
    marks: tuple[int, ...]
    """Cache marks as positions in `frames`, ascending: at most three, since the prompt has one of four."""
    broken: Break | None
    """The break from the previous request; None if there is none."""


class PrefixLedger:
    """The frames of one conversation, in the form in which one model receives them."""

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._sent: tuple[Frame, ...] = ()
        self._sent_head = b""
        self._left_out = ""
        self._hasher = hashlib.sha256()
        self._hashed = 0
        self._declared: str | None = None

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def size(self) -> int:
        """The total size of all frames in bytes."""
        return sum(map(len, self._frames))

    @property
    def digest(self) -> str:
        """The SHA-256 of the frames of the last request, in hex."""
        # Only now: hashing a frame with an image takes too long for the way of a request.
        for frame in self._sent[self._hashed :]:
            self._hasher.update(frame.data)
        self._hashed = len(self._sent)
        return self._hasher.hexdigest()

    def extend(self, frames: Iterable[Frame]) -> None:
        """Append frames to the conversation."""
        self._frames.extend(frames)

    def rewrite(self, frames: Iterable[Frame], reason: str) -> None:
        """Replace the conversation: a declared break with this `reason`."""
        self._frames = list(frames)
        self._declared = reason

    def send(self, head: bytes = b"", *, without: str = "", reason: str = "", marked: bool = True) -> Sending:
        """Return the frames of the next request after `head` (tools and system prompt), with marks if
        `marked`.

        Frames of the kind `without` are left out. To start or stop leaving them out is a break, declared by
        `reason`.

        Frames are compared with those of the last request, so undeclared changes are found. They are usually
        the same objects, which makes it cheap.
        """
        frames = tuple(self._frames)
        if without:
            frames = tuple(frame for frame in frames if frame.kind != without)
        kept = frames[: len(self._sent)] == self._sent and (head == self._sent_head or not self._sent)
        broken: Break | None = None
        if not kept:
            if self._declared is None and without != self._left_out:
                self._declared = reason
            broken = Break(
                self._declared or "the prompt prefix changed without a reason", self._declared is not None
            )
            self._hasher = hashlib.sha256()
            self._hashed = 0
        marks = cache_marks(self._frames, len(self._sent) if kept else 0, without) if marked else ()
        self._sent, self._sent_head, self._left_out = frames, head, without
        self._declared = None
        return Sending(frames, marks, broken)


def cache_marks(frames: Sequence[Frame], sent: int = 0, without: str = "") -> tuple[int, ...]:
    """Return the indexes of the frames at which the provider's cached prefixes should end, ascending.

    The newest frame is one, so that the next request finds all of this request in the cache. Another is the
    last frame of the request that the model last answered. It is needed after another model or process
    continued the conversation.

    Requests with and without thoughts have separate caches, so the last request of this form counts as well
    as the last one of all. `sent` is the number of frames in the last request of this process, which may have
    had no answer.
    """
    newest = len(frames) - sum(frame.kind == without for frame in frames if without) - 1
    if newest < 0:
        return ()
    places, last, position = {newest}, sent - 1, newest
    for at in range(len(frames) - 1, 0, -1):
        frame = frames[at]
        position -= not without or frame.kind != without
        if frame.own and not frames[at - 1].own:
            last = max(last, position)
            if (frame.kind == THOUGHT) is not bool(without):
                places.add(position)
                break
    places.add(last)
    return tuple(sorted(place for place in places if place >= 0))


KEY = "project_files"
"""The key for instruction files of folders, in a tool result and in the data of its node."""


def in_view(path: Sequence[Node]) -> frozenset[Path]:
    """Return the folders whose instruction files are in a tool result that is still sent in full."""
    return frozenset(Path(about["folder"]) for _node, abouts in folders_shown(path) for about in abouts)


def folders_shown(path: Sequence[Node]) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Yield the node id of each tool result still sent in full that includes instruction files of folders,
    with a record of each file.
    """
    masked = masked_nodes(path)
    for node in iterate(path, "tool", start=sent_from(path)):
        kept = node.data.get(KEY)
        if node.id not in masked and isinstance(kept, list):
            abouts = [each for each in kept if isinstance(each, Mapping) and _is_whole(each)]
            if abouts:
                yield node.id, abouts


def _is_whole(about: Mapping[str, Any]) -> bool:
    kinds = {"folder": str, "name": str, "chars": int}
    return all(isinstance(about.get(name), kind) for name, kind in kinds.items())


TOOLS = "Tools on offer"
SYSTEM = "System prompt"
"""Name of a prompt that was stored without its parts."""

SEARCHED = "Tools by search"

NAMED = 3
"""The maximum number of left-out entries that a note names."""

CONVERSATION: tuple[str, ...] = ("Your messages", "Answers and calls", "Tool results", "Notes")
"""The layers of the conversation."""


@dataclass(frozen=True, slots=True)
class ContextLayer:
    """One kind of content in the model's window, with its tokens."""

    name: str
    tokens: int
    """The estimated number of tokens."""
    count: int = 1
    """The number of messages, tools or texts it is made of."""
    source: str = ""
    """The file it was read from; empty if there is none."""
    notes: tuple[str, ...] = ()
    """Notes, for example that a part was left out."""
    budget: int | None = None
    """The token budget that it shares with the other parts of its layer; None: unlimited."""
    digest: str = ""
    """The SHA-256 of its text, in hex; empty for content that changes with each message."""
    passages: tuple[KeptPassage, ...] = ()
    """Passages kept back because they read like an order to an agent."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Usage totals of the whole session. None means unknown."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    """Input tokens read from the provider's cache, included in `input`."""
    cost: float | None = None
    """The cost in US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTable:
    """The model's window, and the layers of its content."""

    model: str
    layers: tuple[ContextLayer, ...]
    """The layers in the order in which they are sent."""
    searched: ContextLayer | None = None
    """Tools found by search and absent from requests, with the tokens they would cost; None without any."""
    window: int | None
    """The number of tokens that the model can read and write in all; None if unknown."""
    window_told: bool = False
    """Whether the server reported the window."""
    counted: int | None
    """Tokens of the last request as its provider counted them; None if it did not."""
    totals: Totals
    breaks: tuple[Break, ...]
    """Why the provider's cache started over, oldest first."""

    @property
    def used_tokens(self) -> int:
        """The estimated tokens of all layers."""
        return sum(layer.tokens for layer in self.layers)

    @property
    def free(self) -> int | None:
        """The estimated tokens still free; None if the size of the window is unknown."""
        return None if self.window is None else max(self.window - self.used_tokens, 0)


@dataclass(frozen=True, slots=True)
class Sent:
    """The wire format of requests to the model, and the tools and examples sent with the conversation."""

    wire: Wire
    tools: tuple[ToolSpec, ...] = ()
    examples: tuple[Message, ...] = ()
    searched: tuple[ToolSpec, ...] = ()
    """The tools that must be searched for, which requests do not contain."""


def part_records(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Return the record of the prompt's parts for a system node; `build_table` reads it."""
    return [
        {
            "name": part.name,
            "layer": part.layer,
            "chars": len(part.text),
            "source": part.source,
            "truncated": part.truncated,
            "budget": part.budget,
            "left_out": list(part.left_out),
            "notes": list(part.notes),
            "passages": [each.data() for each in part.passages],
            "sha256": sha256(part.text.encode("utf-8", "replace")).hexdigest(),
        }
        for part in parts
    ]


def build_table(
    path: Sequence[Node],
    sent: Sent,
    *,
    model: str,
    window: int | None,
    window_told: bool = False,
    ratio: float,
    used: Mapping[str, int | float | None],
    breaks: Sequence[Break] = (),
) -> ContextTable:
    """Return the table of a path from root to head. Pure; takes as long as serialising the conversation.

    `ratio` is in bytes per token, `used` comes from `Meter.totals`. `breaks` are those of this process,
    because the path does not contain all of them.
    """
    system = next((node for node in reversed(path) if node.kind == "system"), None)
    sizes = [*_prompt_sizes(system, sent), *_conversation_sizes(path, sent.wire)]
    layers = tuple(_with_tokens(layer, size, ratio) for layer, size in sizes if size)
    searched = ContextLayer(SEARCHED, 0, len(sent.searched))
    return ContextTable(
        model=model,
        layers=layers,
        searched=_with_tokens(searched, _tool_size(sent.wire, sent.searched), ratio)
        if searched.count
        else None,
        window=window,
        window_told=window_told,
        counted=_last_count(path),
        totals=_totals(used),
        breaks=(*_stored_breaks(path), *(each for each in breaks if not _is_stored(each, path))),
    )


_Sized = tuple[ContextLayer, int]
"""A layer whose tokens are still to be counted, and its bytes."""


def _with_tokens(layer: ContextLayer, size: int, ratio: float) -> ContextLayer:
    return replace(layer, tokens=math.ceil(size / ratio))


def _prompt_sizes(system: Node | None, sent: Sent) -> list[_Sized]:
    """Return the prompt parts, the tools and the worked examples, each with its size in bytes."""
    wire = sent.wire
    text = system.content if system is not None else ""
    plain = len(wire.format.system(text))
    tools = _tool_size(wire, sent.tools, text)
    framer = wire.framer()
    examples = sum(len(frame) for message in sent.examples for frame in framer.frames(message))
    return [
        *_part_sizes(system, plain),
        (ContextLayer(TOOLS, 0, len(sent.tools)), tools),
        (ContextLayer("Worked examples", 0, len(sent.examples)), examples),
    ]


def _tool_size(wire: Wire, tools: Sequence[ToolSpec], prompt: str = "") -> int:
    """Return the bytes that tools add to a request. Modes without a field for them use the prompt."""
    described = len(wire.system(prompt, tools)) - len(wire.format.system(prompt))
    return len(wire.tools(tools)) + max(described, 0)


def _part_sizes(system: Node | None, size: int) -> list[_Sized]:
    """Return the parts recorded in the node, with their shares of `size` bytes."""
    if system is None or not system.content:
        return []
    parts = system.data.get("parts") or [{"name": SYSTEM, "chars": len(system.content)}]
    whole = sum(part["chars"] for part in parts) or 1
    sized = []
    for part in parts:
        sized.append((_part_layer(part), round(size * part["chars"] / whole)))
    return sized


def _part_layer(part: Mapping[str, Any]) -> ContextLayer:
    """Return the layer of a recorded part, with no token count yet."""
    return ContextLayer(
        str(part["name"]),
        0,
        1,
        str(part.get("source", "")),
        _part_notes(part),
        budget=part.get("budget"),
        digest=str(part.get("sha256", "")),
        passages=passages_of(part.get("passages")),
    )


def _part_notes(part: Mapping[str, Any]) -> tuple[str, ...]:
    """Return notes on changes that were made to a part of the prompt."""
    notes = [str(note) for note in part.get("notes", ())]
    if part.get("truncated"):
        notes.append("shortened: its middle is left out")
    if left := part.get("left_out"):
        named = ", ".join(f"“{each}”" for each in left[:NAMED])
        notes.append(f"{len(left)} left out for want of room: {named}{' …' if len(left) > NAMED else ''}")
    return tuple(notes)


def _conversation_sizes(path: Sequence[Node], wire: Wire) -> list[_Sized]:
    kinds = {node.id: node.kind for node in path}
    reached = dict(folders_shown(path))
    folders: list[_Sized] = []
    sizes = dict.fromkeys(CONVERSATION, 0)
    counts = dict.fromkeys(CONVERSATION, 0)
    framer = wire.framer()
    for turned in conversation(path):
        name = _kind(turned, kinds)
        size = sum(map(len, framer.frames(turned.message)))
        for about in reached.get(turned.node, ()):
            part = round(size * about["chars"] / max(len(turned.message.content), 1))
            folders.append((_part_layer(about), part))
            size -= part
        sizes[name] += size
        counts[name] += 1
    said = [
        (ContextLayer(name, 0, counts[name], notes=_made_room(name, path)), sizes[name]) for name in sizes
    ]
    return [*folders, *said]


def _kind(turned: MessageHistory, kinds: Mapping[int, str]) -> str:
    match turned.message.role:
        case "assistant":
            return "Answers and calls"
        case "tool":
            return "Tool results"
        case _:
            return "Your messages" if kinds.get(turned.node) == "user" else "Notes"


def _made_room(name: str, path: Sequence[Node]) -> tuple[str, ...]:
    """Return notes about the content that compactions removed from a layer of the conversation."""
    compactions = [node.data for node in path if node.kind == "compaction"]
    if name == "Tool results":
        masked = {number for data in compactions for number in data.get("nodes", ())}
        count = sum(node.id in masked for node in path if node.kind == "tool")
        return (f"{count} masked to make room",) if count else ()
    if name == "Notes":
        start = max((data.get("from", 0) for data in compactions), default=0)
        count = sum(node.kind in ("user", "assistant", "tool") for node in path if node.id < start)
        return (f"{plural(count, 'earlier message')} left out",) if count else ()
    return ()


def _last_count(path: Sequence[Node]) -> int | None:
    node = next((node for node in reversed(path) if node.kind == "assistant"), None)
    usage = node.data.get("usage") if node is not None else None
    count = usage.get("input") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and count > 0 else None


def _totals(used: Mapping[str, int | float | None]) -> Totals:
    whole = {name: int(used.get(name) or 0) for name in ("requests", "input", "output", "cached")}
    return Totals(**whole, cost=used.get("cost"))


def _stored_breaks(path: Sequence[Node]) -> list[Break]:
    """Return the breaks that compactions, new prompts and model changes caused, in order."""
    found: list[Break] = []
    prompted, model = False, ""
    for node in path:
        if node.kind == "compaction":
            found.append(Break(node.content, True))
        elif node.kind == "system":
            if prompted:
                found.append(Break("The prompt or the tools changed.", True))
            prompted = True
        elif node.kind == "assistant" and (name := str(node.data.get("model", ""))):
            if model and name != model:
                found.append(Break(f"Another model took over: {name}.", True))
            model = name
    return found


def _is_stored(one: Break, path: Sequence[Node]) -> bool:
    return any(node.kind == "compaction" and node.content == one.reason for node in path)
