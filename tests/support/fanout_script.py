"""What the model says in a fan-out that may be cut off anywhere, and what that took.

The session's agent sends agents into copies, one that sends others, and some into the
background. What each says follows from its conversation alone, so a conversation that continues
gets the answer it needs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from agent.session.subagents.scheduler import CONTINUE
from tests.support.replies import Reply, call, say, usage_of
from tests.support.team import MAIN, report, task_of

GO_ON = "Go on."
OVER = "Everything is done."
COPIES, LEAVES, LATER = ("copy-a", "copy-b"), ("leaf-1", "leaf-2"), ("later-1", "later-2")


@dataclass(slots=True)
class Given:
    """What the server gave: tokens by the goal of whoever asked."""

    chance: Random
    tokens: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: Any) -> Reply:
        goal = task_of(request)
        reply = replace(_answer(goal, request), delay=self.chance.uniform(0, 0.06), pace=0.004)
        self.requests[goal] += 1
        self.tokens[goal] += (usage_of(reply, len(request.raw)) or {})["total_tokens"]
        return reply


def _answer(goal: str, request: Any) -> Reply:
    made = list(_calls(request))
    lasting = [each for each in made if "Interrupted" not in each[1]]
    if goal == MAIN:
        told = _recovery(request)
        return _sending(len(lasting)) if told is None else told
    if goal == "nest":
        return _recovery(request) or _nesting(lasting)
    steps = [
        call("write_file", path=f"{goal}-1.txt", content=f"{goal} one\n"),
        call("todo_write", todos=[{"id": "1", "content": goal, "status": "in_progress"}]),
        call("write_file", path=f"{goal}-2.txt", content=f"{goal} two\n"),
        say(report(f"{goal} " + "word " * 40)),
    ]
    return steps[min(len(lasting), 3)]


def _sending(done: int) -> Reply:
    first = [{"goal": goal, "isolation": "copy"} for goal in COPIES] + [{"goal": "nest"}]
    steps = [
        call("delegate_task", tasks=[{"goal": goal} for goal in LATER], background=True),
        call("delegate_task", tasks=first),
        call("subagents", action="wait"),
        say(OVER),
    ]
    return steps[min(done, 3)]


def _nesting(lasting: list[tuple[str, str]]) -> Reply:
    if any(name == "delegate_task" for name, _ in lasting):
        return say(report("Both leaves are done. " + "word " * 20))
    if any('"goal"' in result for _, result in lasting):
        return say(report("Both leaves went on and are done."))
    return call("delegate_task", tasks=[{"goal": goal} for goal in LEAVES])


def _recovery(request: Any) -> Reply | None:
    """What one says that was told to continue, having let those continue that it sent. None: as ever."""
    told = [
        place
        for place, message in enumerate(request.messages)
        if message["role"] == "user" and any(each in str(message["content"]) for each in (GO_ON, CONTINUE))
    ]
    if not told:
        return None
    made = list(_calls(request, since=told[-1]))
    if not made:
        return call("subagents", action="list")
    cut = [
        agent["id"]
        for agent in json.loads(made[0][1]).get("agents", ())
        if agent["state"] == "interrupted" and (task_of(request) != MAIN or agent["goal"] not in LEAVES)
    ]
    if len(made) <= len(cut):
        return call("subagents", action="resume", id=cut[len(made) - 1])
    if cut and len(made) == len(cut) + 1:
        return call("subagents", action="wait")
    return say(OVER) if task_of(request) == MAIN else None


def _calls(request: Any, since: int = 0) -> Iterator[tuple[str, str]]:
    """Calls that have a result, by name, in order."""
    names = {
        made["id"]: made["function"]["name"]
        for message in request.messages
        for made in message.get("tool_calls") or ()
    }
    for message in request.messages[since:]:
        if message["role"] == "tool":
            yield names[message["tool_call_id"]], str(message["content"])
