"""The table of the content of the model's window, layer by layer.

It is derived only from the stored path, so it can be made at any time, even during a turn. Only the provider
can count tokens exactly. The numbers of the layers are estimates at the ratio learned from its last count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent.core.messages import Message
from agent.core.store.nodes import Node
from agent.core.store.stored_path import iterate
from agent.knowledge.context.layer import Part
from agent.knowledge.context.message_history import MessageHistory, conversation, masked_nodes, sent_from
from agent.knowledge.context.prefix_ledger import Break
from agent.knowledge.context.quarantine import KeptPassage, passages_of
from agent.model.protocol import ToolSpec
from agent.model.wire_format import Wire

KEY = "project_files"
"""The key of folder files in a result, and in its node."""


def in_view(path: Sequence[Node]) -> frozenset[Path]:
    """Return the folders whose project files are in a result that is still sent in full."""
    return frozenset(Path(about["folder"]) for _node, abouts in folders_shown(path) for about in abouts)


def folders_shown(path: Sequence[Node]) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Yield each result that holds folder files and is still sent in full: its node id and a record of each
    file.
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
"""The number of left-out entries that are named."""

CONVERSATION: tuple[str, ...] = ("Your messages", "Answers and calls", "Tool results", "Notes")
"""The layers of the conversation."""


@dataclass(frozen=True, slots=True)
class ContextLayer:
    """One kind of content in the model's window, with its tokens."""

    name: str
    tokens: int
    """Estimated."""
    count: int = 1
    """Messages, tools or texts it is made of."""
    source: str = ""
    """The file it was read from; empty if there is none."""
    notes: tuple[str, ...] = ()
    """Notes such as that a part was left out."""
    budget: int | None = None
    """Tokens shared with the other parts of its layer; None: unlimited."""
    digest: str = ""
    """SHA-256 of its text, in hex; empty for what changes with each message."""
    passages: tuple[KeptPassage, ...] = ()
    """Passages kept back because they read like an order to an agent."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Usage totals of the whole session. None means unknown."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    """Part of `input`."""
    cost: float | None = None
    """US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTable:
    """The model's window, and the layers of its content."""

    model: str
    layers: tuple[ContextLayer, ...]
    """In the order they are sent."""
    searched: ContextLayer | None = None
    """The tools that requests do not show, with what they would cost; None without any."""
    window: int | None
    """Tokens the model can read and write in all; None is unknown."""
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
    """Tools that requests do not show."""


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
    """Return the sizes of the prompt parts, the tools and the worked examples."""
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
    """Return the bytes of tools in a request. Modes without a field for tools describe them in the prompt."""
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
        return (f"{count} earlier messages are left out",) if count else ()
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
    """Return compactions, new prompts and model changes, in order."""
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
