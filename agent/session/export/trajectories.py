"""Export of a branch for training and evaluation: messages for fine-tuning, or an ATIF trajectory.

ATIF is the Agent Trajectory Interchange Format, version 1.8. The given nodes have their secrets masked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from agent.core.store.export import is_complete, said_to_model, value_of
from agent.core.store.nodes import Node, Session, calls_of
from tools.registry import Registry
from tools.text.words import plural

ATIF = "ATIF-v1.8"


def openai_messages(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return a record for fine-tuning: `messages`, each call followed by its result.

    Omits nodes that were only shown to the user, and calls without a result. Messages sent while calls were
    running are placed after the results.
    """
    messages: list[dict[str, Any]] = []
    for place, node in enumerate(nodes):
        if node.kind == "assistant":
            results = _results(nodes[place + 1 :])
            calls = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["arguments"]},
                }
                for call in _calls(node)
                if call["id"] in results
            ]
            if calls or node.content:
                said = {"role": "assistant", "content": node.content or None}
                messages.append(said | ({"tool_calls": calls} if calls else {}))
            made = {call["id"] for call in calls}
            messages += [
                {"role": "tool", "tool_call_id": call, "content": content}
                for call, content in results.items()
                if call in made
            ]
        elif (role := _role(node)) is not None:
            messages.append({"role": role, "content": said_to_model(node)})
    return {"messages": messages}


def called_tools(nodes: Sequence[Node], tools: Registry) -> list[dict[str, Any]]:
    """Return the definitions of the tools that a branch calls, in the form used in model requests.

    Tools that are not part of Hermes, such as those of an MCP server, are described by the arguments of their
    calls.
    """
    called: dict[str, set[str]] = {}
    for node in nodes:
        for call in _calls(node) if node.kind == "assistant" else ():
            called.setdefault(str(call["name"]), set()).update(_argument_names(call))
    known = {each["name"]: each for each in tools.definitions(called)}
    functions = [known.get(name) or _plain_function(name, called[name]) for name in sorted(called)]
    return [{"type": "function", "function": each} for each in functions]


