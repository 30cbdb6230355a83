"""Replay of a recorded branch: it sends nothing and runs no tool, but rebuilds every request to the byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from agent.core.attachments import AttachmentStore, attachments_of
from agent.core.config.hook_list import HookAnswer, HookEvent
from agent.core.messages import ToolCall
from agent.core.store.nodes import MAIN, BranchHead, Node, Session
from agent.core.store.store import Store
from agent.errors import ConfigError
from agent.integrations.hooks.session_hooks import SessionHooks
from agent.model.format_registry import DEFAULT_FORMAT, FORMATS
from agent.model.protocol import COMPACT, STANDARD, Profile, ToolSpec
from agent.model.transport.reply import ModelReply, ModelRoute
from agent.model.transport.waits import RetryPolicy
from agent.model.usage import Meter
from agent.model.wire_format import Wire
from agent.session.conversation.live_session import LiveSession
from agent.session.replay.answers import Compared, RecordedAnswers, RecordedIds, codec_of
from agent.session.replay.tape import (
    Difference,
    ReplayDifference,
    Tape,
    begins_turn,
    begins_turn_next,
    is_answer,
)
from agent.session.turns.call_runner import FinishedCall
from agent.session.turns.dialogue import Dialogue, RequestSettings
from agent.session.turns.room import RoomRules
from agent.session.turns.turn_helpers import TurnHelpers
from agent.session.turns.turn_queue import TurnQueue
from agent.session.turns.turn_runner import WRAP_UP, StepLimit, TurnHearers, TurnRunner
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.events import Event


class RecordedCalls:
    """Returns the recorded result of each call, in the order in which the results were stored."""

    def __init__(self, session: LiveSession, tape: Tape) -> None:
        self._session = session
        self._tape = tape

    def turn_began(self) -> None:
        pass

    def first(self, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
        return ()

    async def run(
        self, node: Node, calls: Sequence[ToolCall], broken: Mapping[str, str] | None = None
    ) -> list[FinishedCall]:
        """Return the recorded results of those calls that have one, in the order of the calls.

        Raises `ReplayDifference` if the result of a refused call differs from the present refusal.
        """
        open_calls = {call.id: call for call in calls}
        finished: dict[str, FinishedCall] = {}
        while open_calls:
            result = self._tape.take_result(set(open_calls))
            if result is None:
                break
            call = open_calls.pop(str(result.data["call"]))
            outcome = result.data.get("outcome", "done")
            if reason := (broken or {}).get(call.id):
                self._check_refusal(result, reason)
            await self._session.finish_call(call, result.content, result.data)
            finished[call.id] = FinishedCall(call, outcome, result.content)
        return [finished[call.id] for call in calls if call.id in finished]

    def _check_refusal(self, result: Node, reason: str) -> None:
        try:
            said: Any = json.loads(result.content).get("error")
        except (ValueError, AttributeError):
            said = result.content
        if said != reason:
            self._tape.differ(f"the result of {result.data.get('tool')}", said, reason, result)


class RecordedStore:
    """A replacement for the store in a replay, with the methods of `agent.core.store.store.Store` that a
    session uses.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self.session: LiveSession | None = None
        """The session that uses this store; recorded nodes reach it before a new one is appended."""

    async def append(
        self,
        session: str,
        kind: str,
        content: str,
        data: Mapping[str, Any] | None = None,
        *,
        head: str = MAIN,
        expected: object = None,
        starts: Sequence[ToolCall] = (),
    ) -> Node:
        tape = self._tape
        if tape.difference is None and (kind != "user" or (data or {}).get("origin") == "engine"):
            tape.feed()
            await self.caught_up()
        return tape.append(kind, content, data or {})

    async def finish_call(
        self,
        session: str,
        call: str,
        result: str,
        data: Mapping[str, Any],
        *,
        head: str = MAIN,
        expected: object = None,
    ) -> Node:
        node = self._tape.take_result({call})
        assert node is not None
        await self.caught_up()
        self._tape.pass_result(node)
        return node

    async def start_call(self, session: str, node: int, call: str, name: str) -> None:
        pass

    async def save_draft(self, session: str, head: str, content: str, reasoning: str) -> None:
        pass

    async def path(self, session: str, head: str = MAIN) -> list[Node]:
        return list(self._tape.read())

    def nodes_now(self, ids: Sequence[int]) -> list[Node]:
        return [node for node in self._tape.read() if node.id in ids]

    async def heads(self, session: str) -> list[BranchHead]:
        return [BranchHead(session, MAIN, None, 0.0)]

    async def caught_up(self) -> None:
        """Make the session read the nodes that the tape has passed on."""
        if self.session is not None:
            await self.session.catch_up()


