"""Texts of an editor that are behind the disk, or not saved: no older one is saved over a newer in silence.

A real `hermes acp` and the client of the protocol's package. What a person does in between happens in the
model server, between two of its replies.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from acp import schema

from tests.support.editor import Editor, editor
from tests.support.replies import Reply, call, resolve, say
from tests.support.thorough import thoroughly

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD = "value=old\nport=1\nend\n"
NEW = OLD.replace("old", "NEW")
READS = call("read_file", path="cfg.txt")
PORT = call("patch", mode="replace", path="cfg.txt", old_string="port=1", new_string="port=2")
V4A = call(
    "patch", mode="patch", patch="*** Begin Patch\n*** Update File: cfg.txt\n-port=1\n+port=2\n*** End Patch"
)
WHOLE = call("write_file", path="cfg.txt", content="mine\n")
SED = call("terminal", command="sed -i s/old/NEW/ cfg.txt")
GONE = call("terminal", command="rm cfg.txt")
Step = Reply | Callable[[Path, Editor], None]
STEPS: dict[str, list[Reply | Callable[[Any], Reply]]] = {}
SESSIONS: list[str] = []
RESULTS: dict[str, list[dict[str, Any]]] = {}


def script(request: Any) -> Any:
    asked = [(at, json.dumps(each)) for at, each in enumerate(request.messages) if each.get("role") == "user"]
    since, word = max((at, name) for at, text in asked for name in STEPS if f"<{name}>" in text)
    told = [each for each in request.messages[since:] if each.get("role") == "tool"]
    RESULTS[word] = [json.loads(each["content"]) for each in told]
    return resolve(STEPS[word].pop(0), request)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(project: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    """One session for all cases, each with a folder of its own in it: a session costs more than a case."""
    offered = schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    )
    async with editor(tmp_path_factory.mktemp("editor"), script, capabilities=offered) as opened:
        SESSIONS.append((await opened.agent.new_session(str(project))).session_id)
        await opened.agent.set_session_mode(session_id=SESSIONS[-1], mode_id="yolo")
        yield opened


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


async def played(there: Editor, folder: Path, *steps: Step) -> list[dict[str, Any]]:
    """The results of the calls of one turn; a function is what the person does before the next one."""
    word, file = folder.name, folder / "cfg.txt"
    pending: list[Callable[[Path, Editor], None]] = []
    replies: list[Reply | Callable[[Any], Reply]] = []
    for step in (*steps, say("Done.")):
        if not isinstance(step, Reply):
            pending.append(step)
            continue
        before, pending = pending, []

        def reply(_: Any, step: Reply = step, before: list[Any] = before) -> Reply:
            for act in before:
                act(file, there)
            made = (
                replace(each, arguments=each.arguments.replace("cfg.txt", f"{word}/cfg.txt"))
                for each in step.calls
            )
            return replace(step, calls=tuple(made))

        replies.append(reply)
    STEPS[word] = replies
    text = [schema.TextContentBlock(type="text", text=f"<{word}>")]
    await there.agent.prompt(session_id=SESSIONS[-1], prompt=text)
    return RESULTS[word]


def opens(file: Path, there: Editor) -> None:
    """The editor opens the file, and continues telling this text until it is given another one."""
    there.buffers[str(file)] = file.read_text()


def types(text: str) -> Callable[[Path, Editor], None]:
    def act(file: Path, there: Editor) -> None:
        there.buffers[str(file)] = text

    return act


def saves(file: Path, there: Editor) -> None:
    file.write_text(there.buffers[str(file)])


def another_agent(file: Path, there: Editor) -> None:
    file.write_text(NEW)


def checks_out(file: Path, there: Editor) -> None:
    def git(*words: str) -> None:
        who = {
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a",
        }
        subprocess.run(
            ["git", *words], cwd=file.parent, check=True, capture_output=True, env={**os.environ, **who}
        )

    git("init", "-q")
    git("add", "cfg.txt")
    git("commit", "-qm", "old")
    git("checkout", "-qb", "new")
    file.write_text(NEW)
    git("commit", "-qam", "new")


@pytest.fixture
def cfg(project: Path) -> Path:
    file = project / f"case{len(STEPS)}" / "cfg.txt"
    file.parent.mkdir()
    file.write_text(OLD)
    return file


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("change", "stuck"),
    [
        pytest.param(SED, True, id="command, of which the editor never hears"),
        pytest.param(another_agent, False, id="agent"),
        pytest.param(checks_out, False, id="checkout"),
    ],
)
async def test_a_text_that_was_not_typed_in_never_wins_over_a_newer_disk(
    there: Editor, cfg: Path, change: Step, stuck: bool
) -> None:
    there.buffers[str(cfg)] = OLD
    there.stuck |= {str(cfg)} if stuck else set()
    results = await played(there, cfg.parent, READS, change, READS, PORT, READS)
    reads = [each["content"] for each in results if "content" in each]
    assert "value=NEW" in reads[1] and "port=2" in reads[2]
    assert cfg.read_text() == NEW.replace("port=1", "port=2")
    assert stuck or there.buffers[str(cfg)] == cfg.read_text()


@pytest.mark.parametrize("last", [PORT, *thoroughly(V4A, WHOLE)])
async def test_what_a_command_changed_before_the_editor_was_ever_asked_stays(
    there: Editor, cfg: Path, last: Reply
) -> None:
    there.buffers[str(cfg)] = OLD
    results = await played(there, cfg.parent, SED, last, call("terminal", command="cat cfg.txt"))
    assert "error" not in results[1], results
    assert cfg.read_text() == ("mine\n" if last is WHOLE else NEW.replace("port=1", "port=2"))
    assert there.buffers[str(cfg)] == cfg.read_text()


@pytest.mark.sample(1)
@pytest.mark.parametrize("last", [PORT, WHOLE, *thoroughly(V4A)])
@pytest.mark.parametrize("seen", [True, *thoroughly(False)])
async def test_typed_text_and_a_newer_disk_are_both_kept_and_told(
    there: Editor, cfg: Path, last: Reply, seen: bool
) -> None:
    typed = OLD + "typed\n"
    there.buffers[str(cfg)] = OLD
    results = await played(there, cfg.parent, *([READS] if seen else []), SED, types(typed), READS, last)
    read, refused = results[-2:]
    assert "value=NEW" in read["content"] and "unsaved text" in read["note"] and "+typed" in read["note"]
    assert "Nothing was written" in refused["error"] and "save or reload it" in refused["error"]
    assert "-value=NEW" in refused["diff"] and "+typed" in refused["diff"]
    assert (cfg.read_text(), there.buffers[str(cfg)]) == (NEW, typed)


async def test_after_the_person_saved_or_reloaded_the_work_goes_on(there: Editor, cfg: Path) -> None:
    there.buffers[str(cfg)] = OLD
    results = await played(
        there,
        cfg.parent,
        READS,
        SED,
        types(OLD + "typed\n"),
        PORT,
        opens,
        PORT,
        types(NEW + "more\n"),
        saves,
        READS,
    )
    assert "error" in results[2] and "error" not in results[3]
    assert "more" in results[4]["content"] and "note" not in results[4]


async def test_typing_goes_on_after_the_editor_saved_by_itself(there: Editor, cfg: Path) -> None:
    there.buffers[str(cfg)] = OLD
    first, second = OLD + "one\n", OLD + "one\ntwo\n"
    results = await played(there, cfg.parent, READS, types(first), saves, types(second), PORT, READS)
    assert "error" not in results[1], results
    assert cfg.read_text() == second.replace("port=1", "port=2") == there.buffers[str(cfg)]


async def test_lines_in_another_order_are_a_change_like_any_other(there: Editor, cfg: Path) -> None:
    there.buffers[str(cfg)] = OLD
    sort = call("terminal", command="sort -o cfg.txt cfg.txt")
    results = await played(there, cfg.parent, READS, sort, types(OLD + "typed\n"), PORT)
    assert "Nothing was written" in results[-1]["error"]
    assert cfg.read_text() == "end\nport=1\nvalue=old\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("typed", [True, False], ids=["typed", "as it was"])
async def test_a_deleted_file_comes_back_only_where_nothing_typed_is_lost(
    there: Editor, cfg: Path, typed: bool
) -> None:
    there.buffers[str(cfg)] = OLD
    results = await played(
        there, cfg.parent, READS, GONE, *([types(OLD + "typed\n")] if typed else []), READS, WHOLE
    )
    read, written = results[-2:]
    if typed:
        assert "unsaved text" in read["error"] and "+typed" in read["error"]
        assert "Nothing was written" in written["error"] and not cfg.exists()
        assert there.buffers[str(cfg)].endswith("typed\n")
    else:
        assert "error" in read and written["created"] and cfg.read_text() == "mine\n"


@pytest.mark.thorough
async def test_what_was_typed_while_a_tool_wrote_is_not_taken_from_the_editor(
    there: Editor, cfg: Path
) -> None:
    there.buffers[str(cfg)] = OLD

    def typing() -> None:
        if cfg.read_text() != OLD:
            there.buffers[str(cfg)] = OLD + "typed\n"

    there.before_reading = typing
    results = await played(there, cfg.parent, READS, PORT)
    there.before_reading = lambda: None
    assert cfg.read_text() == OLD.replace("port=1", "port=2")
    assert "not given" in results[-1]["note"] and there.buffers[str(cfg)].endswith("typed\n")
