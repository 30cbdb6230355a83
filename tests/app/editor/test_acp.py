"""`hermes acp` as a real process, with the client of the protocol's own package as the editor.

One process serves the tests of this module, each with sessions and a folder of its own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from acp import RequestError, schema

from agent.core.store.store import Store
from app.editor.editor_agent import EditorAgent
from tests.support.editor import Editor, editor
from tests.support.replies import Reply, by_step, call, calls, refuse, say

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TODO = call("todo_write", todos=[{"id": "1", "content": "Write it", "status": "in_progress"}])
READS = call("read_file", path="new.txt")
WRITES = call("write_file", path="new.txt", content="one\ntwo\n")
MAKES = calls(("terminal", {"command": "touch made.txt"}))
SLEEPS = call("terminal", command="sleep 60")
SCRIPTS: dict[str, list[Reply]] = {
    "work": [TODO, READS, WRITES, call("terminal", command="echo out"), say("Done.")],
    "make": [MAKES, MAKES, say("Done.")],
    "wait": [SLEEPS, MAKES, say("never")],
    "write": [WRITES, say("Written."), say("Again."), say("Never.")],
    "look": [say("Seen.")],
    "ask": [
        call("clarify", question="Which?", choices=["red", "blue"], allow_freetext=False),
        call("clarify", question="What name?"),
        say("Thanks."),
    ],
    "fail": [refuse(401, "no such key")],
    "greet": [say("Hi.")],
    "buffer": [
        call("read_file", path="note.txt"),
        call("patch", mode="replace", path="note.txt", old_string="not saved", new_string="and changed"),
        call("terminal", command="echo one; sleep 0.3; echo two; exit 3"),
        say("Done."),
    ],
    "server": [call("mcp__from_editor__echo", text="5 is said"), say("Done.")],
}
"""What the model does, by the first word of a conversation."""
SERVER = Path(__file__).parents[2] / "support" / "plain_server.py"
SEEN: dict[str, Any] = {}
"""The last message of the person that the model was sent, by that word."""


def script(request: Any) -> Any:
    asked = [each for each in request.messages if each.get("role") == "user"]
    word = next(name for name in SCRIPTS if name in json.dumps(asked[0]["content"]))
    SEEN[word] = asked[-1]
    return by_step(SCRIPTS[word])(request)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    forms = schema.ClientCapabilities(
        elicitation=schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
    )
    folder = tmp_path_factory.mktemp("editor")
    async with editor(folder, script, capabilities=forms) as opened:
        yield opened


def words(text: str) -> list[Any]:
    return [schema.TextContentBlock(type="text", text=text)]


async def begun(there: Editor, folder: Path) -> str:
    return (await there.agent.new_session(str(folder))).session_id


async def test_a_message_is_worked_on_with_thoughts_calls_changes_and_a_plan(
    there: Editor, tmp_path: Path
) -> None:
    (tmp_path / "new.txt").write_text("zero\n")
    session = await begun(there, tmp_path)
    await there.until(lambda: there.of(session, "available_commands_update"), "the commands")
    names = {each.name for each in there.of(session, "available_commands_update")[0].available_commands}
    assert {"compact", "undo", "planning"} <= names
    ended = await there.agent.prompt(session_id=session, prompt=words("work"))
    assert ended.stop_reason == "end_turn" and there.said(session) == "Done."
    (entry,) = there.of(session, "plan")[-1].entries
    assert (entry.content, entry.status) == ("Write it", "in_progress")
    begun_calls = {each.title.split()[0]: each for each in there.of(session, "tool_call")}
    kinds = [each.kind for each in begun_calls.values()]
    assert kinds == ["think", "read", "edit", "execute"], begun_calls
    last = {each.tool_call_id: each for each in there.of(session, "tool_call_update")}
    read, written, ran = list(begun_calls.values())[1:]
    assert [last[each.tool_call_id].status for each in (read, ran)] == ["completed"] * 2
    assert read.locations[0].path == str(tmp_path / "new.txt")
    (change,) = [each for each in last[written.tool_call_id].content if each.type == "diff"]
    assert (change.path, change.old_text) == (str(tmp_path / "new.txt"), "zero\n")
    assert change.new_text == "one\ntwo\n"
    assert "out" in last[ran.tool_call_id].content[0].content.text


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("option", "asked", "written"),
    [("once", 2, True), ("deny", 2, False), (None, 2, False), ("session", 1, True), ("always", 1, True)],
)
async def test_each_choice_of_a_permission_is_what_happens(
    there: Editor, option: str | None, asked: int, written: bool, tmp_path: Path
) -> None:
    session = await begun(there, tmp_path)
    await there.agent.set_session_mode(session_id=session, mode_id="careful")
    there.asked.clear()
    there.choose = lambda options: option
    ended = await there.agent.prompt(session_id=session, prompt=words("make"))
    assert (tmp_path / "made.txt").exists() == written
    assert len(there.asked) == asked
    _, tool_call, options = there.asked[0]
    assert [each.kind for each in options] == [
        "allow_once",
        "allow_always",
        "allow_always",
        "reject_once",
    ]
    assert "touch made.txt" in tool_call.content[0].content.text
    assert tool_call.tool_call_id == there.of(session, "tool_call")[0].tool_call_id
    assert ended.stop_reason == "end_turn"


async def test_a_turn_is_cancelled_while_it_asks_and_while_it_runs(there: Editor, tmp_path: Path) -> None:
    there.asked.clear()
    session = await begun(there, tmp_path)
    turn = asyncio.create_task(there.agent.prompt(session_id=session, prompt=words("wait")))
    await there.until(lambda: there.of(session, "tool_call"), "the call")
    await there.agent.cancel(session_id=session)
    assert (await turn).stop_reason == "cancelled"
    await there.agent.set_session_mode(session_id=session, mode_id="careful")
    there.held = asyncio.Event()
    turn = asyncio.create_task(there.agent.prompt(session_id=session, prompt=words("again")))
    await there.until(lambda: there.asked, "the question")
    await there.agent.cancel(session_id=session)
    assert (await turn).stop_reason == "cancelled"
    there.held.set()
    there.held = None


async def test_sessions_are_listed_loaded_resumed_forked_and_closed(there: Editor, tmp_path: Path) -> None:
    work = str(tmp_path)
    session = await begun(there, tmp_path)
    await there.agent.prompt(session_id=session, prompt=words("write"))
    await there.agent.close_session(session_id=session)
    with pytest.raises(RequestError, match="no open session"):
        await there.agent.prompt(session_id=session, prompt=words("gone"))
    (listed,) = (await there.agent.list_sessions(cwd=work)).sessions
    assert (listed.session_id, listed.cwd, listed.title) == (session, work, "write")
    assert (await there.agent.list_sessions(cwd=str(tmp_path.parent))).sessions == []
    there.updates.clear()
    loaded = await there.agent.load_session(cwd=work, session_id=session)
    assert loaded.modes.current_mode_id == "normal"
    shown = [each.session_update for _, each in there.updates[:3]]
    assert shown == ["user_message_chunk", "tool_call", "agent_message_chunk"]
    assert there.said(session) == "Written." and there.said(session, "user_message_chunk") == "write"
    forked = (await there.agent.fork_session(session_id=session, cwd=work)).session_id
    assert forked != session
    # Both go on, at the same time.
    await asyncio.gather(
        there.agent.prompt(session_id=session, prompt=words("more")),
        there.agent.prompt(session_id=forked, prompt=words("other")),
    )
    await there.agent.close_session(session_id=forked)
    there.updates.clear()
    await there.agent.load_session(cwd=work, session_id=forked)
    assert there.said(forked, "user_message_chunk") == "writeother"
    with pytest.raises(RequestError) as nowhere:
        await there.agent.resume_session(cwd=work, session_id="20200101-000000-aaaa")
    assert "20200101-000000-aaaa" in str(nowhere.value)


async def test_images_files_and_commands_go_with_a_message(there: Editor, tmp_path: Path) -> None:
    uri = (tmp_path / "a.py").as_uri()
    blocks = [
        *words("look at "),
        schema.ResourceContentBlock(type="resource_link", uri=uri, name="a.py"),
        schema.EmbeddedResourceContentBlock(
            type="resource", resource=schema.TextResourceContents(uri=uri, text="```\nprint(1)\n```")
        ),
        schema.ImageContentBlock(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png"),
    ]
    session = await begun(there, tmp_path)
    assert (await there.agent.prompt(session_id=session, prompt=blocks)).stop_reason == "end_turn"
    said = json.dumps(SEEN["look"])
    assert f"[a.py]({tmp_path / 'a.py'})" in said and "print(1)" in said and "````" in said
    await there.agent.prompt(session_id=session, prompt=words("/context"))
    assert "tokens of a window of" in there.said(session)
    bad = schema.ImageContentBlock(type="image", data="no base64!", mime_type="image/png")
    with pytest.raises(RequestError, match="not encoded as base64"):
        await there.agent.prompt(session_id=session, prompt=[bad])


async def test_questions_are_choices_or_a_form(there: Editor, tmp_path: Path) -> None:
    there.answer = "Ada"
    there.choose = lambda options: next(each.option_id for each in options if each.name == "blue")
    session = await begun(there, tmp_path)
    await there.agent.prompt(session_id=session, prompt=words("ask"))
    results = [each.content[0].content.text for each in there.of(session, "tool_call_update")]
    assert any("blue" in each for each in results) and any("Ada" in each for each in results)


async def test_modes_model_and_effort_are_options(there: Editor, tmp_path: Path) -> None:
    made = await there.agent.new_session(str(tmp_path))
    session = made.session_id
    options = {each.id: each for each in made.config_options}
    assert list(options) == ["mode", "model", "effort"] and made.modes.current_mode_id == "normal"
    assert options["model"].current_value in {each.value for each in options["model"].options}
    for name, value in (("mode", "plan"), ("effort", "high"), ("model", "demo")):
        answer = await there.agent.set_config_option(config_id=name, session_id=session, value=value)
        assert {each.id: each.current_value for each in answer.config_options}[name] == value
    await there.until(lambda: there.of(session, "current_mode_update"), "the mode")
    for name, value in (("mode", "fast"), ("effort", "huge"), ("colour", "red")):
        with pytest.raises(RequestError):
            await there.agent.set_config_option(config_id=name, session_id=session, value=value)


async def test_without_a_model_a_sign_in_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HERMES_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    agent = EditorAgent(None)
    for asked in (agent.new_session(str(tmp_path)), agent.authenticate("hermes-setup")):
        with pytest.raises(RequestError) as refused:
            await asked
        assert refused.value.code == -32000 and str(refused.value)
    with pytest.raises(RequestError, match="absolute path"):
        await agent.new_session("relative")


async def test_a_failed_request_is_said_and_is_an_error(there: Editor, tmp_path: Path) -> None:
    session = await begun(there, tmp_path)
    with pytest.raises(RequestError) as failed:
        await there.agent.prompt(session_id=session, prompt=words("fail"))
    assert str(failed.value) in there.said(session)


@pytest.mark.thorough
async def test_an_editor_that_vanishes_loses_nothing(tmp_path: Path) -> None:
    async with editor(tmp_path, script) as other:
        session = await begun(other, tmp_path / "work")
        turn = asyncio.create_task(other.agent.prompt(session_id=session, prompt=words("wait for this")))
        await other.until(lambda: other.of(session, "tool_call"), "the call")
        other.process.stdin.close()
        assert await asyncio.wait_for(other.process.wait(), 60) == 0
        turn.cancel()
    async with await Store.open(tmp_path / "home" / "state.db") as store:
        path = await store.path(session)
        asked, ended = (next(each for each in path if each.kind == kind) for kind in ("user", "tool"))
        assert asked.content == "wait for this" and ended.data["outcome"] == "interrupted"
        assert not await store.unfinished_branches(session)


async def test_what_is_no_message_is_refused_and_passed_over(there: Editor, tmp_path: Path) -> None:
    for line in (b"no json\n", b"[1]\n", b"\n", b'{"jsonrpc":"2.0","id":999999,"method":"nowhere"}\n'):
        there.process.stdin.write(line)
    session = await begun(there, tmp_path)
    assert (await there.agent.prompt(session_id=session, prompt=words("greet"))).stop_reason == "end_turn"


async def test_a_session_that_is_closed_ends_its_turns(there: Editor, tmp_path: Path) -> None:
    session = await begun(there, tmp_path)
    turns = [
        asyncio.create_task(there.agent.prompt(session_id=session, prompt=words(text)))
        for text in ("wait", "and more")
    ]
    await there.until(lambda: there.of(session, "tool_call"), "the call")
    await there.agent.close_session(session_id=session)
    ended = await asyncio.wait_for(asyncio.gather(*turns), 30)
    assert [each.stop_reason for each in ended] == ["cancelled", "cancelled"]


async def test_a_session_is_deleted_for_good(there: Editor, tmp_path: Path) -> None:
    session = await begun(there, tmp_path)
    await there.agent.prompt(session_id=session, prompt=words("greet"))
    await there.delete(session)
    assert (await there.agent.list_sessions(cwd=str(tmp_path))).sessions == []
    with pytest.raises(RequestError, match=r"(?i)no session") as gone:
        await there.delete(session)
    assert gone.value.code == -32002


@pytest.mark.thorough
async def test_a_session_of_another_program_is_looked_on_at_until_it_is_free(tmp_path: Path) -> None:
    async with editor(tmp_path, script) as first, editor(tmp_path, script) as second:
        work = str(tmp_path / "work")
        session = (await first.agent.new_session(work)).session_id
        await first.agent.prompt(session_id=session, prompt=words("write"))
        await second.agent.load_session(cwd=work, session_id=session)
        assert second.said(session) == "Written."
        await first.agent.prompt(session_id=session, prompt=words("more"))
        await second.until(lambda: second.said(session) == "Written.Again.", "what the other one said")
        with pytest.raises(RequestError, match=r"process .* works on this session.*fork it"):
            await second.agent.prompt(session_id=session, prompt=words("mine"))
        with pytest.raises(RequestError, match="only shown here"):
            await second.agent.set_session_mode(session_id=session, mode_id="plan")
        forked = (await second.agent.fork_session(session_id=session, cwd=work)).session_id
        assert (await second.agent.prompt(session_id=forked, prompt=words("own"))).stop_reason == "end_turn"
        await first.agent.close_session(session_id=session)
        ended = await second.agent.prompt(session_id=session, prompt=words("mine"))
        assert ended.stop_reason == "end_turn" and second.said(session) == "Written.Again.Never."


@pytest.mark.thorough
async def test_files_and_terminals_of_the_editor_are_used(tmp_path: Path) -> None:
    offered = schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
    )
    async with editor(tmp_path, script, capabilities=offered) as there:
        work = tmp_path / "work"
        note = work / "note.txt"
        note.write_text("on disk\n")
        there.buffers[str(note)] = "typed, not saved\n"
        session = await begun(there, work)
        await there.agent.prompt(session_id=session, prompt=words("buffer"))
        last = {each.tool_call_id: each for each in there.of(session, "tool_call_update")}
        read, changed, ran = (each for each in last.values())
        assert "typed, not saved" in read.content[0].content.text
        (change,) = [each for each in changed.content if each.type == "diff"]
        assert (change.old_text, change.new_text) == ("typed, not saved\n", "typed, and changed\n")
        assert note.read_text() == there.buffers[str(note)] == "typed, and changed\n"
        terminal = ran.content[0].terminal_id
        assert there.terminals[terminal] == (b"one\r\ntwo\r\n", 3) and terminal in there.released
        # What was typed and not saved stays the person's own: undo takes back what the agent did.
        await there.agent.prompt(session_id=session, prompt=words("/undo"))
        assert note.read_text() == "typed, not saved\n"


@pytest.mark.thorough
async def test_mcp_servers_of_the_editor_bring_their_tools(tmp_path: Path) -> None:
    async with editor(tmp_path, script) as there:
        server = schema.McpServerStdio(name="from editor", command=sys.executable, args=[str(SERVER)], env=[])
        made = await there.agent.new_session(str(tmp_path / "work"), mcp_servers=[server])
        session = made.session_id
        await there.agent.set_session_mode(session_id=session, mode_id="yolo")
        await there.agent.prompt(session_id=session, prompt=words("server"))
        results = [each.content[0].content.text for each in there.of(session, "tool_call_update")]
        assert any("5" in each for each in results), results
