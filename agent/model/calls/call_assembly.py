"""Assembly of tool calls from the pieces that a provider streams.

Providers number the pieces, or do not, or number all with 0. They send the id once, in every piece, or never.
They repeat the name, split it, or send a longer part each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.core.messages import ToolCall
from agent.model.calls.repair import TRUNCATED, repair_arguments, repair_name, without_surrogates
from agent.model.protocol import CallFragment, ToolSpec

NewId = Callable[[], str]

CUT_OFF = (
    "The arguments of this call were cut off before their end, so it was not run. "
    "Send it again in full; split a long one into smaller calls."
)
NO_NAME = "This call named no tool, so nothing was run. Send it again with the name of a tool on offer."
UNNAMED = "unnamed"
"""The name in the conversation of a call that has no name."""


class JsonShape:
    """A check of whether JSON text that arrives in pieces is complete, without parsing it repeatedly."""

    _TOKEN = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)

    def __init__(self) -> None:
        self.begun = False
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def feed(self, text: str) -> None:
        self.begun = self.begun or bool(text.strip())
        start = 1 if self._escaped else 0
        self._escaped = False
        for token in self._TOKEN.finditer(text, start):
            found = token.group()
            if found[0] == "\\":
                self._escaped = self._quoted and len(found) == 1
            elif found == '"':
                self._quoted = not self._quoted
            elif not self._quoted:
                self._depth += 1 if found in "{[" else -1

    @property
    def open(self) -> bool:
        """True if a string, an object or an array is not closed yet."""
        return self._quoted or self._depth > 0

    @property
    def complete(self) -> bool:
        return self.begun and not self.open


@dataclass(slots=True)
class _Slot:
    """The parts of one call that have arrived so far."""

    number: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    shape: JsonShape = field(default_factory=JsonShape)


@dataclass(frozen=True, slots=True)
class Assembled:
    """The finished calls, and short texts on repairs to them.

    `broken` holds, by call id, a sentence for each call that must not run.
    """

    calls: tuple[ToolCall, ...]
    broken: dict[str, str]
    repairs: tuple[str, ...]


class CallAssembler:
    """A collector of the pieces of all calls in one reply."""

    def __init__(self, tools: Sequence[ToolSpec], new_id: NewId) -> None:
        self._offered = tuple(tool.name for tool in tools)
        self._new_id = new_id
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}

    def __bool__(self) -> bool:
        return any(slot.name or slot.shape.begun for slot in self._slots)

    def add(self, fragment: CallFragment) -> CallFragment:
        """Add a piece. Return it with the position, id and name of its call filled in, for display."""
        arguments = _as_text(fragment.arguments)
        slot = self._slot(fragment, arguments)
        slot.id = slot.id or fragment.id
        slot.name = self._joined_name(slot, fragment.name)
        if arguments:
            slot.pieces.append(arguments)
            slot.shape.feed(arguments)
        return CallFragment(slot.number, slot.id, slot.name, arguments)

    def finish(self) -> Assembled:
        """Return the calls in their order, with unique ids and JSON objects as arguments, together with the
        repairs made and the calls that must not run.
        """
        calls: list[ToolCall] = []
        broken: dict[str, str] = {}
        repairs: list[str] = []
        taken: set[str] = set()
        for slot in self._slots:
            raw = "".join(slot.pieces)
            if not slot.name and not raw.strip():
                continue
            call_id = _unique_id(slot.id, taken, self._new_id)
            name = repair_name(slot.name, self._offered) or slot.name.strip()
            if name != slot.name:
                repairs.append(f"The tool name {slot.name!r} was read as {name!r}.")
            arguments, fault, repair = mended_arguments(raw)
            if fault and _is_growing(slot.pieces):
                arguments, fault, repair = mended_arguments(slot.pieces[-1])
            if repair:
                repairs.append(f"{name}: repaired in the arguments: {repair}.")
            if fault or not name:
                broken[call_id] = fault or NO_NAME
            calls.append(ToolCall(call_id, without_surrogates(name) or UNNAMED, arguments))
        return Assembled(tuple(calls), broken, tuple(repairs))

    def _slot(self, fragment: CallFragment, arguments: str) -> _Slot:
        slot = self._slot_of(fragment)
        if slot is None or self._begins_another(slot, fragment, arguments):
            slot = _Slot(len(self._slots))
            self._slots.append(slot)
        if fragment.index >= 0:
            self._by_index[fragment.index] = slot
        return slot

    def _slot_of(self, fragment: CallFragment) -> _Slot | None:
        """Return the call that a piece seems to continue; None if it continues none.

        The call is found by index or by id; without either, it is the newest call.
        """
        if fragment.index >= 0:
            return self._by_index.get(fragment.index)
        if fragment.id:
            same = (slot for slot in reversed(self._slots) if slot.id == fragment.id)
            newest = self._slots[-1:]
            return next(same, None) or next((slot for slot in newest if not slot.id), None)
        return self._slots[-1] if self._slots else None

    def _begins_another(self, slot: _Slot, fragment: CallFragment, arguments: str) -> bool:
        """Return whether a piece that seems to continue `slot` actually begins another call."""
        if not fragment.name or not slot.name or slot.shape.open:
            return False
        if fragment.id and slot.id:
            return fragment.id != slot.id
        if fragment.name == slot.name:
            return slot.shape.complete and bool(arguments.strip())
        return slot.shape.complete or {fragment.name, slot.name} <= set(self._offered)

    def _joined_name(self, slot: _Slot, piece: str) -> str:
        """Return the name of a call after one more piece, which repeats, extends or continues it."""
        if not piece or piece == slot.name:
            return slot.name
        if not slot.name or piece.startswith(slot.name):
            return piece
        complete = slot.name in self._offered and slot.name + piece not in self._offered
        return slot.name if complete or slot.shape.begun else slot.name + piece


def _unique_id(given: str, taken: set[str], new_id: NewId) -> str:
    """Return `given`, or a new id if it is empty or already used; add the id to `taken`."""
    call_id = without_surrogates(given).strip()
    while not call_id or call_id in taken:
        call_id = new_id()
    taken.add(call_id)
    return call_id


def mended_arguments(raw: str) -> tuple[str, str, str]:
    """Return arguments as the text of a JSON object, the reason if the call must not run, and the repairs.

    The last two are empty for valid arguments.
    """
    arguments, reason = repair_arguments(raw)
    if arguments is None:
        return "{}", f"{reason} Nothing was run.", ""
    if reason == TRUNCATED:
        return "{}", CUT_OFF, ""
    return arguments, "", reason


def _is_growing(pieces: Sequence[str]) -> bool:
    """Return whether each piece begins with the one before: some gateways send all arguments so far."""
    return len(pieces) > 1 and all(map(str.startswith, pieces[1:], pieces))


def _as_text(arguments: Any) -> str:
    """Return arguments as text; some servers send them as an object instead."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False, default=str)
