"""Learnings about the calls of one agent: looked up before each call and updated by its result.

A call is held back at most once. If it is repeated unchanged, it runs, and its result confirms or refutes the
learning. If the store cannot be read, an error is raised, and the caller runs the call without learnings.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.core.messages import ToolCall
from agent.knowledge.learnings.calls import COMMAND_TOOLS, CallForm, CallPlace, call_form
from agent.knowledge.learnings.failures import (
    EVERYWHERE,
    TIMED_OUT_KIND,
    Failure,
    Fix,
    MadeCall,
    Signature,
    failure_of,
    is_run,
    normalise,
    same_aim,
    signature,
    what_worked,
)
from agent.knowledge.learnings.learning import (
    MOST_TAGS,
    Learning,
    LearningEnvironment,
    LearningRefusedError,
    call_key,
    check_note,
    from_note,
    held_back,
    of_any_project,
    short,
    speaks_of,
    with_failure,
)
from agent.knowledge.learnings.store import LearningStore
from tools.services.learning_notes import LearningKeeper, LearningNote, LearningView
from tools.text.redact import redact

LARGE = 4_000
"""The size in characters from which arguments or results are processed in a thread."""
REMEMBERED = 60
"""The maximum number of calls remembered in a turn."""
FAILURES = 20
"""The maximum number of failures in a session that are remembered, so that a learning can be about them."""
SUCCESSES = 2_000
"""The maximum number of successful calls remembered in a session."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A call that was held back (not run), and whose result is not known yet."""

    learning: Learning
    key: str
    """The key of the call."""
    successes: int
    """The number of successful calls so far."""


@dataclass(slots=True)
class _Prepared:
    """A call that is about to run, with what is needed to learn from its result."""

    form: CallForm
    known: Sequence[Learning] = ()


@dataclass(slots=True)
class SeenFailure:
    """A call that failed in this session."""

    made: MadeCall
    signature: Signature
    told: list[int] = field(default_factory=list)
    """Numbers of the learnings shown with it."""


