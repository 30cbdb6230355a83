"""How often recall finds what answers a question, on the conversations of LoCoMo.

    .venv/bin/python benchmarks/recall_locomo.py PATH [--mode auto|words|meaning] [--stores one,each]

PATH is `locomo10.zip` of github.com/snap-research/locomo (data/), the folder it unpacks to, or a
`locomo10.json`. The data is licensed for research only and stays outside of this repository.

Each session becomes a session of the store, in one store for all conversations or in a store for each.
Questions without an answer in the conversation (category 5) and without evidence are left out. Turns R@k:
a turn that is evidence is among the first k hits. Sessions R@k: a session that holds evidence is among the
first k, with one hit for each session. The ranking was tuned on every second conversation only; the others
are shown by themselves.

Targets, by words alone: turns R@5 >= 69 %, turns R@10 >= 78 %, sessions R@5 >= 92 %.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.core.config.schema import Settings
from agent.core.store.importing import NodeRecord, SessionRecord
from agent.core.store.store import Store
from agent.knowledge.recall.recall import MODES, Recall, SearchMode
from agent.session.wiring.recall import open_meaning

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D\d+:\d+")
_UNANSWERABLE = 5
DEPTHS = (1, 5, 10, 20)
SESSION_DEPTHS = (1, 5)
PATIENCE = 1.0
"""Seconds, as the tool `session_search` has them."""


@dataclass(frozen=True)
class Turn:
    """What was said once."""

    id: str
    speaker: str
    text: str


@dataclass(frozen=True)
class Talk:
    """One of the ten conversations: its sessions with their moments, and its questions."""

    name: str
    sessions: tuple[tuple[float, tuple[Turn, ...]], ...]
    questions: tuple[tuple[str, frozenset[str]], ...]
    """Each with the turns that are evidence."""


@dataclass(frozen=True)
class Outcome:
    """The place of the first hit that counts for one question, from 0; None: it was not found."""

    turn: int | None
    session: int | None


def read_talks(path: Path) -> list[Talk]:
    """The conversations of a file or folder, by name."""
    if path.is_dir():
        found = [(file.stem, json.loads(file.read_bytes())) for file in path.rglob("*.json")]
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".json")]
            found = [(Path(name).stem, json.loads(archive.read(name))) for name in names]
    else:
        found = [(path.stem, json.loads(path.read_bytes()))]
    talks: list[Talk] = []
    for name, content in found:
        if isinstance(content, list):
            talks += [_talk(str(each.get("sample_id", at)), each) for at, each in enumerate(content)]
        else:
            talks.append(_talk(name, content))
    return sorted(talks, key=lambda talk: talk.name)


def _talk(name: str, content: dict[str, Any]) -> Talk:
    spoken = content.get("conversation", content)
    numbers = sorted(int(match[1]) for key in spoken if (match := _SESSION.fullmatch(key)) and spoken[key])
    sessions = tuple(
        (
            _moment(spoken[f"session_{number}_date_time"]),
            tuple(Turn(each["dia_id"], each["speaker"], _said(each)) for each in spoken[f"session_{number}"]),
        )
        for number in numbers
    )
    known = {turn.id for _, turns in sessions for turn in turns}
    questions = []
    for each in content["qa"]:
        evidence = known & set(_EVIDENCE.findall(str(each.get("evidence"))))
        if each.get("category") != _UNANSWERABLE and evidence:
            questions.append((str(each["question"]), frozenset(evidence)))
    return Talk(name, sessions, tuple(questions))


def _said(turn: dict[str, Any]) -> str:
    shown = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{shown}"


def _moment(text: str) -> float:
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").timestamp()


def records(talks: Sequence[Talk]) -> Iterator[tuple[SessionRecord, list[tuple[str, str]]]]:
    """A session for each session, and the conversation and turn of each of its nodes."""
    number = 0
    for talk in talks:
        for at, (moment, turns) in enumerate(talk.sessions, 1):
            record = SessionRecord(f"{talk.name}-{at:02}", title=f"{talk.name} {at}")
            names: list[tuple[str, str]] = []
            first = turns[0].speaker
            for second, turn in enumerate(turns):
                number += 1
                parent = number - 1 if second else None
                kind = "user" if turn.speaker == first else "assistant"
                record.nodes.append(NodeRecord(number, parent, kind, moment + second, turn.text, {}))
                names.append((talk.name, turn.id))
            record.heads["main"] = number
            yield record, names


async def asked(talks: Sequence[Talk], mode: SearchMode, folder: Path) -> dict[str, list[Outcome]]:
    """Outcomes of all questions over one store with these conversations, by conversation."""
    turn_of: dict[int, tuple[str, str]] = {}
    sessions: list[SessionRecord] = []
    for record, names in records(talks):
        sessions.append(record)
        turn_of |= {node.id: name for node, name in zip(record.nodes, names, strict=True)}
    outcomes: dict[str, list[Outcome]] = {}
    async with await Store.open(folder / "state.db") as store:
        for imported in await store.import_sessions(sessions):
            assert all(one == two for one, two in imported.nodes.items())
        recall = Recall(store, meaning=None if mode == "words" else open_meaning(store, Settings(), {}))
        try:
            await recall.index.catch_up(seconds=float("inf"))
            if recall.meaning is not None:
                await recall.meaning.catch_up(seconds=float("inf"))
            for talk in talks:
                outcomes[talk.name] = [
                    await _outcome(recall, talk.name, question, evidence, mode, turn_of)
                    for question, evidence in talk.questions
                ]
        finally:
            await recall.close()
    return outcomes


async def _outcome(
    recall: Recall,
    talk: str,
    question: str,
    evidence: frozenset[str],
    mode: SearchMode,
    turn_of: dict[int, tuple[str, str]],
) -> Outcome:
    hits = await recall.search(question, limit=max(DEPTHS), mode=mode, patience=PATIENCE)
    turns = [turn_of[hit.node] in {(talk, each) for each in evidence} for hit in hits.hits]
    holding = {(talk, each.split(":")[0]) for each in evidence}
    hits = await recall.search(
        question, limit=max(SESSION_DEPTHS), mode=mode, by_session=True, patience=PATIENCE
    )
    sessions = [(turn_of[hit.node][0], turn_of[hit.node][1].split(":")[0]) in holding for hit in hits.hits]
    return Outcome(_first(turns), _first(sessions))


def _first(found: list[bool]) -> int | None:
    return found.index(True) if True in found else None


def row(label: str, outcomes: Sequence[Outcome]) -> str:
    """The shares of questions that were answered within each depth."""
    shares = [
        100 * sum(each.turn is not None and each.turn < depth for each in outcomes) / len(outcomes)
        for depth in DEPTHS
    ] + [
        100 * sum(each.session is not None and each.session < depth for each in outcomes) / len(outcomes)
        for depth in SESSION_DEPTHS
    ]
    return f"{label:<34}{len(outcomes):>6}" + "".join(f"{share:>9.1f}" for share in shares)


async def run(path: Path, mode: SearchMode, stores: Sequence[str]) -> None:
    talks = read_talks(path)
    count = sum(len(turns) for talk in talks for _, turns in talk.sessions)
    print(f"{len(talks)} conversations, {count:,} turns, mode {mode}\n")
    heads = [f"R@{depth}" for depth in DEPTHS] + [f"ses@{depth}" for depth in SESSION_DEPTHS]
    print(f"{'':<34}{'asked':>6}" + "".join(f"{head:>9}" for head in heads))
    for kind in stores:
        outcomes: dict[str, list[Outcome]] = {}
        for group in [talks] if kind == "one" else [[talk] for talk in talks]:
            with tempfile.TemporaryDirectory() as folder:
                outcomes |= await asked(group, mode, Path(folder))
        names = sorted(outcomes)
        label = "one store" if kind == "one" else "a store for each"
        for which, some in (("all", names), ("tuned on", names[::2]), ("held back", names[1::2])):
            print(row(f"{label}, {which}", [each for name in some for each in outcomes[name]]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--mode", choices=MODES, default="words")
    parser.add_argument("--stores", default="one,each", help="one, each or both with a comma")
    options = parser.parse_args()
    if options.path is None:
        print("Skipped: give the path of LoCoMo's data; see the head of this file.")
        return
    asyncio.run(run(options.path, options.mode, options.stores.split(",")))


if __name__ == "__main__":
    main()
