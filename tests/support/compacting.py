"""A session that is compacted again and again, with a model that knows nothing but what it is sent."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.model_server import Recorded, Reply, call, say

ASKED_TO_CONDENSE = "You condense the record"

SUMMARY = """\
## Goal
Get the orders right.
## Constraints
As the user said.
## Decisions
- Rounding is done in src/file_{number}.py, because that is where money is made.
## Files
src/file_{number}.py was read.
## Open
Nothing is broken.
## Next
Continue with what the user asks."""


def condenses(request: Recorded) -> bool:
    """Whether a request asks for a summary."""
    return ASKED_TO_CONDENSE in json.dumps(request.messages[0])


def said_in(request: Recorded) -> str:
    """Everything a request holds, as text."""
    return "\n".join(str(message.get("content", "")) for message in request.messages)


def instructions(count: int, seed: int) -> list[str]:
    """Things a person wants kept, each its own words."""
    chance = random.Random(seed)
    verbs = (
        "never use",
        "always use",
        "prefer",
        "do not touch",
        "rename nothing in",
        "ask before you change",
    )
    things = (
        "tabs",
        "the vendored folder",
        "`print`",
        "the 'legacy' module",
        "float for money",
        "global state",
    )
    return [
        f"Rule {number}: {chance.choice(verbs)} {chance.choice(things)}, ünï {chance.getrandbits(40):x}."
        for number in range(count)
    ]


@dataclass
class Worker:
    """A model that reads the file a message names unless its lines are before it, and then answers.

    `summary` gives the answer to a request for a summary, by its number.
    """

    summary: Callable[[int], Reply] = lambda number: say(SUMMARY.format(number=number % 6))
    reads: list[str] = field(default_factory=list)
    asked: list[Recorded] = field(default_factory=list)
    """Requests of the conversation itself."""
    summaries: int = 0

    def __call__(self, request: Recorded) -> Reply:
        if condenses(request):
            self.summaries += 1
            return self.summary(self.summaries - 1)
        self.asked.append(request)
        last = request.messages[-1]
        if last["role"] == "tool" and "seq" in json.dumps(request.messages[-2]):
            return say("Looked at it; the rounding is as it should be. " + "Details follow. " * 60)
        wanted = re.findall(r"Look at (src/file_\d+\.py)", said_in(request))
        if wanted and f"1|# {wanted[-1]}" not in said_in(request):
            self.reads.append(wanted[-1])
            return call("read_file", path=wanted[-1])
        first = 1_000 * len(self.asked)
        return call("terminal", command=f"seq {first} {first + 700}")


def spread(rules: Sequence[str], turns: int, seed: int) -> list[list[str]]:
    """The rules over so many messages, at random."""
    chance = random.Random(seed)
    placed: list[list[str]] = [[] for _ in range(turns)]
    for rule in rules:
        placed[chance.randrange(turns)].append(rule)
    return placed


def tokens_of(request: Recorded) -> int:
    """Tokens of a request, at four bytes each."""
    return len(request.raw) // 4


def sizes(worker: Worker) -> list[int]:
    return [tokens_of(each) for each in worker.asked]


Script = Callable[[Any], Reply]