_HELD_BACK = "[A check of the user holds your answer back: "
_UNREACHED = 2.0
_ONCE = RetryPolicy(retries=0)
"""Values for a replay without compactions (`_UNREACHED`) and retries: their results are on the tape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The result of a replay. `steps` counts the replayed answers, `nodes` the nodes read."""

    session: str
    steps: int
    nodes: int
    compared: Compared = field(default_factory=Compared)
    difference: Difference | None = None
    images_gone: tuple[str, ...] = ()
    """Names of images that were attached to its messages and are no longer stored."""


async def replay(
    session: Session, path: Sequence[Node], attachments: AttachmentStore, *, before: int | None = None
) -> ReplayReport:
    """Replay a branch, or its part before the answer of step `before`, and report. Raises `ConfigError`."""
    report = await _Replay(session, until(path, before), attachments).run()
    return replace(report, images_gone=await asyncio.to_thread(_images_gone, path, attachments))


def _images_gone(path: Sequence[Node], kept: AttachmentStore) -> tuple[str, ...]:
    images = {image: None for node in path for image in attachments_of(node.data)}
    return tuple(image.name for image in images if not kept.read(image))


def until(path: Sequence[Node], step: int | None) -> Sequence[Node]:
    """Return the nodes before the answer of a step; all nodes for None or a step that does not exist."""
    if step is None:
        return path
    answers = [place for place, node in enumerate(path) if is_answer(node)]
    return path[: answers[step - 1]] if 0 < step <= len(answers) else path


def steps_of(path: Sequence[Node]) -> int:
    """Return the number of the model's answers on a branch."""
    return sum(map(is_answer, path))


class _Replay:
    def __init__(self, session: Session, path: Sequence[Node], attachments: AttachmentStore) -> None:
        self.tape = Tape(path)
        self._store = RecordedStore(self.tape)
        self.session = LiveSession(cast("Store", self._store), session, (), _nothing)
        self._store.session = self.session
        self.session.position = self._position
        self._attachments = attachments
        self.compared = Compared()
        self._frames: dict[str, list[str]] = {}
        self._dialogue: Dialogue | None = None
        self._images: dict[str, bool] = {}

    async def run(self) -> ReplayReport:
        tape = self.tape
        while not tape.over and tape.difference is None:
            tape.feed()
            await self._store.caught_up()
            if tape.over:
                break
            at = tape.at
            turns = self._turns()
            if begins_turn_next(tape):
                node = tape.nodes[tape.at]
                await turns.run(node.content, str(node.data.get("origin")), attachments_of(node.data))
            else:
                await turns.go_on()
            if tape.at == at and tape.difference is None:
                self._note_stop()
        return ReplayReport(
            session=self.session.id,
            steps=tape.step,
            nodes=tape.at,
            compared=self.compared,
            difference=tape.difference,
        )

    def _note_stop(self) -> None:
        node = self.tape.next()
        with suppress(ReplayDifference):
            what = "the end" if node is None else f"a node of kind {node.kind}"
            self.tape.differ("what follows", what, "nothing", node)

    def _turns(self) -> TurnRunner:
        return TurnRunner(
            self.session,
            self,
            RecordedCalls(self.session, self.tape),
            _RecordedSteering(self.tape),
            self._profile(),
            StepLimit(steps=0, more=self._one_more),
            TurnHearers(hooks=_RecordedHooks(self.tape)),
            TurnHelpers(_nothing),
        )

    async def _one_more(self) -> int:
        """Return 1, which allows one more step, until the recorded step limit is reached; then 0."""
        node = self.tape.next()
        return 0 if node is not None and node.kind == "user" and node.content == WRAP_UP else 1

    def _position(self) -> int | None:
        if self.tape.over:
            return None
        return self.tape.nodes[self.tape.at].data.get("step")

    # The requests of a turn to the model.

    async def next_reply(self, step: int) -> ModelReply:
        """Build the request and return its recorded answer.

        An interrupted answer ends the turn as recorded.
        """
        tape = self.tape
        node = tape.next()
        await self._store.caught_up()
        if node is None or not is_answer(node):
            raise asyncio.CancelledError
        try:
            return await self._dialogue_for(node).next_reply(step)
        except (LookupError, TypeError, ValueError, AttributeError, ConfigError):
            # Not in the form this program writes: damaged, or of another program or version.
            tape.unreadable("the answer or the record of its request", node)

    async def begin_again(self, reason: str) -> None:
        """Do nothing: the replies are those of the recorded session."""

    def take_partial(self) -> tuple[str, str, str]:
        return "", "", ""

    def take_aside(self) -> list[dict[str, Any]]:
        return []

    def take_record(self) -> dict[str, Any]:
        return {}

    def usage(self) -> dict[str, int | float | None]:
        return {}

    def _dialogue_for(self, node: Node) -> Dialogue:
        """Return the dialogue for a node; it is opened again if the prompt, tools or conversation changed."""
        record = _record(node)
        images = {str(node.data.get("model", "")): bool(record.get("images", True))}
        known = {**self._images, **images}
        if self._dialogue is None or self.tape.changed or known != self._images:
            self._images = known
            self.tape.changed = False
            self._dialogue = self._open_dialogue(node)
        self._tune(self._dialogue, record)
        return self._dialogue

    def _open_dialogue(self, node: Node) -> Dialogue:
        profile = self._profile()
        names = dict.fromkeys(
            str(each.data.get("model", "")) for each in self.tape.coming() if is_answer(each)
        )
        return Dialogue(
            self.session,
            [self._route(name, profile) for name in names],
            profile,
            Meter(),
            self._attachments,
            RequestSettings(policy=_ONCE),
            RoomRules(threshold=_UNREACHED),
            TurnHelpers(_nothing),
        )

    def _route(self, name: str, profile: Profile) -> ModelRoute:
        node = next(
            each for each in self.tape.coming() if is_answer(each) and each.data.get("model", "") == name
        )
        record = _record(node)
        wire_format = FORMATS.get(str(record.get("format", DEFAULT_FORMAT)))
        wire = Wire(wire_format, RecordedIds(codec_of(str(record.get("mode", "native"))), self.tape))
        frames = self._frames.setdefault(name, [])
        return ModelRoute(
            name=name,
            model=str(record.get("model", name)),
            client=RecordedAnswers(self.tape, name, wire, profile, self.compared, frames),
            wire=wire,
            tools=self._tools(),
            images=self._images.get(name, bool(record.get("images", True))),
            usual_output=record.get("usual_output"),
        )

    def _tune(self, dialogue: Dialogue, record: Mapping[str, Any]) -> None:
        """Apply the recorded settings of a request, which the user may have changed between requests."""
        settings: Mapping[str, Any] = record.get("settings") or {}
        dialogue.asking = RequestSettings(
            policy=_ONCE,
            temperature=settings.get("temperature"),
            max_output=settings.get("max_output"),
            thinking=lambda: settings.get("thinking"),
            extra=settings.get("extra") or {},
        )

    def _tools(self) -> tuple[ToolSpec, ...]:
        node = self.session.system()
        offered = node.data.get("tools") or () if node is not None else ()
        return tuple(ToolSpec(each["name"], each["description"], each["parameters"]) for each in offered)

    def _profile(self) -> Profile:
        node = self.session.system()
        name = node.data.get("profile") if node is not None else STANDARD.name
        if name == COMPACT.name:
            return COMPACT
        if name == STANDARD.name:
            return STANDARD
        from agent.model.local.profile import LOCAL

        return LOCAL


