"""Messages, notes, learnings and skills in one ranking, each project with its own only."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.core.store.importing import NodeRecord, SessionRecord
from agent.core.store.query_line import Filters
from agent.core.store.store import Store
from agent.knowledge.learnings.failures import EVERYWHERE
from agent.knowledge.learnings.learning import Learning
from agent.knowledge.learnings.store import LearningStore
from agent.knowledge.memory.files import MemoryOperation, Origin
from agent.knowledge.memory.scopes import project_id, project_root
from agent.knowledge.memory.service import MemoryFiles
from agent.knowledge.recall.recall import Recall
from agent.session.wiring.recall import open_meaning, recall_sources
from benchmarks import recall_meaning
from tests.support.skills import write_skill

SESSIONS = 1_000


def learned(project: str, fix: str, **more: object) -> Learning:
    texts = {"pattern": "make deploy", "error_type": "missing harbour", "fix": fix}
    fields = {
        "key": f"k{fix}",
        "project": project,
        "status": "learning",
        "origin": "person",
        "tool": "terminal",
    }
    return Learning(**{**fields, **texts, "created_at": 1.0, "updated_at": 1.0, **more})  # type: ignore[arg-type]


@pytest.fixture
def folders(path: Path) -> dict[str, Path]:
    made = {name: path.parent / name for name in ("crimson", "azure")}
    for folder in made.values():
        (folder / ".git").mkdir(parents=True)
    return made


async def opened(store: Store, home: Home, workspace: Path) -> Recall:
    notes = MemoryFiles(home.memories, workspace)
    return Recall(store, sources=recall_sources(store, home, workspace, Settings(), notes))


async def test_nothing_of_one_project_is_found_in_the_other(
    store: Store, path: Path, folders: dict[str, Path]
) -> None:
    home, names = Home(path.parent), list(folders)
    records = []
    for number in range(1, SESSIONS + 1):
        name = names[number % 2]
        node = NodeRecord(number, None, "user", 1e9 + number, f"{name} harbour lantern {number}", {})
        records.append(SessionRecord(f"s{number:04}", [node], {"main": number}, workspace=str(folders[name])))
    await store.import_sessions(records)
    for name, folder in folders.items():
        notes = MemoryFiles(home.memories, folder)
        await notes.write("project", [MemoryOperation("add", f"{name} harbour note")], Origin(1.0))
        known = LearningStore(store.database, project_id(project_root(folder)))
        await known.keep(learned(known.project, f"{name} harbour fix"))
    for name, other in (names, names[::-1]):
        recall = await opened(store, home, folders[name])
        asked = f"{other} harbour lantern note and fix of {name}"
        hits = (await recall.search(asked, sources=["memory", "learnings", "skills"], limit=500)).hits
        assert {hit.source for hit in hits} >= {"memory", "learnings"}
        assert not [hit for hit in hits if other in hit.snippet]
        hits = (await recall.search(asked, filters=Filters(project=f"/{name}"), limit=500)).hits
        assert hits
        assert {hit.workspace for hit in hits} == {str(folders[name])}
        await recall.close()


async def test_each_source_has_its_place_in_one_ranking(
    store: Store, path: Path, folders: dict[str, Path]
) -> None:
    home = Home(path.parent)
    write_skill(
        home.root / "skills", "nautical/sextant-reading", body="Hold the sextant to the horizon at noon."
    )
    known = LearningStore(store.database, "elsewhere")
    await known.keep(learned(EVERYWHERE, "the sextant needs calibration first"))
    await known.keep(learned(EVERYWHERE, "a sextant of old", status="retired"))
    session = await store.create_session(workspace="/w", model="m")
    await store.append(session.id, "user", "my sextant is broken at noon on the horizon")
    recall = await opened(store, home, folders["crimson"])
    hits = (await recall.search("how is a sextant used at noon with the horizon", limit=50)).hits
    by_source = {hit.source: hit for hit in reversed(hits)}
    assert by_source.keys() >= {"messages", "learnings", "skills"}
    assert by_source["skills"].title == "sextant-reading"
    assert hits[0].source in ("messages", "skills")
    assert "calibration" in by_source["learnings"].snippet
    assert not [hit for hit in hits if "of old" in hit.snippet]
    await recall.close()


@pytest.mark.thorough
async def test_bundled_skills_stand_before_no_message_that_was_meant(
    store: Store, path: Path, folders: dict[str, Path]
) -> None:
    talk = recall_meaning.read()
    await store.import_sessions(talk.sessions)
    notes = MemoryFiles(Home(path.parent).memories, folders["crimson"])
    sources = recall_sources(store, Home(path.parent), folders["crimson"], Settings(), notes)
    recall = Recall(store, sources=sources, meaning=open_meaning(store, Settings(), {}))
    assert recall.meaning is not None
    await recall.index.catch_up(seconds=60)
    await recall.meaning.catch_up(seconds=60)

    async def place(asked: str, wanted: int | str, sources: list[str] | None) -> int:
        hits = (await recall.search(asked, limit=10, patience=1, sources=sources)).hits
        found = [hit.title if hit.source == "skills" else hit.node for hit in hits]
        return found.index(wanted) if wanted in found else 10

    questions = [(text, node) for kind, text, node in talk.questions if kind == "?"][::2]
    alone = [await place(text, node, ["messages"]) for text, node in questions]
    beside = [await place(text, node, None) for text, node in questions]
    for depth in (1, 4, 8):
        assert sum(at < depth for at in beside) >= sum(at < depth for at in alone), (depth, alone, beside)
    lines = (recall_meaning.PATH.parent / "skill_questions.txt").read_text().splitlines()
    wanted = [line.partition(" ")[::2] for line in lines if line[0] != "#"]
    places = [await place(asked, skill, None) for skill, asked in wanted]
    assert sum(at < 5 for at in places) >= 0.7 * len(places), places
    assert sum(at < 10 for at in places) >= 0.9 * len(places), places
    assert await place("git rescue", "git-rescue", None) == 0
    await recall.close()
