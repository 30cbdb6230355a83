"""One search over all sources: exact matches, words in any order, and meaning.

The query may be a few words or a full question. A few words, quotes and symbols are taken literally, so
messages with all of them come first. A question is answered by the ranking of
`agent.knowledge.recall.scoring`.

The module also has the search in the form in which tools use it (`tools.context.SessionSearch`). Each hit
includes the messages around it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast, get_args

from agent.core.store import search as finding
from agent.core.store import session_list
from agent.core.store.branches import BranchPaths
from agent.core.store.nodes import readable
from agent.core.store.query_line import Filters, Query, parse
from agent.core.store.search import MAX_HITS, Order, SearchHit, SearchHits, around_hit, snippet
from agent.core.store.store import Store
from agent.errors import HermesError, StoreError
from agent.knowledge.recall import message_index, scoring
from agent.knowledge.recall.message_index import FoundMessages, MessageIndex
from agent.knowledge.recall.scoring import words_of
from agent.knowledge.recall.sources import Passage, PassageIndex, RecallSource
from tools.context import FoundMessage, FoundNote, FoundSession, SessionSearch
from tools.extras import add_hint
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.threads import close_all
from tools.text.redact import redact

if TYPE_CHECKING:
    from agent.knowledge.recall.meaning import Meaning
    from agent.knowledge.recall.static_child import Vectors

_PAUSE, _LONG_PAUSE = 2.0, 60.0
"""Seconds before a new message is indexed, and before a retry after an error."""

_MEANING_PAUSE = 5.0
"""Seconds without a new message before vectors are made."""

_REST, _SLICE = 0.002, 0.5
"""Seconds between two steps, for other work, and for making vectors before new messages are indexed."""


class BackgroundIndexer:
    """The background indexing of messages soon after they are written. Must be used in one event loop."""

    def __init__(self, index: MessageIndex, meaning: Meaning | None) -> None:
        self._index = index
        self._meaning = meaning
        self._task: asyncio.Task[None] | None = None
        self._requested = asyncio.Event()

    def index_soon(self) -> None:
        """Request that new messages are indexed in the background; return at once."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_up())
        self._requested.set()

    async def close(self) -> None:
        """Stop indexing; what is left is indexed after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _keep_up(self) -> None:
        while True:
            await self._requested.wait()
            await asyncio.sleep(_PAUSE)
            self._requested.clear()
            try:
                await self._index.catch_up(seconds=float("inf"), rest=_REST)
                await self._index.warm_up(rest=_REST)
                if self._meaning is not None and await self._is_left_alone():
                    await self._add_meaning(self._meaning)
            except HermesError:
                log.warning("the index of messages cannot be kept up", exc_info=True)
                await asyncio.sleep(_LONG_PAUSE)

    async def _is_left_alone(self) -> bool:
        """Wait a few seconds; return whether no new message arrived, so that vectors can be made."""
        try:
            async with asyncio.timeout(_MEANING_PAUSE):
                await self._requested.wait()
        except TimeoutError:
            return True
        return False

    async def _add_meaning(self, meaning: Meaning) -> None:
        """Make at least some vectors; stop when none are left or new messages arrive."""
        while not await meaning.catch_up(seconds=_SLICE, rest=_REST):
            if self._requested.is_set():
                return


log = logging.getLogger(__name__)

SearchMode = Literal["auto", "words", "meaning"]
MODES: tuple[SearchMode, ...] = get_args(SearchMode)

MESSAGES = "messages"
"""The name of the source that always exists."""

FEW = 3
"""The number of words up to which a search is literal."""

_AT_ONCE = 200
"""The number of nodes checked against filters at once: a few milliseconds."""

_NEAR, _NEAR_ALONE, _NEAR_NARROWED = 20, 100, 2_000
"""The numbers of messages added by meaning: with words, alone, and if filters drop some of them."""
_NEAR_PASSAGES = 300
_SHOWN = 2_000
"""The maximum number of characters shown of a passage."""
_HURRIED, _TYPING = 0.1, 2.0
"""The patience in seconds below which the user is typing, and for how long notes are reused then."""
_FIRST = 3
"""The maximum number of passages with the whole query that are listed before the newest messages."""
_LIKE, _LIKE_OF_FEW = 0.12, 0.25
"""The lowest cosine similarity that counts, in general and for few words, which resemble much."""

BY_WORDS = "What the question means was not known in time, so it was searched by its words alone."
NO_MEANING = (
    f"Searching by meaning needs the extra `semantic` (`{add_hint('semantic')}`) or a provider's "
    "model in the setting recall.embeddings; use the mode words or auto."
)

_MOMENT = 0.03
"""Seconds a search spends on indexing; a longer backlog is left to the background."""


class _Found(NamedTuple):
    """A hit: a node, or a passage from another source."""

    score: float
    scored: scoring.Scored | None = None
    """The score by words; None: it contains the exact query, or was found only by meaning."""
    node: int = 0
    session: str = ""
    """The session of a node; empty if it does not matter."""
    passage: Passage | None = None
    source: str = MESSAGES
    by_meaning: bool = False
    """Whether it is among the nearest in meaning."""


class _Answers(NamedTuple):
    """The hits of the ranking, and how certain and complete they are."""

    found: Sequence[_Found] = ()
    is_complete: bool = True
    """Whether everything was searched."""
    sure: float = 0.0
    """The confidence of the words, if meaning was searched too."""
    late: bool = False
    """Whether the meaning of the question was not known in time."""


class _Question(NamedTuple):
    """The words of a question and the filters of the search."""

    text: str
    words: Sequence[str]
    filters: Filters
    sources: Sequence[str]
    patience: float
    mode: SearchMode


class Recall:
    """The search in one store. Open it once per process and close it at the end."""

    def __init__(
        self, store: Store, *, sources: Sequence[RecallSource] = (), meaning: Meaning | None = None
    ) -> None:
        """Set up the search; `meaning` is None if no source of vectors is configured."""
        self._store = store
        self.meaning = meaning
        self._sources = tuple(sources)
        self._held: dict[str, tuple[float, Sequence[Passage]]] = {}
        """The passages of each source when it was last read, with the time."""
        self._shelves = {source.name: PassageIndex() for source in self._sources}
        self.index = MessageIndex(store.file.with_name("recall.db"), store)
        self._upkeep = BackgroundIndexer(self.index, meaning)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of the sources that are searched."""
        return (MESSAGES, *(source.name for source in self._sources))

    def index_soon(self) -> None:
        """Have new messages indexed soon in the background. Must be called on the event loop."""
        self._upkeep.index_soon()

    async def close(self) -> None:
        """Stop indexing, and close the files of the index and the vectors."""
        shelves = [each.close for each in self._shelves.values()]
        meaning = [] if self.meaning is None else [self.meaning.close]
        await close_all((self._upkeep.close, *shelves, self.index.close, *meaning))

    async def forget(self, sessions: Sequence[str]) -> None:
        """Remove sessions that are being deleted from the index."""
        try:
            await self.index.remove(sessions)
            if self.meaning is not None:
                await self.meaning.forget(sessions)
        except StoreError:
            # Their messages go anyway; what is left is removed when the index is opened next.
            log.warning("sessions %s could not be taken out of the index", ", ".join(sessions), exc_info=True)

    async def search(
        self,
        text: str,
        *,
        filters: Filters | None = None,
        limit: int = 20,
        offset: int = 0,
        order: Order = "rank",
        mode: SearchMode = "auto",
        patience: float = finding.PATIENCE,
        sources: Sequence[str] | None = None,
        by_session: bool = False,
    ) -> SearchHits:
        """Return the hits for `text`, best first or newest first.

        Only `sources` are searched. With `by_session` only the best message of each session counts.
        `patience` limits the seconds spent on searching old messages for parts of words. Any text is a valid
        question. Raises `StoreError`.
        """
        late = False
        if mode == "meaning":
            if self.meaning is None:
                raise StoreError(NO_MEANING)
            if late := await self.meaning.question(text, patience) is None:
                mode = "words"
        asked, wanted = filters or Filters(), self.source_names if sources is None else sources
        query = parse(text)
        room = session_list.bound_count(offset) + session_list.bound_count(limit)
        exact: list[int] = []
        complete = True
        if mode != "meaning":
            exact, complete = await self._exact(query, asked, order, patience, wanted)
        answers = _Answers()
        question = _Question(text, words_of(text), asked, wanted, patience, mode)
        first: list[_Found] = []
        if exact and order == "newest":
            # Nobody knows where they belong among messages by age, and below them nobody would see them.
            first = await self._whole_passages(question)
        else:
            answers = await self._answers(question, max(room, 1), is_found=bool(exact), by_session=by_session)
            complete = complete and answers.is_complete
        known = set(exact)
        found = [*first, *(_Found(0.0, None, node) for node in exact)]
        found += [each for each in answers.found if each.node not in known or each.passage is not None]
        if by_session:
            found = await self._one_each(found, answers.sure)
        found = space_out(found, lambda each: 1 if _is_named(each, question.words) else _every(each))
        found = found[:MAX_HITS]
        page = found[session_list.bound_count(offset) : room]
        note = BY_WORDS if late or answers.late else ""
        return SearchHits(len(found), await self._hits_of_page(page, query, text), complete, note)

    async def _exact(
        self, query: Query, filters: Filters, order: Order, patience: float, sources: Sequence[str]
    ) -> tuple[list[int], bool]:
        """Return the messages that contain the whole query, and whether the search was complete.

        The result is empty if the query is not meant literally.
        """
        is_meant = order == "newest" or len(query.terms) <= FEW or is_exact(query)
        if MESSAGES not in sources or not is_meant:
            return [], True
        return await finding.matching(
            self._store.database,
            query,
            filters,
            order=order,
            patience=patience,
            lineages=self._store.lineages,
        )

    async def _answers(self, asked: _Question, room: int, *, is_found: bool, by_session: bool) -> _Answers:
        """Return the hits of the ranking. If there are exact matches, hits without words of the query are
        left out.
        """
        if not asked.words:
            return _Answers()
        messages = FoundMessages((), {})
        if MESSAGES in asked.sources and asked.mode != "meaning":
            messages = await self._messages(asked.words, asked.filters)
        told = [_Found(each.score, each, node) for node, each in messages.hits if each.own or not is_found]
        all_counts = by_session or self.meaning is not None
        if told and (asked.filters or by_session):
            # Else only a deletion in this moment could drop one, and what is gone is not shown anyway.
            told = await self._let_through(told, asked.filters, len(told) if all_counts else room)
        others = await self._passages(asked, messages.rarities)
        found = sorted([*told, *others], key=lambda each: -each.score)
        if self.meaning is None or asked.mode == "words":
            return _Answers([each for each in found if each.scored is not None])
        return await self._by_meaning(self.meaning, asked, found, messages.possible, only_words=is_found)

    async def _by_meaning(
        self, meaning: Meaning, asked: _Question, found: list[_Found], possible: float, *, only_words: bool
    ) -> _Answers:
        """Return the hits in `found` combined with hits by meaning.

        With `only_words` none are added, because the query was found literally.
        """
        vector = await meaning.question(asked.text, asked.patience)
        by_words = [each for each in found if each.scored is not None]
        if vector is None:
            is_patient = asked.patience >= meaning.hurried
            return _Answers(by_words, is_patient, late=is_patient)
        count = len(asked.words)
        possible = possible or float(count)
        telling = [each.score for each in by_words if _every(each) == 1]
        sure = confidence(max(telling, default=0.0), possible)
        if asked.mode == "meaning":
            sure = 0.0
        adds = sure < 1 and not only_words
        nodes = [each.node for each in by_words if each.passage is None]
        cosines = dict(await meaning.likeness(vector, nodes)) if nodes else {}
        is_complete = True
        near: set[int] = set()
        if adds and MESSAGES in asked.sources:
            is_complete = asked.patience >= meaning.hurried
            added = await self._nearest(meaning, vector, asked) if is_complete else []
            near = {each.node for each in added}
            known = set(nodes)
            cosines |= {each.node: each.score for each in added}
            found += [each._replace(score=0.0) for each in added if each.node not in known]
        passages = [each for each in found if each.passage is not None]
        told = [f"{each.passage.title}\n{each.passage.text}" for each in passages if each.passage is not None]
        likenesses = await meaning.of_texts(vector, told, asked.patience) if told else ()
        by_passage = {id(each.passage): like for each, like in zip(passages, likenesses, strict=True)}
        least = 0.0 if asked.mode == "meaning" else _LIKE if count >= FEW else _LIKE_OF_FEW
        candidates: list[tuple[_Found, Contender]] = []
        for each in found:
            like = cosines.get(each.node) if each.passage is None else by_passage[id(each.passage)]
            is_near = like is not None and like >= least and (each.passage is not None or each.node in near)
            if each.scored is None and not (adds and is_near):
                continue
            own = 0 if each.scored is None else each.scored.own
            told_of = each._replace(by_meaning=adds and is_near)
            candidates.append((told_of, Contender(each.score, like, own >= count)))
        order = fuse([candidate for _, candidate in candidates], sure)
        answers = [candidates[at][0]._replace(score=score) for at, score in order]
        return _Answers(answers, is_complete, sure)

    async def _nearest(self, meaning: Meaning, vector: Vectors, asked: _Question) -> list[_Found]:
        """Return the messages nearest in meaning, with cosine similarity as the score."""
        filters = asked.filters
        within = None
        if message_index.narrows_sessions(filters):
            within = await self._store.database.read(lambda c: message_index.sessions_within(c, filters))
        narrowed = bool(replace(filters, session=None, session_begins="", project="", since=None, until=None))
        count = _NEAR_NARROWED if narrowed else _NEAR_ALONE if asked.mode == "meaning" else _NEAR
        near = await meaning.nearest(vector, count, sessions=within, since=filters.since, until=filters.until)
        return await self._let_through([_Found(cosine, None, node) for node, cosine in near], filters, count)

    async def _whole_passages(self, asked: _Question) -> list[_Found]:
        """Return the best notes of other sources that contain all words of the query."""
        found = await self._passages(asked._replace(mode="words"), {}) if asked.words else []
        whole = [each for each in found if each.scored is not None and each.scored.own >= len(asked.words)]
        return sorted(whole, key=lambda each: -each.score)[:_FIRST]

    async def _messages(self, words: Sequence[str], filters: Filters) -> FoundMessages:
        try:
            await self.index.catch_up(seconds=_MOMENT)
            within = None
            if message_index.narrows_sessions(filters):
                database = self._store.database
                within = await database.read(lambda c: message_index.sessions_within(c, filters))
            return await self.index.find(
                words,
                sessions=within,
                since=filters.since,
                until=filters.until,
                narrowed=bool(replace(filters, session=None, session_begins="", project="")),
            )
        except StoreError as error:
            # The exact search does without the index, and what was typed is looked for there.
            log.warning("the index of messages cannot be searched: %s", error)
            return FoundMessages((), {})

    async def _read(self, source: RecallSource, *, hurried: bool) -> Sequence[Passage]:
        """Return the passages of a source. If `hurried`, because the user is typing, recently read ones are
        reused.
        """
        before = self._held.get(source.name)
        if hurried and before is not None and time.monotonic() - before[0] < _TYPING:
            return before[1]
        passages = await source.passages()
        self._held[source.name] = (time.monotonic(), passages)
        return passages

    async def _let_through(self, found: Sequence[_Found], filters: Filters, room: int) -> list[_Found]:
        """Return the hits that pass the filters, at least `room` if there are as many."""
        database = self._store.database
        paths = BranchPaths(filters.branch, self._store.lineages) if filters.branch else None
        passed: list[_Found] = []
        for start in range(0, len(found), _AT_ONCE):
            some = found[start : start + _AT_ONCE]
            nodes = [each.node for each in some]
            sessions = await database.read(lambda c, n=nodes: message_index.matching_nodes(c, filters, n))
            if paths is not None:
                held = set(await finding.on_branches(database, paths, sorted(sessions)))
                sessions = {node: session for node, session in sessions.items() if node in held}
            passed += [each._replace(session=sessions[each.node]) for each in some if each.node in sessions]
            if len(passed) >= room:
                break
        return passed

    async def _passages(self, asked: _Question, rarities: Mapping[str, float]) -> list[_Found]:
        """Return hits from other sources; none if there are filters that only messages can pass.

        When searching by meaning, passages without any of the words are added without a score.
        """
        if replace(asked.filters, since=None, until=None):
            return []
        found: list[_Found] = []
        for source in self._sources:
            if source.name not in asked.sources:
                continue
            passages = [
                each
                for each in await self._read(source, hurried=asked.patience < _HURRIED)
                if _is_within(each, asked.filters)
            ]
            words = () if asked.mode == "meaning" else asked.words
            best = await self._shelves[source.name].best(words, passages, rarities)
            found += [_Found(each.score, each, passage=some, source=source.name) for some, each in best]
            if self.meaning is not None and asked.mode != "words":
                held = {id(passage) for passage, _ in best}
                rest = [each for each in passages if id(each) not in held][:_NEAR_PASSAGES]
                found += [_Found(0.0, passage=each, source=source.name) for each in rest]
        return found

    async def _one_each(self, found: Sequence[_Found], sure: float) -> list[_Found]:
        """Return the best hit of each session.

        Exact hits come first, the others in the order of the sessions' total scores. `sure` is the confidence
        that the word search found the right message.
        """
        exact = [each.node for each in found if each.node and not each.session]
        sessions = await self._store.database.read(lambda c: message_index.sessions_of(c, exact))
        first: dict[str, _Found] = {}
        scores: dict[str, list[float]] = {}
        by_words: dict[str, list[float]] = {}
        for each in found:
            if each.passage is None:
                session = each.session or sessions.get(each.node, "")
                first.setdefault(session, each)
                scores.setdefault(session, []).append(each.score)
                if each.scored is not None:
                    by_words.setdefault(session, []).append(each.scored.score)
        kept = [each for each in first.values() if not each.session]
        ranked = [session for session, each in first.items() if each.session]
        # Sessions only swap places, so their positions among other hits stay the same.
        places = [first[session].score for session in ranked]
        ranked.sort(key=lambda session: -scoring.of_session(scores[session]))
        told = {
            session: scoring.of_session(sorted(by_words[session], reverse=True))
            for session in ranked
            if session in by_words
        }
        ranked = ordered_sessions(ranked, sorted(told, key=lambda session: -told[session]), sure)
        answers = [
            first[session]._replace(score=score) for session, score in zip(ranked, places, strict=True)
        ]
        answers += [each for each in found if each.passage is not None]
        return kept + sorted(answers, key=lambda each: -each.score)

    async def _hits_of_page(self, page: Sequence[_Found], query: Query, text: str) -> tuple[SearchHit, ...]:
        secrets, words = self._store.secrets, words_of(text)
        is_exact_there = any(each.scored is None and not each.by_meaning for each in page)
        told = query if is_exact_there else parse(" ".join(words))
        nodes = [each.node for each in page if each.passage is None]
        hits = await finding.hits_of(self._store.database, told, nodes, secrets)
        by_node = {hit.node: hit for hit in hits}
        shown: list[SearchHit] = []
        for each in page:
            ways = scoring.sources(each.scored, len(words)) if each.scored is not None else ()
            if each.by_meaning:
                ways = (*ways, "meaning")
            ways = ways or ("exact",)
            if each.passage is not None:
                shown.append(replace(_passage_hit(each, each.passage, told, secrets), ways=ways))
            elif each.node in by_node:
                shown.append(replace(by_node[each.node], ways=ways))
        return tuple(shown)