class _RecordedSteering(TurnQueue):
    """A turn queue for replays: messages come from the tape, and the queue only tells whether some wait."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(_nothing)
        self._tape = tape

    def steering_waits(self) -> bool:
        for node in self._tape.coming():
            if is_answer(node) or begins_turn(node):
                return False
            if node.kind == "user" and node.data.get("origin") == "steer":
                return True
        return False


class _RecordedHooks(SessionHooks):
    """A replacement for hooks in a replay, which returns their recorded answers."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def requires(self, event: HookEvent, tool: str = "") -> bool:
        return False

    async def before_response(self, text: str) -> HookAnswer:
        node = self._tape.next()
        if node is None or not node.content.startswith(_HELD_BACK) or node.kind != "user":
            return HookAnswer()
        return HookAnswer("block", node.content[len(_HELD_BACK) : -1])


def _record(node: Node) -> Mapping[str, Any]:
    record = node.data.get("request")
    return record if isinstance(record, Mapping) else {}


def _nothing(_event: Event) -> None:
    pass


def check_step(path: Sequence[Node], branch: str, step: int) -> None:
    """Raise `ConfigError` if the branch does not have this step."""
    steps = steps_of(path)
    if not 1 <= step <= steps:
        raise ConfigError(f"There is no step {step}; branch {clean(branch)} has {steps}.")


async def branch_before(store: Store, session: str, branch: str, step: int) -> str:
    """Create a branch that ends before the answer of a step, and put it in use; return its name.

    Raises `ConfigError` if the branch has no such step.
    """
    path = await store.path(session, branch)
    check_step(path, branch, step)
    names = {head.name for head in await store.heads(session)}
    wanted = (f"live-{step}" + (f"-{number}" if number > 1 else "") for number in range(1, len(names) + 2))
    name = next(each for each in wanted if each not in names)
    before = until(path, step)
    await store.fork(session, before[-1].id if before else None, name)
    await store.use_head(session, name)
    return name
