"""Learnings of one agent for the tools `save_learning` and `search_learnings`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.errors import HermesError
from agent.knowledge.learnings.at_calls import CallLearnings, SeenFailure, calls_of
from agent.knowledge.learnings.environment import LearningEnvironment, of_any_project
from agent.knowledge.learnings.failures import EVERYWHERE, normalise
from agent.knowledge.learnings.learning import (
    MOST_TAGS,
    Learning,
    LearningRefusedError,
    call_key,
    check_note,
    from_note,
    short,
)
from agent.knowledge.learnings.store import LearningStore
from tools.results import ToolError
from tools.services.learning_notes import LearningKeeper, LearningNote, LearningView
from tools.text.redact import redact


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
        try:
            return view(await self._save_note(note))
        except HermesError as error:
            raise ToolError(str(error)) from None

    async def search(self, query: str, limit: int) -> Sequence[LearningView]:
        try:
            return [view(each) for each in await self.store.search(query, limit=limit)]
        except HermesError as error:
            raise ToolError(str(error)) from None

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
        """Return the unapproved learning that was recorded when this failure was observed."""
        found = await self.store.for_failure(seen.signature.key)
        return next((each for each in found if each.origin == "observed"), None)

    async def _promote(self, number: int, texts: LearningNote) -> Learning:
        """Turn a candidate into a learning with the texts of a note."""
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