def is_exact(query: Query) -> bool:
    """Return whether a query has quoted words or symbols beyond ordinary punctuation. Pure."""
    return any(" " in term or _SYMBOLS.search(_SENTENCE.sub("", term)) for term in query.raw)


_SENTENCE = lazy_pattern(r"""^["'“”‘’(\[¿¡]+|["'“”‘’)\].,;:!?…]+$""")
_SYMBOLS = lazy_pattern(r"(?<!\w)-|-(?!\w)|_|[^\w\s'’-]")


def _every(found: _Found) -> int:
    return 1 if found.passage is None else found.passage.every


def _is_named(found: _Found, words: Sequence[str]) -> bool:
    """Return whether the title of the passage contains all words of the query."""
    return found.passage is not None and set(words_of(found.passage.title)).issuperset(words)


def _is_within(passage: Passage, filters: Filters) -> bool:
    return (filters.since is None or passage.created >= filters.since) and (
        filters.until is None or passage.created <= filters.until
    )


def _passage_hit(found: _Found, passage: Passage, query: Query, secrets: Mapping[str, str]) -> SearchHit:
    return SearchHit(
        node=passage.node,
        session=passage.session,
        title=passage.title,
        kind=passage.kind,
        created=passage.created,
        snippet=snippet(passage.text, query, secrets),
        workspace="",
        tool="",
        source=found.source,
        text=redact(passage.text, secrets)[:_SHOWN],
    )


