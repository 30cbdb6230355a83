"""How often recall finds what answers a question that shares no word with the answer.

    .venv/bin/python benchmarks/recall_meaning.py

The talk and its questions stand in `benchmarks/data/paraphrases.txt`: 101 facts in 29 sessions, each asked
for once in other words throughout and once in its own. Three rankings are shown: words alone, meaning alone,
both.
Ends with 1 where both find less than words alone at any depth, for either kind of question.

Needs the extra `semantic`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.core.config.schema import Settings
from agent.core.store.importing import NodeRecord, SessionRecord
from agent.core.store.store import Store
from agent.knowledge.recall.recall import Recall, SearchMode
from agent.session.wiring.recall import open_meaning

PATH = Path(__file__).parent / "data" / "paraphrases.txt"
DEPTHS = (1, 5, 10, 20)
PATIENCE = 1.0
KINDS = {"?": "in other words", "=": "in its own words"}
RANKINGS: dict[str, SearchMode] = {"words alone": "words", "meaning alone": "meaning", "both": "auto"}


@dataclass
class Talk:
    """The sessions of the file, and its questions: kind, text, and the node that answers."""

    sessions: list[SessionRecord] = field(default_factory=list)
    questions: list[tuple[str, str, int]] = field(default_factory=list)


def read(path: Path = PATH) -> Talk:
    """The talk, a day for each session, ending today."""
    talk, node, parent = Talk(), 0, None
    lines = [line.partition(" ") for line in path.read_text().splitlines() if line and line[0] != "#"]
    moment = time.time() - 86_400 * sum(kind == "@" for kind, _, _ in lines)
    for kind, _, text in lines:
        if kind == "@":
            talk.sessions.append(SessionRecord(f"talk-{len(talk.sessions):02}", title=text))
            parent, moment = None, moment + 86_400
        elif kind in KINDS:
            talk.questions.append((kind, text, node))
        else:
            node += 1
            role = "user" if kind == "u" else "assistant"
            talk.sessions[-1].nodes.append(NodeRecord(node, parent, role, moment + node, text, {}))
            talk.sessions[-1].heads["main"] = parent = node
    return talk


async def places(folder: Path) -> dict[tuple[str, str], list[int | None]]:
    """The place of each answer among the hits, from 0, by ranking and kind of question."""
    talk = read()
    found: dict[tuple[str, str], list[int | None]] = {}
    async with await Store.open(folder / "state.db") as store:
        await store.import_sessions(talk.sessions)
        recall = Recall(store, meaning=open_meaning(store, Settings(), {}))
        try:
            assert recall.meaning is not None, "the extra `semantic` is missing"
            await recall.index.catch_up(seconds=60)
            await recall.meaning.catch_up(seconds=60)
            for ranking, mode in RANKINGS.items():
                for kind, text, answer in talk.questions:
                    hits = await recall.search(text, limit=max(DEPTHS), mode=mode, patience=PATIENCE)
                    nodes = [hit.node for hit in hits.hits]
                    place = nodes.index(answer) if answer in nodes else None
                    found.setdefault((ranking, kind), []).append(place)
        finally:
            await recall.close()
    return found


def shares(found: list[int | None]) -> list[float]:
    """Percent of the answers that are found within each depth."""
    return [100 * sum(at is not None and at < depth for at in found) / len(found) for depth in DEPTHS]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(places(Path(folder)))
    print(f"{'':<34}{'asked':>6}" + "".join(f"{f'R@{depth}':>9}" for depth in DEPTHS))
    for (ranking, kind), some in found.items():
        row = "".join(f"{share:>9.1f}" for share in shares(some))
        print(f"{f'{KINDS[kind]}, {ranking}':<34}{len(some):>6}{row}")
    below = [
        kind
        for kind in KINDS
        if any(
            b < w
            for b, w in zip(shares(found["both", kind]), shares(found["words alone", kind]), strict=True)
        )
    ]
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
