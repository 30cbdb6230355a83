"""What the commands print on a real terminal when they tell of hostile things: text and colours only."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from agent.core.home import Home
from agent.core.store.store import Store
from agent.safety.audit.log import AuditLog
from tests.support.command import HERMES, environment
from tests.support.hostile import SECRET, SHORT
from tests.support.model_process import ServerProcess
from tests.support.terminal import Terminal
from tools.text.safe_text import steers

KINDS = [kind.numbered(number) for number, kind in enumerate(SHORT)]
WORDS = {kind.shows[0] for kind in KINDS}
COLOUR = re.compile("\x1b\\[[0-9;:]*m|\x1b\\[\\?2004[hl]")
SIZE = (120, 40)


def storable(text: str) -> str:
    """The text as a file can hold it: no halves of characters."""
    return text.encode("utf-8", "replace").decode()


async def filled(home: Home, workspace: Path) -> str:
    """A store of hostile titles and messages; the session in which all of them were said."""
    titled = KINDS[::9]
    async with await Store.open(home.database) as store:
        said = await store.create_session(workspace=str(workspace), model="demo", title="All of it")
        for start in range(0, len(KINDS), 16):
            text = "\n".join(kind.text for kind in KINDS[start : start + 16])
            await store.append(said.id, "user", text, {"origin": "prompt"})
            await store.append(said.id, "assistant", text, {"reasoning": text})
        ids = [(await store.create_session(workspace=str(workspace), model="demo")).id for _ in titled]
    # The store tidies a title; a file that came from elsewhere may hold any.
    with closing(sqlite3.connect(home.database)) as connection, connection:
        for id, kind in zip(ids, titled, strict=True):
            row = (storable(kind.text), storable(kind.text), id)
            connection.execute("UPDATE sessions SET title = ?, model = ? WHERE id = ?", row)
    return said.id


def audited(home: Home) -> None:
    log = AuditLog(home.root / "audit")
    for kind in KINDS[::4]:
        log.append(
            {"time": 1_760_000_000, "session": kind.text, "judge": kind.text, "outcome": "denied"}
            | {"tool": kind.text, "headline": kind.text, "agent": kind.text, "reasons": [kind.text]}
        )


def configured(home: Home) -> None:
    """Settings, rules and skins that say hostile things, wrong ones among them."""
    texts = [storable(kind.text) for kind in KINDS]
    models = {text: {} for text in texts[::8]}
    settings = {
        "model": {"name": texts[0]},
        "providers": {"mine": {"base_url": "https://models.example/v1", "models": models}},
        "keys": {text: text for text in texts},
        **dict.fromkeys(texts[::10], 1),
    }
    (home.root / "config.yaml").write_text(yaml.safe_dump(settings))
    folder = home.root / "skins"
    folder.mkdir()
    for number, text in enumerate(texts[::12]):
        said = {"description": text, "welcome": text, "verbs": [text], "banner": text, text[:50]: text}
        (folder / f"s{number}.yaml").write_text(yaml.safe_dump({**said, "prompt_symbol": text}))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a home beside it, both full of hostile text."""
    folder = tmp_path_factory.mktemp("hostile")
    workspace = folder / "project"
    workspace.mkdir()
    home = Home(folder / "home")
    home.root.mkdir(mode=0o700)
    said = asyncio.run(filled(home, workspace))
    audited(home)
    configured(home)
    (folder / "said").write_text(said)
    return folder


def checked(painted: bytes | bytearray) -> str:
    """What was written to a terminal as text, after a check that only colours are sequences."""
    plain = COLOUR.sub("", painted.decode("utf-8").replace("\r\n", "\n"))
    assert "Traceback" not in plain
    for line in plain.replace("\t", " ").split("\n"):
        assert not steers(line), ascii(line)[:500]
    return plain


def printed(folder: Path, *arguments: str, base_url: str = "", home: str = "home") -> str:
    """What a command writes to its terminal."""
    environ = environment(folder / home, base_url)
    with Terminal([*HERMES, *arguments], environ, folder / "project", SIZE) as terminal:
        assert terminal.drain() >= 0
        return checked(terminal.painted)


def words_of(plain: str) -> set[str]:
    return set(re.findall(r"(?:otter|lynx)\d{3}", plain))


COMMANDS = [
    ("doctor",),
    ("config", "check"),
    ("permissions", "list"),
    ("skins", "list"),
    ("skins", "show", "s3"),
    ("audit",),
    ("model", "list"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_prints_text_and_colours_only(project: Path, command: tuple[str, ...]) -> None:
    assert printed(project, *command).strip()


def test_the_sessions_are_listed_with_their_titles(project: Path) -> None:
    plain = printed(project, "sessions", "list")
    assert words_of(plain) and SECRET not in plain


def test_a_session_is_shown_with_all_that_was_said(project: Path) -> None:
    plain = printed(project, "sessions", "show", (project / "said").read_text())
    assert words_of(plain) >= WORDS


def test_a_session_is_exported_with_all_that_was_said(project: Path) -> None:
    plain = printed(project, "sessions", "export", (project / "said").read_text())
    assert words_of(plain) >= WORDS
    assert all(json.loads(line) for line in plain.splitlines())


@pytest.mark.thorough
def test_what_is_found_in_sessions_is_text(project: Path) -> None:
    assert words_of(printed(project, "sessions", "search", KINDS[3].shows[0]))


@pytest.mark.thorough
def test_a_command_line_is_explained_in_plain_text(project: Path) -> None:
    line = "; ".join(storable(kind.text.replace("\0", ""))[:200] for kind in KINDS[::3])
    assert printed(project, "permissions", "explain", line[:60_000]).strip()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A model that says everything in one answer, as its second one an error that does."""
    text = "\n\n".join(storable(kind.text) for kind in KINDS[::4])
    script = f"text = {text!a}\nscript = by_step([say(text), refuse(400, text[:9000])])"
    with ServerProcess(script, tmp_path_factory.mktemp("model")) as process:
        yield process.base_url


@pytest.mark.thorough
def test_an_answer_and_an_error_are_text(project: Path, server: str) -> None:
    assert words_of(printed(project, "-p", "hi", base_url=server, home="plain")) >= words_of_answer()
    failed = printed(project, "--continue", "-p", "again", base_url=server, home="plain")
    assert KINDS[0].shows[0] in failed


@pytest.mark.thorough
def test_events_as_lines_of_json_are_text(project: Path, server: str) -> None:
    plain = printed(project, "--json", "-p", "hi", base_url=server, home="lines")
    events = [json.loads(line) for line in plain.splitlines()]
    assert events[-1]["type"] == "turn_ended" and words_of(plain) >= words_of_answer()


@pytest.mark.thorough
def test_a_plain_conversation_is_text(project: Path, server: str) -> None:
    environ = environment(project / "talk", server)
    with Terminal([*HERMES, "--plain"], environ, project / "project", SIZE) as terminal:
        terminal.until(b"leaves.")
        terminal.press("hi\r")
        terminal.until(KINDS[::4][-1].shows[0].encode())
        terminal.press("again\r")
        terminal.until(b"HTTP 400")
        terminal.press("/quit\r")
        terminal.drain()
        assert words_of(checked(terminal.painted)) >= words_of_answer()


def words_of_answer() -> set[str]:
    return {kind.shows[0] for kind in KINDS[::4]}