T = TypeVar("T")

SHARE = 0.1
"""The smallest weight of meaning in the ranking."""

_ENOUGH = 0.6
"""The share of the possible score at which words count as found."""
_STEEPNESS = 2
"""How fast the weight of meaning rises as fewer words are found."""
_KEPT = 20
"""The number of best hits by words whose places are protected."""
_FOUND = 0.4
"""The confidence from which sessions keep their places."""


class Contender(NamedTuple):
    """A hit that takes part in the ranking."""

    words: float
    """The score by words, 0 if none matched."""
    cosine: float | None
    """The similarity in meaning; None: unknown, the order by words applies."""
    is_whole: bool = False
    """Whether it contains each word of the question."""


def confidence(best: float, possible: float) -> float:
    """Return the confidence, from 0 to 1, that words found the answer.

    `best` is the best score, `possible` the score of a full match.
    """
    if possible <= 0:
        return 0.0
    return min(1.0, best / (_ENOUGH * possible)) ** _STEEPNESS


def fuse(contenders: Sequence[Contender], sure: float) -> list[tuple[int, float]]:
    """Return the combined order of contenders as pairs of index and score. Scores never increase.

    `sure` is the `confidence`. Contenders are given in their order by words, followed by those found only by
    meaning.
    """
    best = max((each.words for each in contenders), default=0.0) or 1.0
    share = SHARE + (1 - SHARE) * (1 - sure)

    def score(each: Contender) -> float:
        by_words = each.words / best
        if each.cosine is None:
            return by_words
        return (1 - share) * by_words + share * max(each.cosine, 0.0)

    scores = [score(each) for each in contenders]
    order = sorted(range(len(scores)), key=lambda at: -scores[at])
    kept = list(_move_up(order, _latest(contenders)))
    found: list[tuple[int, float]] = []
    highest = 0.0
    for at in reversed(kept):
        highest = max(highest, scores[at])
        found.append((at, highest))
    return found[::-1]


