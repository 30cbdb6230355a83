"""How faults are made: an answer goes in, one that goes wrong on its way comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.support.replies import Edit, Payload, Reply, refuse


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    effect: str
    change: Callable[[Reply], Reply]

    def __call__(self, reply: Reply) -> Reply:
        return self.change(reply)


Change = Callable[[Reply], Reply]


def sent(**fields: Any) -> Change:
    return lambda reply: replace(reply, **fields)


def wire(**fields: Any) -> Change:
    return lambda reply: replace(reply, wire=replace(reply.wire, **fields))


def edited(edit: Edit) -> Change:
    return lambda reply: replace(reply, edits=(*reply.edits, edit))


def choices_of(payload: Payload) -> list[dict[str, Any]]:
    """The choices of a chunk that have a delta, also when other faults were there before."""
    if isinstance(payload, str):
        return []
    choices = payload.get("choices") or []
    return [
        choice for choice in choices if isinstance(choice, dict) and isinstance(choice.get("delta"), dict)
    ]


def each_chunk(change: Callable[[dict[str, Any]], Iterable[Payload] | None]) -> Change:
    """Every chunk is changed in place, or replaced by what `change` returns."""

    def edit(payloads: list[Payload]) -> list[Payload]:
        edited: list[Payload] = []
        for payload in payloads:
            instead = change(payload) if isinstance(payload, dict) else None
            edited += [payload] if instead is None else instead
        return edited

    return edited(edit)


def each_fragment(change: Callable[[dict[str, Any]], None]) -> Change:
    """Every piece of a tool call is changed in place."""

    def per_chunk(chunk: dict[str, Any]) -> None:
        for choice in choices_of(chunk):
            for fragment in choice["delta"].get("tool_calls") or ():
                change(fragment)

    return each_chunk(per_chunk)


def raw(
    content_type: str, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Change:
    return lambda _reply: Reply(status=status, headers=headers or {}, content_type=content_type, body=body)


def refusal(status: int, message: str, **fields: Any) -> Change:
    return lambda _reply: refuse(status, message, **fields)


def insert(position: int, *extra: Payload) -> Edit:
    """Puts events into the stream; a negative position counts from the end."""

    def edit(payloads: list[Payload]) -> list[Payload]:
        at = position if position >= 0 else max(0, len(payloads) + position)
        return [*payloads[:at], *extra, *payloads[at:]]

    return edit
