"""A scripted model: a tour of the program that needs no key, no network and no weights.

It says that it is a script, but its effects are real: the tools run, the files exist, approvals are
requested. Its state follows from the request alone, so it can be interrupted, resumed and branched like any
other model.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.core.event_data import Usage
from agent.errors import ModelError
from agent.model.protocol import CallFragment, Delta, ModelRequest, ReplyEnd, TextDelta, UsageDelta

FOLDER = "hermes-demo"
FILE = f"{FOLDER}/greet.sh"

WORDS_PER_PIECE = 3
LETTERS_PER_TOKEN = 4
"""Letters counted as one token, as the script has no tokenizer."""

CONNECT = """\
To connect a real model, type `/model` (or press alt+m): it takes the key of a provider, finds servers \
on this machine, and can fetch a small model that needs neither. In a shell:
- with a key: `OPENROUTER_API_KEY=… hermes --model openrouter/<model>`, likewise for other providers;
- with a server on this machine: `hermes --model ollama/<model>` (also lmstudio, llamacpp, vllm);
- offline: `hermes model pull`, then `hermes --model local`."""

_TOUR = re.compile(r"\btour\b", re.IGNORECASE)
_PIECE = re.compile(rf"(?:\S+\s*){{1,{WORDS_PER_PIECE}}}|\s+")
_LETTERS_PER_FRAGMENT = 24

TOUR_REQUEST = "Show me the tour."
"""The message that begins the tour if the person has not typed one."""
INTRODUCTION = (
    "Hello! I am the demo: a fixed script, no language model, so this is all I can do. "
    "I show you how an agent works here; the tools I call are the real ones."
)

_PLAN = ("Write a small script", "Run it and read it back", "Change it and find the change")


@dataclass(frozen=True, slots=True)
class _Step:
    """One call of the tour, and the text before it."""

    tool: str
    says: str
    arguments: Mapping[str, Any]
    needs_file: bool = False
    """True if the step makes sense only if the script was written."""


def _todos(*statuses: str) -> dict[str, Any]:
    items = zip(_PLAN, statuses, strict=True)
    return {
        "todos": [
            {"id": str(number), "content": content, "status": status}
            for number, (content, status) in enumerate(items, 1)
        ]
    }


TOUR = (
    _Step(
        "todo_write",
        "An agent begins with a plan, which you see on the task list.",
        _todos("in_progress", "pending", "pending"),
    ),
    _Step(
        "write_file",
        f"First I write a file into a folder of its own, `{FOLDER}`. "
        "Whatever changes something passes a gate; it may ask you first.",
        {"path": FILE, "content": "echo 'Hello from the demo.'\necho 'Goodbye.'\n"},
    ),
    _Step(
        "terminal",
        "Now I run it. Commands pass the same gate.",
        {"command": f"sh {FILE}"},
        needs_file=True,
    ),
    _Step("read_file", "An agent reads before it changes something.", {"path": FILE}, needs_file=True),
    _Step(
        "patch",
        "A small change; its card shows it as a diff.",
        {"mode": "replace", "path": FILE, "old_string": "Goodbye.", "new_string": "See you soon."},
        needs_file=True,
    ),
    _Step(
        "search",
        "And a search that finds the change.",
        {"pattern": "See you", "path": FOLDER},
        needs_file=True,
    ),
    _Step(
        "todo_write", "That was the plan, so the list is done.", _todos("completed", "completed", "completed")
    ),
    _Step(
        "clarify",
        "When an agent is unsure, it asks.",
        {
            "question": "What would you like to know more about?",
            "choices": ["Connecting a model", "Approvals", "Sessions"],
        },
    ),
)

_TOPICS = {
    "Approvals": (
        "About approvals: each action can be allowed once, for the session or always, or denied with a "
        "reason that the model reads. `--approve deny` refuses everything that would need a yes."
    ),
    "Sessions": (
        "About sessions: every message is kept the moment it exists. `hermes --continue` goes on with the "
        "newest session of this folder, `hermes sessions` lists and searches all of them."
    ),
}


@dataclass(frozen=True, slots=True)
class _Move:
    """The next message of the script: a text, and perhaps a tool call."""

    text: str
    tool: str = ""
    arguments: str = ""
    call_id: str = ""


class DemoClient:
    """A `ModelClient` that follows the script. `delay` is in seconds between two pieces."""

    def __init__(
        self, delay: float = 0.02, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._delay = delay
        self._sleep = sleep

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Stream the next message of the script. Raises `ModelError` if the request is not a conversation."""
        move = next_move(_messages(request), _tool_names(request))
        for piece in _PIECE.findall(move.text):
            yield TextDelta(piece)
            await self._sleep(self._delay)
        if move.tool:
            yield CallFragment(0, move.call_id, move.tool)
            for at in range(0, len(move.arguments), _LETTERS_PER_FRAGMENT):
                yield CallFragment(0, arguments=move.arguments[at : at + _LETTERS_PER_FRAGMENT])
                await self._sleep(self._delay)
        size = sum(map(len, request.frames)) + len(request.system) + len(request.tools)
        written = len(move.text) + len(move.arguments)
        yield UsageDelta(Usage(size // LETTERS_PER_TOKEN, written // LETTERS_PER_TOKEN, 0))
        yield ReplyEnd("tool_calls" if move.tool else "stop")

    async def aclose(self) -> None:
        """Do nothing, because no connection is open."""


@dataclass(slots=True)
class _Past:
    """How far the newest tour in the conversation has come."""

    number: int
    """The number of the person's messages before it."""
    results: list[dict[str, Any]] = field(default_factory=list)
    """Results of its calls, in order."""
    over: bool = False


def next_move(messages: Sequence[Mapping[str, Any]], offered: Iterable[str]) -> _Move:
    """Return the script's next message after `messages`, given the tools on offer. Pure."""
    past = _past(messages)
    if past.over:
        return _Move(
            "I am the demo, a fixed script: no model is answering, and I cannot read what you wrote. "
            f"Say `tour` to see the tour again.\n\n{CONNECT}"
        )
    tools, results = set(offered), iter(past.results)
    written, worked = "write_file" in tools, True
    failed: list[str] = []
    for number, step in enumerate(TOUR):
        if step.tool not in tools or (step.needs_file and not written):
            continue
        result = next(results, None)
        if result is None:
            opening = "" if worked else "That did not work; its card says why. "
            opening = opening if past.results else f"{INTRODUCTION}\n\n"
            arguments = json.dumps(step.arguments, ensure_ascii=False)
            return _Move(opening + step.says, step.tool, arguments, f"call_demo_{past.number}_{number}")
        worked = _is_success(result)
        if not worked:
            failed.append(step.tool)
            written = written and step.tool != "write_file"
    return _Move(_farewell(past.results, failed))


def _farewell(results: Sequence[Mapping[str, Any]], failed: Sequence[str]) -> str:
    parts = ["That was the tour. Every call above is kept in this session and can be unfolded."]
    if not results:
        parts = [INTRODUCTION, "Without tools, though, there is nothing to show."]
    if failed:
        parts.append(f"Not everything worked ({', '.join(dict.fromkeys(failed))}); the cards say why.")
    answer = results[-1].get("answer") if results else None
    if isinstance(answer, str) and answer in _TOPICS:
        parts.append(_TOPICS[answer])
    if results:
        parts.append(
            f"The files are in `{FOLDER}`; delete the folder when you like, or take back what I did: "
            "`/undo` takes back a message with everything it changed, `/redo` does it again."
        )
    parts.append(CONNECT)
    return "\n\n".join(parts)


def _past(messages: Sequence[Mapping[str, Any]]) -> _Past:
    """Return the state of the newest tour in the conversation. A later message of the person may begin a new
    one.
    """
    past: _Past | None = None
    asked = 0
    waiting: list[str] = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        text = content if isinstance(content, str) else ""
        if role == "user":
            if past is None or (past.over and _TOUR.search(text)):
                past = _Past(asked)
            asked += 1
        elif past is None:
            continue
        elif role == "assistant":
            waiting = [str(call.get("id")) for call in _dicts(message.get("tool_calls"))]
            past.over = past.over or not waiting
        elif role == "tool" and message.get("tool_call_id") in waiting:
            past.results.append(_object(text))
    return past or _Past(0)


def _is_success(result: Mapping[str, Any]) -> bool:
    return not result.get("error") and result.get("exit_code") in (None, 0)


def _messages(request: ModelRequest) -> list[dict[str, Any]]:
    return [_object(frame.data, strict=True) for frame in request.frames]


def _tool_names(request: ModelRequest) -> Iterator[str]:
    try:
        tools = json.loads(request.tools or b"[]")
    except (ValueError, RecursionError):
        raise _no_conversation() from None
    for tool in _dicts(tools):
        function = tool.get("function")
        if isinstance(function, dict):
            yield str(function.get("name"))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _object(text: str | bytes, *, strict: bool = False) -> dict[str, Any]:
    """Return a text as a JSON object. Anything else becomes an empty object, or raises `ModelError` with
    `strict`.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    if strict:
        raise _no_conversation()
    return {}


def _no_conversation() -> ModelError:
    return ModelError("bad_request", "The demo model was sent something that is no conversation.")
