"""Searching by meaning: beside words, without them, and when what it needs is missing."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import cast

import numpy
import pytest

from agent.core.config.schema import Settings
from agent.core.config.sections import RecallSettings
from agent.core.store.nodes import Kind, NewNode, Session
from agent.core.store.search import Filters
from agent.core.store.store import Store
from agent.errors import ConfigError, StoreError
from agent.knowledge.recall import embedding
from agent.knowledge.recall.embedding import EmbeddingError, StaticEmbedder
from agent.knowledge.recall.meaning import Meaning
from agent.knowledge.recall.recall import Recall, SearchMode
from agent.knowledge.recall.sources import Passage
from agent.session.wiring.recall import embedder_of, open_meaning
from benchmarks import recall_meaning
from tests.agent.knowledge.recall.test_recall import Shelf

SAID: tuple[tuple[Kind, str], ...] = (
    ("user", "The boiler broke twice this winter."),
    ("assistant", "Shall I look for a plumber?"),
    ("user", "My daughter gets seasick, so no boats please."),
    ("tool", "the physician prescribed tablets"),
)

ASKING = """
import asyncio
from agent.knowledge.recall.embedding import StaticEmbedder, folder

async def ask():
    embedder = StaticEmbedder(folder())
    await embedder.packed([])
    print(embedder._worker.pid, flush=True)
    await embedder.packed(["the boiler broke"])
    print(embedder._worker.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(ask())
"""


@pytest.fixture
async def meaning(store: Store) -> AsyncIterator[Meaning]:
    opened = open_meaning(store, Settings(), {})
    assert opened is not None
    yield opened
    await opened.close()


@pytest.fixture
async def recall(store: Store, session: Session, meaning: Meaning) -> AsyncIterator[Recall]:
    await store.append_many(session.id, [NewNode(kind, text) for kind, text in SAID])
    recall = Recall(
        store, meaning=meaning, sources=[Shelf(Passage("note", "Clara is allergic to penicillin"))]
    )
    await recall.index.catch_up(seconds=60)
    await meaning.catch_up(seconds=60)
    yield recall
    await recall.close()


@pytest.mark.thorough
def test_no_kind_of_question_is_answered_less_often_than_by_words_alone(tmp_path: Path) -> None:
    found = asyncio.run(recall_meaning.places(tmp_path))
    shares = {key: recall_meaning.shares(places) for key, places in found.items()}
    for kind in recall_meaning.KINDS:
        both, words = shares["both", kind], shares["words alone", kind]
        assert all(one >= other for one, other in zip(both, words, strict=True)), (kind, both, words)
    assert len(found["both", "?"]) >= 100
    assert shares["words alone", "?"][2] < 5 < 70 < shares["both", "?"][2]


@pytest.mark.thorough
async def test_what_shares_no_word_with_the_question_is_found_and_says_how(recall: Recall) -> None:
    hits = await recall.search("what went wrong with the heating?", patience=1)
    assert hits.hits[0].snippet == SAID[0][1]
    assert hits.hits[0].ways == ("meaning",)
    hits = await recall.search("which antibiotic makes her ill?", patience=1)
    assert {hit.source for hit in hits.hits} == {"messages", "shelf"}
    hits = await recall.search("heating", mode="meaning", patience=1)
    assert hits.hits[0].snippet == SAID[0][1]


@pytest.mark.thorough
async def test_words_alone_and_exact_matches_are_as_they_were(recall: Recall) -> None:
    assert not (await recall.search("what went wrong with the heating?", mode="words", patience=1)).hits
    hits = await recall.search("boiler", patience=1)
    assert [hit.ways for hit in hits.hits] == [("exact",)]


@pytest.mark.thorough
async def test_filters_hold_for_what_is_found_by_meaning(recall: Recall) -> None:
    hits = await recall.search("what medicine am I taking?", patience=1, filters=Filters(roles=("tool",)))
    assert [hit.snippet for hit in hits.hits] == [SAID[3][1]]
    later = Filters(since=4e9)
    assert not (await recall.search("what medicine am I taking?", patience=1, filters=later)).hits


@pytest.mark.thorough
async def test_a_search_in_a_hurry_waits_for_nothing_and_says_there_is_more(recall: Recall) -> None:
    hits = await recall.search("what went wrong with the heating?", patience=0.005)
    assert not hits.hits
    assert not hits.complete


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["meaning", "auto"])
async def test_a_question_whose_meaning_comes_too_late_is_searched_by_words_and_says_so(
    recall: Recall, meaning: Meaning, monkeypatch: pytest.MonkeyPatch, mode: SearchMode
) -> None:
    async def never(text: str, patience: float) -> None:
        return None

    assert not (await recall.search("what of the boiler?", mode=mode, patience=1)).note
    monkeypatch.setattr(meaning, "question", never)
    hits = await recall.search("what of the boiler?", mode=mode, patience=1)
    assert hits.hits[0].snippet == SAID[0][1] and "words alone" in hits.note


@pytest.mark.thorough
async def test_vectors_of_deleted_sessions_and_of_another_model_are_forgotten(
    store: Store, session: Session, recall: Recall, meaning: Meaning
) -> None:
    assert stat.S_IMODE(meaning.path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(meaning.path)) as connection:
        sizes = {len(vector) for (vector,) in connection.execute("SELECT vector FROM vectors")}
        assert sizes == {512}
    await recall.forget([session.id])
    with closing(sqlite3.connect(meaning.path)) as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (0,)

    class Other(StaticEmbedder):
        space = "another/model"

    other = Meaning(meaning.path, store, Other(embedding.folder() or Path()))
    await other.catch_up(seconds=60)
    with closing(sqlite3.connect(meaning.path)) as connection:
        assert connection.execute("SELECT space FROM state").fetchone() == ("another/model",)
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (len(SAID),)
    await other.close()


@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["deleted", "torn"])
async def test_a_file_that_is_gone_or_torn_is_made_again(recall: Recall, store: Store, damage: str) -> None:
    meaning = recall.meaning
    assert meaning is not None
    await recall.close()
    if damage == "torn":
        meaning.path.write_bytes(b"torn" * 2_000)
    else:
        meaning.path.unlink()
    meaning = open_meaning(store, Settings(), {})
    assert meaning is not None and await meaning.catch_up(seconds=60)
    recall = Recall(store, meaning=meaning)
    assert (await recall.search("what went wrong with the heating?", patience=1)).hits
    await recall.close()


async def test_without_the_extra_nothing_changes_and_the_mode_says_what_it_needs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "PACKAGE", "a_package_that_is_not_there")
    assert open_meaning(store, Settings(), {}) is None
    assert open_meaning(store, Settings(recall=RecallSettings(embeddings="off")), {}) is None
    recall = Recall(store)
    with pytest.raises(StoreError, match="extras add semantic"):
        await recall.search("heating", mode="meaning")
    await recall.close()


def test_a_model_nobody_knows_is_told(store: Store) -> None:
    settings = Settings(recall=RecallSettings(embeddings="nowhere/model"))
    with pytest.raises(ConfigError):
        embedder_of(settings, {}, {})
    assert open_meaning(store, settings, {}) is None


class Endpoint:
    """A provider's `/embeddings` on loopback; a vector has a place for each letter."""

    def __init__(self) -> None:
        self.asked: list[dict] = []
        self.answer: bytes | None = None
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.asked.append({**body, "path": self.path, "key": self.headers["Authorization"]})
                rows = [
                    {"index": at, "embedding": [text.lower().count(each) for each in "abcdefghijklmnop"]}
                    for at, text in enumerate(body["input"])
                ]
                answer = endpoint.answer or json.dumps({"data": rows[::-1]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        provider = {
            "base_url": f"http://127.0.0.1:{self.server.server_port}/v1",
            "api_key_env": "MY_KEY",
        }
        self.settings = Settings.model_validate(
            {"providers": {"mine": provider}, "recall": {"embeddings": "mine/vectors-1"}}
        )
        self.environ = {"MY_KEY": "key-of-mine-123"}


@pytest.fixture
def endpoint():
    endpoint = Endpoint()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


async def test_a_provider_is_asked_with_its_key_and_without_secrets(endpoint: Endpoint) -> None:
    embedder = embedder_of(endpoint.settings, endpoint.environ, {"OTHER": "hunter2hunter2"})
    assert embedder is not None
    vectors = await embedder.embed(["aaaa hunter2hunter2", "bb"])
    assert [int(numpy.argmax(row)) for row in vectors] == [0, 1]
    (asked,) = endpoint.asked
    assert (asked["path"], asked["model"], asked["key"]) == (
        "/v1/embeddings",
        "vectors-1",
        "Bearer key-of-mine-123",
    )
    assert "hunter2" not in json.dumps(asked["input"])
    await embedder.aclose()


@pytest.mark.parametrize(
    "answer",
    [b"{", b"[]", b'{"data": []}', b'{"data": [{"embedding": "x"}]}', b'{"data": [{"embedding": [NaN]}]}'],
)
async def test_an_answer_that_is_no_vectors_is_one_sentence(endpoint: Endpoint, answer: bytes) -> None:
    endpoint.answer = answer
    embedder = embedder_of(endpoint.settings, endpoint.environ, {})
    assert embedder is not None
    with pytest.raises(EmbeddingError, match="no usable vectors"):
        await embedder.embed(["one"])
    await embedder.aclose()


async def test_a_provider_that_is_gone_leaves_the_words(
    store: Store, session: Session, endpoint: Endpoint
) -> None:
    await store.append_many(session.id, [NewNode(kind, text) for kind, text in SAID])
    meaning = open_meaning(store, endpoint.settings, endpoint.environ)
    assert meaning is not None
    recall = Recall(store, meaning=meaning)
    await recall.index.catch_up(seconds=60)
    endpoint.server.shutdown()
    endpoint.server.server_close()
    hits = await recall.search("did the boiler really break?", patience=2)
    assert hits.hits[0].snippet == SAID[0][1]
    with pytest.raises(EmbeddingError):
        await meaning.catch_up(seconds=1)
    await recall.close()


@pytest.mark.thorough
async def test_vectors_are_made_in_a_process_that_ends_when_it_is_idle_and_starts_again() -> None:
    place = embedding.folder()
    assert place is not None
    before = set(sys.modules)
    embedder = StaticEmbedder(place, idle=0.01)
    kept = await embedder.packed(["the boiler broke", ""])
    worker = embedder._worker
    assert [len(each) for each in kept] == [512, 512]
    assert not {"tokenizers", "safetensors"} & (set(sys.modules) - before)
    while worker.pid is not None:
        await asyncio.sleep(0.001)
    (again,) = await embedder.embed(["the boiler broke"])
    assert numpy.allclose(again, numpy.frombuffer(kept[0], "<f2"), atol=1e-3)
    await embedder.aclose()
    assert worker.pid is None


def test_the_process_that_makes_vectors_is_started_by_the_first_text_and_ends_with_the_program() -> None:
    program = subprocess.Popen([sys.executable, "-c", ASKING], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    with program, program.stdout as out:
        assert out.readline() == "None\n"
        worker = Path("/proc", out.readline().strip())
        assert worker.exists()
        program.kill()
    while worker.exists() and "State:\tZ" not in (worker / "status").read_text():
        time.sleep(0.01)


async def test_vectors_that_cannot_be_read_are_told_in_one_sentence(tmp_path: Path) -> None:
    embedder = StaticEmbedder(tmp_path)
    with pytest.raises(EmbeddingError, match=r"cannot be read .*extras add semantic"):
        await embedder.embed(["one"])
    await embedder.aclose()


class Watched:
    """Meaning that is never done, and remembers whether words came first."""

    def __init__(self) -> None:
        self.recall: Recall | None = None
        self.lags: list[bool] = []

    async def catch_up(self, *, seconds: float, rest: float = 0.0) -> bool:
        assert self.recall is not None
        reached, newest = await self.recall.index.progress()
        self.lags.append(reached < newest)
        return False

    async def close(self) -> None: ...


async def test_words_that_are_new_come_before_the_vectors_that_are_left(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.knowledge.recall.recall._PAUSE", 0.0)
    monkeypatch.setattr("agent.knowledge.recall.recall._MEANING_PAUSE", 0.0)
    watched = Watched()
    watched.recall = recall = Recall(store, meaning=cast(Meaning, watched))
    try:
        for number in range(3):
            await store.append(session.id, "user", f"message {number}")
            rounds = len(watched.lags)
            recall.index_soon()
            while len(watched.lags) < rounds + 4:
                await asyncio.sleep(0.001)
            assert not any(watched.lags[rounds + 2 :])
    finally:
        await recall.close()
