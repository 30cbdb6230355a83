"""Making room in the model's context window: when and how the conversation is compacted, and when to give up.

The cheapest method comes first: old results are masked; then older parts are folded into a summary that
quotes the user's words. A summary that cannot be used changes nothing; only a conversation that would no
longer fit is folded without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.core.messages import Message
from agent.core.store.nodes import Node
from agent.core.store.stored_path import position_of
from agent.errors import HermesError, ModelError
from agent.events import Event, Noticed
from agent.knowledge.context.compaction import (
    KEPT_RESULTS,
    SYSTEM,
    CompactionPlan,
    CompactionSummary,
    FoldRoom,
    UnusableSummaryError,
    answers_of,
    fold_plan,
    merged_decisions,
    outline_of,
    path_after_compaction,
    plan_fold,
    plan_mask,
    read_summary,
    sent_whole,
    size_of,
    summary_task,
)
from agent.knowledge.context.message_history import (
    ContextFold,
    ReadFile,
    is_user_message,
    newest_fold,
    read_files,
)
from agent.model.protocol import ToolSpec
from agent.model.transport.reply import ASIDE, ModelRoute, ask_aside
from agent.model.usage import Meter
from agent.session.conversation.live_session import LiveSession
from tools.files.scanning import digest_of, stat_digest
from tools.kit.files import read_bytes
from tools.text.safe_text import clean
from tools.text.words import plural

TARGET = 0.6
"""The share of the window to which a fold reduces the conversation, so that the next fold is far away."""
MASKED = 0.7
"""The largest share of the window in use with which masking alone is enough."""
ENOUGH = 0.75
"""The largest share of the window in use after a compaction."""
FULL = 0.95
"""The share of the window above which a conversation does not fit: the reply needs room too."""
WORTH = 0.05
"""The share of the used tokens that masking must save to be worth a cache miss."""
APART = 5
"""The fewest requests between two folds, unless the user sent a message meanwhile."""
UNKNOWN_WINDOW = 32_000
"""The assumed size in tokens of an unknown window."""
MAX_FILES = 60
"""The maximum number of files that are checked for changes."""
MAX_CHECKED = 2_000_000
"""The maximum size in bytes of a file that is checked."""


@dataclass(frozen=True, slots=True)
class _Level:
    """How much a fold keeps, as shares of the window; the tail is at most a quarter of the conversation."""

    tail: float
    words: float
    pins: float


def _levels(words: float) -> tuple[_Level, ...]:
    return (
        _Level(0.20, words, 0.25),
        _Level(0.10, words, 0.25),
        _Level(0.05, words, 0.25),
        _Level(0.05, words, 0.10),
        _Level(0.02, words, 0),
        _Level(0, words, 0),
        _Level(0, words / 2, 0),
        _Level(0, words / 4, 0),
        _Level(0, 0, 0),
    )


Summarize = Callable[[str, int], Awaitable[str]]
"""Answers a prompt with a summary of at most this many tokens. Raises `UnusableSummaryError`."""
Remember = Callable[[Sequence[tuple[str, str]]], Awaitable[int]]
"""Saves facts (scope and text) beyond the session; returns how many of them were accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRules:
    """The rules for making room in the window of a model."""

    threshold: float
    """The share of the window above which room is made."""
    words: float = 0.3
    """The share of the window in which the user's words are kept."""
    summary_route: ModelRoute | None = None
    """The route of the model that writes summaries; None for the first route."""
    remember: Remember | None = None
    """None if no facts are saved."""
    compacted: Callable[[], Awaitable[None]] | None = None
    """Called after each stored compaction."""
    shrink: Callable[[], Awaitable[Sequence[ToolSpec]]] | None = None
    """Switches to the compact set of tools, and returns it; None if it is in use already."""