def _argument_names(call: Mapping[str, Any]) -> set[str]:
    try:
        given = json.loads(call["arguments"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return set()
    return set(map(str, given)) if isinstance(given, dict) else set()


def _plain_function(name: str, arguments: Collection[str]) -> dict[str, Any]:
    return {
        "name": name,
        "parameters": {"type": "object", "properties": {each: {} for each in sorted(arguments)}},
    }


def _results(nodes: Sequence[Node]) -> dict[str, str]:
    """Return the results before the model's next answer, by call id. Later ones are left out, because later
    answers may reuse the ids.
    """
    found: dict[str, str] = {}
    for node in nodes:
        if node.kind == "assistant":
            break
        if node.kind == "tool":
            found.setdefault(str(node.data.get("call", "")), node.content)
    return found


def atif_trajectory(session: Session, nodes: Sequence[Node], version: str) -> dict[str, Any]:
    """Return the branch as one ATIF trajectory. `version` is the version of this program."""
    steps: list[dict[str, Any]] = []
    totals: Counter[str] = Counter()
    for node in nodes:
        if node.kind == "tool":
            _observe(steps, node)
            continue
        step = _step(node)
        if step is None:
            continue
        steps.append({"step_id": len(steps) + 1, "timestamp": _time(node.created), **step})
        totals.update({name: count for name, count in step.get("metrics", {}).items() if count})
    return {
        "schema_version": ATIF,
        "session_id": session.id,
        "agent": {"name": "hermes", "version": version, "model_name": session.model or None},
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": totals["prompt_tokens"],
            "total_completion_tokens": totals["completion_tokens"],
            "total_cached_tokens": totals["cached_tokens"],
            "total_steps": len(steps),
        },
    }


def tool_statistics(nodes: Sequence[Node]) -> dict[str, dict[str, int]]:
    """Return the number of calls of each tool, under `calls`, and the number of each of their outcomes."""
    found: dict[str, Counter[str]] = {}
    for node in nodes:
        if node.kind == "tool":
            counts = found.setdefault(str(node.data.get("tool", "")), Counter())
            counts.update(["calls", str(node.data.get("outcome", "done"))])
    return {name: dict(counts) for name, counts in sorted(found.items())}


def _step(node: Node) -> dict[str, Any] | None:
    if node.kind == "assistant":
        return _agent_step(node)
    role = _role(node)
    return None if role is None else {"source": role, "message": said_to_model(node)}


def _agent_step(node: Node) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": node.content}
    if model := node.data.get("model"):
        step["model_name"] = str(model)
    if reasoning := node.data.get("reasoning"):
        step["reasoning_content"] = str(reasoning)
    if calls := list(_calls(node)):
        step["tool_calls"] = [
            {
                "tool_call_id": call["id"],
                "function_name": call["name"],
                "arguments": _arguments(call["arguments"]),
            }
            for call in calls
        ]
    used = node.data.get("usage")
    named = {"prompt_tokens": "input", "completion_tokens": "output", "cached_tokens": "cached"}
    counts = {name: used.get(key) for name, key in named.items()} if isinstance(used, Mapping) else {}
    if any(isinstance(count, int) for count in counts.values()):
        step["metrics"] = {name: n if isinstance(n, int) else None for name, n in counts.items()}
    return step


def _observe(steps: list[dict[str, Any]], node: Node) -> None:
    """Add a result to the step that made its call. A result without such a step is dropped."""
    call = str(node.data.get("call", ""))
    for step in reversed(steps):
        if any(made["tool_call_id"] == call for made in step.get("tool_calls", ())):
            results = step.setdefault("observation", {"results": []})["results"]
            results.append({"source_call_id": call, "content": node.content})
            return


def _role(node: Node) -> str | None:
    """Return the role of a node for the model; None for the model's own nodes and those it does not read."""
    if node.kind in ("system", "user"):
        return node.kind
    if node.kind == "compaction" or (node.kind == "notice" and node.data.get("to_model")):
        return "system"
    return None


def _calls(node: Node) -> Iterator[dict[str, str]]:
    made = node.data.get("calls")
    for call in made if isinstance(made, Sequence) else ():
        if isinstance(call, Mapping):  # sessions of other programs are imported unchanged
            yield {name: str(call.get(name, "")) for name in ("id", "name", "arguments")}


def _arguments(text: str) -> Mapping[str, Any]:
    """Return arguments as data; text that is not a JSON object is placed under the key `arguments`."""
    given = value_of(text) if text else {}
    return given if isinstance(given, dict) else {"arguments": given}


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilter:
    """Conditions for exported sessions; an empty field admits all. Times are seconds since the epoch."""

    project: str = ""
    """A part of the name of its folder, regardless of case."""
    model: str = ""
    """The name of a model that answered, as it was requested."""
    tools: tuple[str, ...] = ()
    """Tools, at least one of which was called."""
    since: float | None = None
    until: float | None = None
    """The latest time at which it began."""
    completed: bool = False
    """True for only those that end with a complete answer."""
    least_calls: int = 0
    sessions: frozenset[str] | None = None
    """Ids of the only sessions to export; None for all."""

    def admits(self, session: Session) -> bool:
        """Return whether a session meets the conditions that do not depend on its nodes."""
        return (
            (self.sessions is None or session.id in self.sessions)
            and self.project.casefold() in PurePath(session.workspace).name.casefold()
            and (self.since is None or session.created >= self.since)
            and (self.until is None or session.created <= self.until)
        )

    def admits_path(self, session: Session, nodes: Sequence[Node]) -> bool:
        """Return whether a branch has an answer from the model and meets the conditions on its nodes."""
        answers = [node for node in nodes if node.kind == "assistant"]
        called = [name for node in answers for name, _ in calls_of(node.data)]
        return (
            bool(answers)
            and (
                not self.model
                or any((node.data.get("model") or session.model) == self.model for node in answers)
            )
            and (not self.tools or not set(self.tools).isdisjoint(called))
            and len(called) >= self.least_calls
            and (not self.completed or is_complete(nodes))
        )


PER_TOKEN = 4
"""The number of characters that count as one token."""
KEPT = 4
"""The number of exchanges at the end that stay whole if possible."""
_STEPS = (4_000, 1_000, 200)
"""Lengths to which results are cut, in characters, tried in turn."""


def tokens_of(nodes: Sequence[Node]) -> int:
    """Return the estimated number of tokens in a trajectory: texts, reasoning and calls."""
    return sum(map(_size, nodes)) // PER_TOKEN


def shorten(nodes: Sequence[Node], most: int) -> list[Node]:
    """Return a trajectory shortened to `most` tokens. The parts that must remain may exceed that."""
    found = list(nodes)
    tail = _tail(found)
    for length in _STEPS:
        if tokens_of(found) <= most:
            return found
        found = [_cut_result(node, length) if place < tail else node for place, node in enumerate(found)]
    found = _without_exchanges(found, tail, most)
    for length in _STEPS:
        if tokens_of(found) <= most:
            return found
        found = [_cut_result(node, length) for node in found]
    return found


def _without_exchanges(found: list[Node], tail: int, most: int) -> list[Node]:
    """Return the nodes without the oldest exchanges before `tail`, so that they fit if possible."""
    surplus = tokens_of(found) - most
    left: set[int] = set()
    for exchange in _exchanges(found[:tail]):
        if surplus <= 0:
            break
        surplus -= tokens_of([found[place] for place in exchange])
        left.update(exchange)
    if not left:
        return found
    first = min(left)
    note = replace(
        found[first],
        kind="notice",
        content=f"[{plural(len(left), 'entry')} left out here.]",
        data={"to_model": True},
    )
    kept = [node for place, node in enumerate(found) if place not in left or place == first]
    return [note if node is found[first] else node for node in kept]


def _size(node: Node) -> int:
    return (
        len(node.content)
        + len(str(node.data.get("reasoning") or ""))
        + sum(len(name) + len(arguments) for name, arguments in calls_of(node.data))
    )


def _tail(nodes: Sequence[Node]) -> int:
    """Return the index of the first node of the part that is kept in full."""
    answers = [place for place, node in enumerate(nodes) if node.kind == "assistant"]
    return answers[-KEPT] if len(answers) >= KEPT else (answers[0] if answers else len(nodes))


def _cut_result(node: Node, length: int) -> Node:
    if node.kind != "tool" or len(node.content) <= length:
        return node
    half = length // 2
    shown = {"shortened": node.content[:half] + " … " + node.content[-half:], "characters": len(node.content)}
    return replace(node, content=json.dumps(shown, ensure_ascii=False))


def _exchanges(nodes: Sequence[Node]) -> list[list[int]]:
    """Return the indexes of each answer and of its results, in one list each, oldest first."""
    found: list[list[int]] = []
    for place, node in enumerate(nodes):
        if node.kind == "assistant":
            found.append([place])
        elif node.kind == "tool" and found:
            found[-1].append(place)
    return found