def ordered_sessions(ranked: Sequence[T], by_words: Sequence[T], sure: float) -> list[T]:
    """Return the sessions in the order of `ranked`, but move the first ones of `by_words` down by at most one
    place.

    That applies if words found something; `sure` is the `confidence`. A session has many messages, so
    similarity by chance would move it further than a single message.
    """
    if sure < _FOUND:
        return list(ranked)
    return list(_move_up(ranked, {session: at + 1 for at, session in enumerate(by_words[:_KEPT])}))


def space_out(found: Sequence[T], every: Callable[[T], int]) -> list[T]:
    """Reorder the items so that those for which `every` returns n take only each n-th place.

    They are added at the end when there are no other items left.
    """
    order: list[T] = []
    waiting: list[T] = []
    for each in found:
        if every(each) > 1:
            waiting.append(each)
            continue
        while waiting and (len(order) + 1) % every(waiting[0]) == 0:
            order.append(waiting.pop(0))
        order.append(each)
    return order + waiting


def _latest(contenders: Sequence[Contender]) -> dict[int, int]:
    """Return the last allowed place of each of the first contenders that were found by words."""
    return {
        at: at if each.is_whole else 2 * at + 1
        for at, each in enumerate(contenders[:_KEPT])
        if each.words > 0
    }