class CallLearnings:
    """The learnings of one agent, over all its turns."""

    def __init__(
        self,
        store: LearningStore,
        environment: LearningEnvironment,
        session: str,
        node: Callable[[], int | None],
        excluded: frozenset[str],
        *,
        holds_back: bool = True,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """Set up the learnings. `node` returns the current message's id; `excluded` are tools without
        learnings.
        """
        self._store = store
        self._around = environment
        self._session = session
        self._node = node
        self._excluded = excluded
        self._holds_back = holds_back
        self._secrets = secrets or {}
        self._prepared: dict[str, _Prepared] = {}
        self._turn: list[MadeCall] = []
        self._open: list[SeenFailure] = []
        """Unfixed failures of this turn."""
        self.failures: list[SeenFailure] = []
        """The latest failures of the session, oldest first."""
        self._held: dict[int, _Held] = {}
        """Held-back calls by the number of the learning."""
        self._successes = 0
        self._needless: set[int] = set()
        """Learnings that proved not to apply in this session."""
        self._looking = asyncio.Lock()
        """The lock for reading and changing the learnings, because calls run in parallel."""
        self._worked: dict[str, None] = {}
        """Keys of successful calls in this session."""

    def turn_began(self) -> None:
        """Begin a new turn. Its calls do not count as fixes of failures in earlier turns."""
        self._turn, self._open = [], []
        self._prepared.clear()

    async def before(self, call: ToolCall, arguments: Mapping[str, Any]) -> str:
        """Return the JSON result for a call that is held back; empty for one that should run."""
        if call.name in self._excluded:
            return ""
        async with self._looking:
            held = await self._before(call, arguments)
        return "" if held is None else json.dumps(held, ensure_ascii=False)

    async def after(self, call: ToolCall, result: Mapping[str, Any]) -> str:
        """Learn from a finished call; return a line to add to its result, usually empty."""
        prepared = self._prepared.pop(call.id, None)
        if prepared is None or not is_run(result):
            return ""
        async with self._looking:
            return await self._after(prepared, result)

    async def _before(self, call: ToolCall, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        form = await self._form(call, arguments)
        known = await self._store.for_calls((form.key, form.timed_key))
        self._prepared[call.id] = _Prepared(form, known)
        if not self._holds_back or any(self._is_held(each, form) for each in known):
            return None
        speaking = [each for each in known if each.status == "learning" and not self._is_met(each)]
        speaking = [each for each in speaking if await self._holds(each)]
        if not speaking:
            return None
        for each in speaking:
            key = form.timed_key if each.error_type == TIMED_OUT_KIND else form.key
            self._held[each.id] = _Held(each, key, self._successes)
            await self._store.add_outcome(each.id, used=1)
        del self._prepared[call.id]
        first = speaking[0]
        return {"error": held_back(first, speaking[1:2]), "status": "held_back", "learning": first.id}

    def _is_held(self, learning: Learning, form: CallForm) -> bool:
        """Return whether this same call was already held back for the learning."""
        held = self._held.get(learning.id)
        return held is not None and held.key in (form.key, form.timed_key)

    def _is_met(self, learning: Learning) -> bool:
        """Return whether the steps of the learning were already done, or proved unnecessary."""
        if learning.id in self._needless:
            return True
        return self._steps_done(learning)

    async def _holds(self, learning: Learning) -> bool:
        """Return whether the learning's dependencies are unchanged; if not, mark the learning as stale."""
        if not learning.depends or not await asyncio.to_thread(self._around.changed, learning.depends):
            return True
        await self._store.set_status(learning.id, "stale")
        return False

    async def _form(self, call: ToolCall, arguments: Mapping[str, Any]) -> CallForm:
        workspace = str(self._around.workspace)
        cwd = str(self._around.cwd()) if call.name in COMMAND_TOOLS else workspace
        place = CallPlace(workspace, cwd)
        if len(call.arguments) > LARGE:
            return await asyncio.to_thread(call_form, call.name, arguments, place)
        return call_form(call.name, arguments, place)

    async def _after(self, prepared: _Prepared, result: Mapping[str, Any]) -> str:
        form = prepared.form
        if sum(len(value) for value in result.values() if isinstance(value, str)) > LARGE:
            failure = await asyncio.to_thread(failure_of, result, form.command)
        else:
            failure = failure_of(result, form.command)
        made = MadeCall(form, failure, self._node())
        self._turn = [*self._turn[1 - REMEMBERED :], made]
        if failure is None:
            await self._on_success(made, prepared.known)
            return ""
        return await self._on_failure(made, failure, prepared.known, str(result.get("output") or ""))

    # A call that failed

    async def _on_failure(
        self, made: MadeCall, failure: Failure, known: Sequence[Learning], output: str
    ) -> str:
        sign = signature(made.form, failure, self._store.project)
        for learning in known:
            is_held = self._is_held(learning, made.form)
            self._held.pop(learning.id, None)
            if is_held and learning.key == sign.key:
                await self._store.add_outcome(learning.id, confirmed=1)
        await self._refute_fix(made.form.key)
        seen = SeenFailure(made, sign)
        told_already = {number for each in self._open for number in each.told}
        found = await self._about(sign, failure, output)
        told = [each for each in found if each.id not in told_already][:1]
        seen.told = [each.id for each in found]
        self._open.append(seen)
        self.failures = [*self.failures[1 - FAILURES :], seen]
        for each in told:
            await self._store.add_outcome(each.id, used=1)
        return " ".join(map(with_failure, told))

    async def _about(self, sign: Signature, failure: Failure, output: str) -> list[Learning]:
        """Return learnings about a failure: those with its signature, or without any, those written by the
        user or the agent whose error occurs in it.
        """
        if found := await self._store.for_failure(sign.key):
            return found
        written = await self._store.of_program((sign.program, ""))
        return [each for each in written if speaks_of(each, failure, output)]

    async def _refute_fix(self, key: str) -> None:
        """Count a refutation for each learning that was just shown and recommends the call with this key,
        which failed.
        """
        told = {number for each in self._open for number in each.told} | set(self._held)
        for number in told:
            held = self._held.get(number)
            learning = held.learning if held is not None else await self._store.get(number)
            if learning is not None and learning.fix_kind == "instead" and learning.fix_key == key:
                self._held.pop(number, None)
                for each in self._open:
                    each.told = [other for other in each.told if other != number]
                await self._store.add_outcome(number, refuted=1)

    # A call that worked

    async def _on_success(self, made: MadeCall, known: Sequence[Learning]) -> None:
        self._worked[made.form.key] = None
        while len(self._worked) > SUCCESSES:
            del self._worked[next(iter(self._worked))]
        settled = await self._confirm_held(made)
        self._successes += 1
        failed_now = {each.made.form.key for each in self._open}
        for learning in known:
            if learning.id in settled or made.form.key in failed_now or self._is_met(learning):
                continue
            # It is said to fail and works.
            self._held.pop(learning.id, None)
            self._needless.add(learning.id)
            await self._store.add_outcome(learning.id, refuted=1)
        if self._open:
            await self._store_fixes()

    async def _confirm_held(self, made: MadeCall) -> set[int]:
        """Confirm learnings whose fix worked after a held-back call; return the ids of all that are settled
        by it.
        """
        settled: set[int] = set()
        for number, held in list(self._held.items()):
            confirmed = self._settles(held, made)
            if confirmed is None:
                continue
            del self._held[number]
            settled.add(number)
            if confirmed:
                await self._store.add_outcome(number, confirmed=1)
        return settled

    def _settles(self, held: _Held, made: MadeCall) -> bool | None:
        """Return True if a successful call confirms a held-back learning, False if it settles it otherwise;
        None if undecided.
        """
        learning, keys = held.learning, (made.form.key, made.form.timed_key)
        if held.key in keys:
            if self._steps_done(learning):
                return True
            # Unchanged, and it works: the caller may have fixed the cause in another way before.
            return False if self._successes > held.successes else None
        if learning.fix_key in keys and learning.fix_kind == "instead":
            return True
        if learning.fix_kind != "first" and self._is_another_way(learning, made):
            # Words mean what is done then; of another call nothing is known but that it is over.
            return learning.fix_kind == "words"
        return None

    def _steps_done(self, learning: Learning) -> bool:
        steps = learning.evidence.get("steps", "").split()
        return learning.fix_kind == "first" and bool(steps) and all(step in self._worked for step in steps)

    def _is_another_way(self, learning: Learning, made: MadeCall) -> bool:
        if learning.tool != made.form.tool:
            return False
        failed = self._around.call_of(learning)
        return failed is not None and same_aim(failed, made.form)

    async def _store_fixes(self) -> None:
        """Store the fix of this turn's failures, if the last call fixed them."""
        calls = list(self._turn)
        places = {id(made): at for at, made in enumerate(calls)}
        waiting = [(each, at) for each in self._open if (at := places.get(id(each.made))) is not None]
        found = await asyncio.to_thread(
            lambda: [
                (each, at, fix)
                for each, at in waiting
                if (fix := what_worked(calls, at, self._around.is_read_only)) is not None
            ]
        )
        kept: set[tuple[str, str]] = set()
        for seen, at, fix in found:
            self._open = [each for each in self._open if each is not seen]
            if (name := (seen.signature.key, seen.made.form.key)) not in kept:
                # The same call that failed twice in a row was fixed once.
                kept.add(name)
                await self._keep(seen, fix, calls[at + 1 :])

    async def _keep(self, seen: SeenFailure, fix: Fix, after: Sequence[MadeCall]) -> None:
        for number in seen.told:
            learning = await self._store.get(number)
            if learning is None:
                continue
            # Told in words, what was done then is what they mean.
            in_words = not learning.fix_key and learning.origin != "observed"
            if learning.fix_key == fix.key or in_words:
                # It holds with what there is now.
                now = await asyncio.to_thread(self._around.restamped, learning.depends)
                await self._store.add_outcome(number, confirmed=1, depends=now)
                return
        made, sign = seen.made, seen.signature
        assert made.failure is not None
        now = time.time()
        form = made.form
        learning = Learning(
            key=sign.key,
            project=sign.project,
            status="candidate",
            origin="observed",
            tool=sign.tool,
            program=sign.program,
            subcommand=sign.subcommand,
            error=sign.error,
            pattern=self._masked("pattern", form.shown),
            error_type=self._masked("error_type", made.failure.kind),
            fix=self._masked("fix", fix.text),
            fix_kind=fix.kind,
            fix_key=fix.key,
            created_at=now,
            updated_at=now,
            session=self._session,
            node=made.node,
            evidence={
                "failed": self._masked("pattern", form.shown),
                "error": self._masked("pattern", made.failure.line),
                "worked": self._masked("fix", after[-1].form.shown if after else ""),
                "steps": " ".join(fix.steps),
            },
            depends=await asyncio.to_thread(self._around.stamps, form),
        )
        await self._store.keep(learning, calls_of(made))

    def _masked(self, name: str, text: str) -> str:
        return short(name, redact(text, self._secrets))


def calls_of(made: MadeCall) -> tuple[str, ...]:
    """Return the keys by which learnings about a failed call are looked up."""
    assert made.failure is not None
    return (made.form.timed_key if made.failure.kind == TIMED_OUT_KIND else made.form.key,)


@dataclass(slots=True)
class SessionLearnings(LearningKeeper):
    """Learnings of one agent, for its tools. `node` returns the current message of the session."""

    store: LearningStore
    at_calls: CallLearnings
    around: LearningEnvironment
    session: str
    node: Callable[[], int | None]
    secrets: Mapping[str, str] = field(default_factory=dict)

    async def save(self, note: LearningNote) -> LearningView:
        return view(await self._save_note(note))

    async def search(self, query: str, limit: int) -> Sequence[LearningView]:
        return [view(each) for each in await self.store.search(query, limit=limit)]

    async def _save_note(self, note: LearningNote) -> Learning:
        texts = check_note(note, self.secrets)
        if note.candidate is not None:
            return await self._promote(note.candidate, texts)
        if not texts.pattern or not texts.fix:
            raise LearningRefusedError(
                "Say what fails (pattern) and what works instead (fix), or name a candidate."
            )
        seen = about(texts, self.at_calls.failures)
        if seen is None:
            learning = from_note(texts, self._project(note), "agent", self.session)
            return await self.store.keep(learning, [call_key(texts.pattern, self.around.workspace)])
        if (candidate := await self._candidate(seen)) is not None:
            return await self._promote(candidate.id, texts)
        made, sign = seen.made, seen.signature
        learning = from_note(texts, self._project(note), "agent", self.session)
        depends = await asyncio.to_thread(self.around.stamps, made.form)
        failure = made.failure
        assert failure is not None
        learning = replace(
            learning,
            key=sign.key,
            tool=sign.tool,
            program=sign.program,
            subcommand=sign.subcommand,
            error=sign.error,
            error_type=learning.error_type or failure.kind,
            node=made.node,
            evidence={
                "failed": short("pattern", redact(made.form.shown, self.secrets)),
                "error": short("pattern", redact(failure.line, self.secrets)),
            },
            depends=of_any_project(depends) if note.everywhere else depends,
        )
        return await self.store.keep(learning, calls_of(made))

    async def _candidate(self, seen: SeenFailure) -> Learning | None:
        """Return the learning recorded when this failure was observed; None if there is none."""
        found = await self.store.for_failure(seen.signature.key)
        return next((each for each in found if each.origin == "observed"), None)

    async def _promote(self, number: int, texts: LearningNote) -> Learning:
        """Return a candidate, stored as a learning with a note's texts. Raises `LearningRefusedError`."""
        known = await self.store.get(number)
        if known is None:
            raise LearningRefusedError(
                f"There is no candidate {number} in this project; search_learnings lists them."
            )
        learning = replace(
            known,
            status="learning",
            origin="agent",
            pattern=texts.pattern or known.pattern,
            error_type=texts.error_type or known.error_type,
            fix=texts.fix or known.fix,
            context=texts.context or known.context,
            tags=tuple(sorted({*known.tags, *texts.tags}))[:MOST_TAGS],
            project=EVERYWHERE if texts.everywhere else known.project,
            depends=of_any_project(known.depends) if texts.everywhere else known.depends,
            refuted=0,
            updated_at=time.time(),
        )
        return await self.store.replace(learning)

    def _project(self, note: LearningNote) -> str:
        return EVERYWHERE if note.everywhere else self.store.project


def about(note: LearningNote, failures: Sequence[SeenFailure]) -> SeenFailure | None:
    """Return the failure of this session that a note describes; None if none matches.

    Among equally good matches the newest is returned.
    """
    best, found = 0, None
    said = f"{note.pattern} {note.error_type} {note.context}".lower()
    for seen in failures:
        failure, form = seen.made.failure, seen.made.form
        assert failure is not None
        score = 4 * (form.shown.lower() in said or note.pattern.strip("`").lower() in form.shown.lower())
        score += 3 * (failure.kind.lower() in said)
        score += 2 * bool(seen.signature.program and seen.signature.program in said.split())
        told = {word for word in failure.error.split() if len(word) > 3}
        score += len(told & set(normalise(said).split()))
        if score >= max(best, 2):
            best, found = score, seen
    return found


def view(learning: Learning) -> LearningView:
    """Return a learning in the form in which tools show it."""
    return LearningView(
        id=learning.id,
        status=learning.status,
        pattern=learning.pattern,
        error_type=learning.error_type,
        fix=learning.fix,
        context=learning.context,
        tags=learning.tags,
        everywhere=learning.project == EVERYWHERE,
        created_at=learning.created_at,
        times_used=learning.times_used,
        confirmed=learning.confirmed,
        refuted=learning.refuted,
    )