class ContextRoom:
    """Keeps the conversation of one session within the context window of its model.

    `measure` returns the estimated tokens of a request with a path; `made` is called with a sentence about
    each stored compaction.
    """

    def __init__(
        self,
        session: LiveSession,
        meter: Meter,
        summarize: Summarize,
        emit: Callable[[Event], None],
        rules: RoomRules,
        measure: Callable[[Sequence[Node]], int],
        made: Callable[[str], Awaitable[None]],
    ) -> None:
        self._session = session
        self._meter = meter
        self._summarize = summarize
        self._emit = emit
        self._measure = measure
        self._made = made
        self._rules = rules
        self._remember = rules.remember
        self._failed_at: int | None = None
        """The newest node at the time when a summary could not be used."""
        self._told_at = 0
        """The newest message of the user at the last warning that the window fills too fast."""

    async def keep(self, used: int) -> None:
        """Make room before a request of `used` tokens, if needed.

        Raises `ModelError` when the conversation does not fit and cannot be compacted.
        """
        window = self._meter.window
        if window is None or used <= self._rules.threshold * window:
            return
        await self._make(used, window, fits=used <= FULL * window)

    async def after_overflow(self, used: int, attempt: int) -> bool:
        """Make room after the provider refused a request of `used` tokens; return whether that was possible.

        `attempt` counts from 1; from the second attempt on, no model is used.
        """
        # The estimate was wrong, or the window is unknown: the request was too large.
        window = min(self._meter.window or used, int(used * 0.9))
        before = len(self._session.path)
        if attempt > 1:
            await self._fold_without_summary(used, window, ENOUGH / attempt)
        else:
            await self._make(used, window, fits=False)
        return len(self._session.path) > before

    async def compact(self, focus: str, used: int) -> str:
        """Fold as much as possible at the user's request; return a sentence about the result.

        Raises `HermesError`.
        """
        path = await self._session.whole_path()
        if not self._has_news(path):
            raise HermesError("Nothing was said since the last compaction; there is nothing to compact.")
        window = self._meter.window or max(UNKNOWN_WINDOW, used * 4 // 3)
        try:
            plan = await self._make_fold(path, used, window, focus=focus, automatic=False)
        except UnusableSummaryError as error:
            raise HermesError(f"Nothing was folded: the summary could not be used, {error}.") from None
        if plan is None:
            raise HermesError("The conversation is too short: folding it would save nothing.")
        await self._apply(plan)
        return plan.sentence()

    # Stages

    async def _make(self, used: int, window: int, *, fits: bool) -> None:
        path = await self._session.whole_path()
        best: CompactionPlan | None = None
        for keep in (KEPT_RESULTS, 1):
            plan = plan_mask(path, keep)
            if plan is None:
                continue
            after = await self._measure_path(path_after_compaction(path, plan.data))
            if after <= MASKED * window:
                return await self._apply(plan)
            if after <= used * (1 - WORTH):
                best = plan
        if self._is_too_soon(path):
            return await self._give_up(best, used, window, fits=fits)
        if not self._failed_lately():
            try:
                fold = await self._make_fold(path, used, window)
                if fold is not None:
                    return await self._apply(fold)
            except UnusableSummaryError as error:
                self._failed_at = path[-1].id
                words = f"The conversation was not summarised: {error}. Nothing was changed by it."
                self._emit(Noticed(kind="warning", text=words))
        if best is not None:
            await self._apply(best)
            used = await self._measure_path(self._session.path[:])
            fits = used <= FULL * window
        if not fits:
            await self._fold_without_summary(used, window, ENOUGH)
        return None

    async def _give_up(self, mask: CompactionPlan | None, used: int, window: int, *, fits: bool) -> None:
        """Warn that no fold is possible so soon; mask results. Raises `ModelError` if that is not enough."""
        path = await self._session.whole_path()
        asked = max((node.id for node in path if is_user_message(node)), default=0)
        if asked > self._told_at:
            self._told_at = asked
            words = (
                "The window fills faster than it can be emptied: no further compaction until you say how to "
                "continue, with a message, /compact or a model with a larger window."
            )
            self._emit(Noticed(kind="warning", text=words))
        for plan in (mask, plan_mask(path, 0)):
            if plan is not None and not fits:
                await self._apply(plan)
                fits = await self._measure_path(self._session.path[:]) <= FULL * window
        if not fits:
            raise ModelError(
                "overflow",
                f"The conversation does not fit the window of {window:,} tokens, though it was compacted a "
                "moment ago; ask for smaller steps or use a model with a larger window.",
            )

    async def _fold_without_summary(self, used: int, window: int, share: float) -> None:
        """Fold with an outline instead of a summary; if that is not enough, mask the remaining results."""
        path = await self._session.whole_path()
        draft = await self._draft(path, used, window, reserve=int(window * 0.04), share=share)
        if draft is not None:
            new = self._new_nodes(path, draft)
            room = self._meter.characters(int(window * 0.04))
            earlier = newest_fold(path)
            before = earlier[1].outline or earlier[1].summary if earlier is not None else ""
            outline = "\n".join(filter(None, [before[-room // 2 :], outline_of(new, room // 2)]))
            fold = replace(draft, outline=outline, decisions=self._decisions(draft, new, (), window))
            plan = await self._check_fold(path, fold, used)
            if plan is not None:
                await self._apply(plan)
                return
        if (mask := plan_mask(path, 0)) is not None:
            await self._apply(mask)

    async def _make_fold(
        self, path: Sequence[Node], used: int, window: int, *, focus: str = "", automatic: bool = True
    ) -> CompactionPlan | None:
        """Return a fold with a summary; None if nothing can be folded. Raises `UnusableSummaryError`."""
        conversation = self._meter.estimate(sum(map(size_of, sent_whole(path))))
        tokens = max(min(window // 20, conversation // 4, 4_000), 250)
        draft = await self._draft(path, used, window, reserve=tokens, share=TARGET + 0.1)
        if draft is None:
            return None
        new = self._new_nodes(path, draft)
        summary = await self._summary(path, new, window, tokens, focus)
        fold = replace(
            draft,
            summary=summary.text,
            decisions=self._decisions(draft, new, summary.decisions, window),
            focus=clean(focus),
            automatic=automatic,
        )
        plan = await self._check_fold(path, fold, used)
        if plan is None:
            raise UnusableSummaryError("with it the request would not have become smaller")
        if summary.notes and self._remember is not None:
            await self._note(summary.notes)
        return plan

    async def _draft(
        self, path: Sequence[Node], used: int, window: int, *, reserve: int, share: float
    ) -> ContextFold | None:
        """Return the fold that keeps the most and leaves room for a summary of `reserve` tokens, or that at
        least saves some; None if there is none.
        """
        found = newest_fold(path)
        earlier = found[1] if found is not None else None
        unchanged = await asyncio.to_thread(_unchanged_paths, read_files(path))
        conversation = sum(map(size_of, sent_whole(path)))
        best: ContextFold | None = None
        for level in _levels(self._rules.words):
            room = FoldRoom(
                tail=min(self._meter.characters(int(level.tail * window)), conversation // 4),
                words=self._meter.characters(int(level.words * window)),
                pins=self._meter.characters(int(level.pins * window)),
            )
            draft = await asyncio.to_thread(plan_fold, path, room, unchanged, earlier)
            if not (bool(self._new_nodes(path, draft)) and (earlier is None or draft.start > earlier.start)):
                continue
            after = await self._measure_path(path_after_compaction(path, draft.data())) + reserve
            if after < used:
                best = draft
                if after <= share * window:
                    return draft
        return best

    async def _summary(
        self, path: Sequence[Node], new: Sequence[Node], window: int, tokens: int, focus: str
    ) -> CompactionSummary:
        earlier = newest_fold(path)
        before = (earlier[1].summary or earlier[1].outline) if earlier is not None else ""
        # Half of the window at most, with a cautious count: the ratio may be from other text.
        room = int(window * 0.5 * min(self._meter.ratio, 3.5))
        task = await asyncio.to_thread(
            summary_task,
            new,
            before,
            room=room,
            words=int(tokens * 0.6),
            focus=focus,
            remember=self._remember is not None,
        )
        answer = await self._summarize(task.prompt, tokens)
        replaced = sum(map(size_of, new)) + len(before)
        longest = min(self._meter.characters(2 * tokens), max(replaced, 1))
        return await asyncio.to_thread(lambda: read_summary(answer, _everything(path), longest=longest))

    async def _check_fold(self, path: Sequence[Node], fold: ContextFold, used: int) -> CompactionPlan | None:
        """Return the plan for a fold with its figures; None if the request would not become smaller."""
        after = await self._measure_path(path_after_compaction(path, fold.data()))
        if after >= used:
            return None
        fold = replace(fold, before=used, after=after)
        saved = self._meter.characters(used - after)
        return await asyncio.to_thread(fold_plan, path, fold, saved)

    async def _apply(self, plan: CompactionPlan) -> None:
        """Carry out a plan. Once begun, this completes even if the turn is interrupted."""

        async def apply() -> None:
            await self._session.add_compaction(plan)
            await self._made(plan.sentence())

        task = asyncio.create_task(apply())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def _measure_path(self, path: Sequence[Node]) -> int:
        return await asyncio.to_thread(self._measure, path)

    # What can be folded, and when

    def _new_nodes(self, path: Sequence[Node], fold: ContextFold) -> list[Node]:
        """Return the nodes that a fold removes and that are still sent without it."""
        return [node for node in sent_whole(path) if node.id < fold.start]

    def _has_news(self, path: Sequence[Node]) -> bool:
        """Return whether there are messages since the last fold."""
        found = newest_fold(path)
        since = found[0].id if found is not None else 0
        return any(node.id > since and node.kind in ("user", "assistant") for node in path)

    def _is_too_soon(self, path: Sequence[Node]) -> bool:
        """Return whether few requests, and no user message, followed the last automatic fold."""
        found = newest_fold(path)
        if found is None or not found[1].automatic:
            return False
        since = [node for node in path if node.id > found[0].id]
        return sum(node.kind == "assistant" for node in since) < APART and not any(
            map(is_user_message, since)
        )

    def _failed_lately(self) -> bool:
        """Return whether a summary was unusable within the last few requests."""
        failed = self._failed_at
        if failed is None:
            return False
        path = self._session.path
        return sum(node.kind == "assistant" for node in path[position_of(path, failed + 1) :]) < APART

    def _decisions(
        self, fold: ContextFold, new: Sequence[Node], decided: Sequence[str], window: int
    ) -> tuple[str, ...]:
        room = self._meter.characters(int(window * 0.04))
        return merged_decisions(fold.decisions, [*answers_of(new), *decided], room)

    async def _note(self, notes: Sequence[tuple[str, str]]) -> None:
        assert self._remember is not None
        if count := await self._remember(notes):
            things = plural(count, "fact")
            words = f"Before the conversation was folded, {things} went to memory."
            self._emit(Noticed(kind="info", text=words))


def _unchanged_paths(files: Sequence[ReadFile]) -> frozenset[str]:
    """Return the paths of files whose contents still equal what was read. Reads the files."""
    same: set[str] = set()
    for file in files[-MAX_FILES:]:
        try:
            path = Path(file.path)
            if file.digest.startswith("stat:"):
                digest = stat_digest(path.stat())
            else:
                data, status = read_bytes(path, MAX_CHECKED)
                digest = digest_of(data, status)
        except (OSError, ValueError, RuntimeError):
            continue
        if digest == file.digest:
            same.add(file.path)
    return frozenset(same)


def _everything(path: Sequence[Node]) -> str:
    """Return the text of all messages, calls and summaries of the path, in which names can be searched."""
    pieces: list[str] = []
    for node in path:
        pieces.append(node.content)
        pieces += [f"{call['name']} {call['arguments']}" for call in node.data.get("calls", ())]
        if (fold := node.data.get("summary")) is not None:
            pieces.append(str(fold))
    return "\n".join(pieces)


class Summarizer:
    """Gets summaries from one model; its usage is charged to the session."""

    def __init__(self, route: ModelRoute, meter: Meter, retries: int = 1) -> None:
        self._route = route
        self._meter = meter
        self._retries = retries

    async def ask(self, prompt: str, tokens: int) -> str:
        """Return an answer of about `tokens` tokens.

        Raises `UnusableSummaryError` if there is none, or it is incomplete.
        """
        try:
            # Models that think first need room for it too.
            reply = await ask_aside(self._route, SYSTEM, [Message("user", prompt)], 2 * tokens, self._retries)
        except TimeoutError:
            raise UnusableSummaryError(f"the model gave none within {ASIDE:g} s") from None
        except HermesError as error:
            raise UnusableSummaryError(f"the model could not be asked: {clean(str(error))[:200]}") from None
        self._meter.add_aside(reply.usage, self._route.name)
        if reply.finish in ("length", "content_filter"):
            raise UnusableSummaryError("the model did not finish it")
        return reply.text