def _move_up(order: Sequence[T], latest: dict[T, int]) -> Iterator[T]:
    """Yield the items in order, but each item in `latest` at its place or earlier."""
    waiting = list(order)
    for place in range(len(order)):
        tight = _tight(latest.values(), place)
        at = next(each for each in waiting if tight is None or latest.get(each, tight + 1) <= tight)
        waiting.remove(at)
        latest.pop(at, None)
        yield at


def _tight(latest: Collection[int], place: int) -> int | None:
    """Return the first limit in `latest` that holds only if limited items fill all places from `place` up to
    it.

    Returns None without such a limit.
    """
    for count, last in enumerate(sorted(latest), 1):
        if count > last - place:
            return last
    return None


PATIENCE = 1.0
"""Seconds for searching older messages for parts of words."""


class ToolSearch(SessionSearch):
    """The search with one hit per session, because the model is shown the surrounding messages anyway."""

    def __init__(self, recall: Recall, store: Store) -> None:
        self._recall = recall
        self._store = store

    async def search(
        self,
        query: str,
        *,
        roles: Sequence[str] = (),
        session: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 5,
        offset: int = 0,
        window: int = 3,
        mode: str = "auto",
    ) -> tuple[int, list[FoundSession | FoundNote]]:
        """Return the number of hits and one page of them; see `tools.context.SessionSearch.search`."""
        hits = await self._recall.search(
            query,
            filters=Filters(roles=tuple(roles), session=session, since=since, until=until),
            limit=limit,
            offset=offset,
            mode=cast(SearchMode, mode),
            patience=PATIENCE,
            by_session=session is None,
        )
        return hits.total, [await self._describe_hit(hit, window) for hit in hits.hits]

    async def _describe_hit(self, hit: SearchHit, window: int) -> FoundSession | FoundNote:
        if hit.source != MESSAGES:
            return FoundNote(hit.source, hit.title, hit.snippet, hit.created, hit.ways)

        def read(connection: sqlite3.Connection) -> FoundSession:
            session, nodes = around_hit(connection, hit, window)
            messages = tuple(
                FoundMessage(
                    each.id,
                    each.kind,
                    each.created,
                    readable(each.kind, each.content, each.data),
                    each.id == hit.node,
                )
                for each in nodes
            )
            return FoundSession(
                session.id, session.title, session.created, hit.node, hit.snippet, messages, hit.ways
            )

        return await self._store.database.read(read)
