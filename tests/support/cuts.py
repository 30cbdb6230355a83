"""Streams broken off at any byte, and whether the session behind them can continue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent.session.engine import Engine
from tests.support.engines import Bench
from tests.support.faults import FAULTS
from tests.support.replies import Reply, calls, say

BASE = calls(
    ("todo_read", {}),
    ("search", {"pattern": "ä“quoted”"}),
    text="Let me look — at “both”.",
    reasoning="Think first. 思考",
)
"""A reply with everything in it: reasoning, text outside ASCII, two calls."""


@dataclass
class Broken:
    """A scripted model: the first answer of each turn is the broken one, all later ones are whole."""

    reply: Reply = BASE

    def __call__(self, request: Any) -> Reply:
        last = request.messages[-1]
        if last["role"] == "user" and last["content"].startswith("break"):
            return self.reply
        return say("Whole again.")


def positions(step: int, length: int = 4_000) -> Iterator[int]:
    """Byte offsets to cut at; offsets behind the end leave the stream whole."""
    yield from range(0, length, step)


async def survives(bench: Bench, engine: Engine, script: Broken, reply: Reply) -> str:
    """Run a turn on a broken reply, then a plain one. Returns what is wrong, or an empty text."""
    script.reply = reply
    refused = len(bench.server.refusals)
    ended = await engine.run("break")
    if ended.outcome not in ("done", "failed"):
        return f"the broken turn ended as {ended.outcome}"
    if ended.outcome == "failed" and (not ended.error or "Internal error" in ended.error):
        return f"the failure is not explained: {ended.error!r}"
    after = await engine.run("and now?")
    if (after.outcome, after.text) != ("done", "Whole again."):
        return f"the next turn ended as {after.outcome}: {after.text!r} {after.error!r}"
    if len(bench.server.refusals) > refused:
        return f"the server refused: {bench.server.refusals[-1]}"
    return ""


def cut(fault: str, at: int, how: Literal["fin", "rst", "clean"]) -> Reply:
    """The base reply with a fault, cut off at a byte."""
    return replace(FAULTS[fault](BASE), cut_at=at, cut=how)
