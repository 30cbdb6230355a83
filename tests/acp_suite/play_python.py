"""Plays dialogues with the client of the Python package `agent-client-protocol`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acp import RequestError, schema, spawn_agent_process

from tests.acp_suite.matching import matches, replaced

PATIENCE = 60.0
"""Seconds of one step."""


class Client:
    """The side of the editor: it does what the dialogue says, and writes down what it is told."""

    def __init__(self) -> None:
        self.agent: Any = None
        self.reset(Path())

    def reset(self, work: Path) -> None:
        """Begin a dialogue in a folder."""
        self.work = work
        self.sessions: dict[str, str] = {}
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.called: list[str] = []
        self.choice, self.form = "allow_once", "accept"
        self.buffers: dict[str, str] = {}
        self.terminals: dict[str, Any] = {}
        self.shown: list[tuple[str, int]] = []
        self.cancel_on: dict[str, str] = {}

    def on_connect(self, conn: Any) -> None:
        """The way to the agent."""
        self.agent = conn

    async def heard(self, what: str, session: str) -> bool:
        """Cancel if the dialogue says so here; whether it did."""
        if self.cancel_on.get(session) != what:
            return False
        del self.cancel_on[session]
        await self.agent.cancel(session_id=session)
        return True

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """An update of a session."""
        plain = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append((session_id, plain))
        await self.heard(plain["sessionUpdate"], session_id)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        """Choose as the dialogue says."""
        self.called.append("session/request_permission")
        cancelled = await self.heard("session/request_permission", session_id)
        if cancelled or self.choice == "cancelled":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        found = next((each.option_id for each in options if each.kind == self.choice), "nonsense")
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=found)
        )

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> schema.ReadTextFileResponse:
        """The text of a buffer, or of the file."""
        self.called.append("fs/read_text_file")
        await self.heard("fs/read_text_file", session_id)
        text = self.buffers.get(path)
        if text is None:
            text = Path(path).read_text("utf-8")
        return schema.ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        """Save a text."""
        self.called.append("fs/write_text_file")
        await self.heard("fs/write_text_file", session_id)
        self.buffers[path] = content
        Path(path).write_text(content, "utf-8")

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, cwd: str | None = None, **_: Any
    ) -> schema.CreateTerminalResponse:
        """Run a command."""
        self.called.append("terminal/create")
        await self.heard("terminal/create", session_id)
        process = await asyncio.create_subprocess_exec(
            command, *(args or ()), cwd=cwd, stdout=asyncio.subprocess.PIPE
        )
        name = f"terminal-{len(self.terminals)}"
        self.terminals[name] = process
        return schema.CreateTerminalResponse(terminal_id=name)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.WaitForTerminalExitResponse:
        """Wait for its end."""
        self.called.append("terminal/wait_for_exit")
        process = self.terminals[terminal_id]
        shown, _rest = await process.communicate()
        self.shown.append((shown.decode(), process.returncode))
        return schema.WaitForTerminalExitResponse(exit_code=max(process.returncode, 0))

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        """Let it go."""
        self.called.append("terminal/release")
        if self.terminals[terminal_id].returncode is None:
            self.terminals[terminal_id].kill()

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        """Fill a form, or do not."""
        self.called.append("elicitation/create")
        await self.heard("elicitation/create", getattr(mode, "session_id", ""))
        match self.form:
            case "accept":
                return schema.AcceptElicitationResponse(action="accept", content={"answer": "Ada"})
            case "decline":
                return schema.DeclineElicitationResponse(action="decline")
            case _:
                return schema.CancelElicitationResponse(action="cancel")


RICH = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    elicitation=schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()),
)


async def play(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    kind: str,
    dialogues: Sequence[Mapping[str, Any]],
    server: Mapping[str, Any],
) -> dict[str, str]:
    """Play dialogues with one agent; by name what went wrong, empty where nothing did."""
    client = Client()
    found: dict[str, str] = {}
    async with (
        spawn_agent_process(
            client,  # type: ignore[arg-type]
            command[0],
            *command[1:],
            env=dict(environ),
            transport_kwargs={"limit": 1 << 26},
            use_unstable_protocol=True,
        ) as (agent, _process)
    ):
        client.agent = agent
        capabilities = RICH if kind == "rich" else schema.ClientCapabilities()
        await agent.initialize(1, client_capabilities=capabilities)
        for at, dialogue in enumerate(dialogues):
            work = folder / f"python-{kind}-{at}"
            work.mkdir(parents=True)
            client.reset(work.resolve())
            step: Any = None
            try:
                for step in dialogue["steps"]:
                    await asyncio.wait_for(_step(client, replaced(step, client.work), server), PATIENCE)
                found[dialogue["name"]] = ""
            except TimeoutError:
                found[dialogue["name"]] = f"the step {json.dumps(step)} took more than {PATIENCE:.0f} s"
            except Exception as error:
                found[dialogue["name"]] = f"{type(error).__name__}: {error} at {json.dumps(step)[:300]}"
    return found


async def _step(client: Client, step: Mapping[str, Any], server: Mapping[str, Any]) -> None:
    if (code := step.get("error")) is not None:
        try:
            await _do(client, step, server)
        except RequestError as error:
            if error.code != code or not str(error):
                raise AssertionError(f"the error was {error.code} ({error})") from error
            return
        raise AssertionError("there was no error")
    await _do(client, step, server)


async def _do(client: Client, step: Mapping[str, Any], server: Mapping[str, Any]) -> None:
    agent, work = client.agent, str(client.work)
    session = client.sessions.get(str(step.get("in", "")), "")
    match step["do"]:
        case "new":
            servers = [schema.McpServerStdio(**server)] if step.get("servers") else []
            client.sessions[step["as"]] = (await agent.new_session(work, mcp_servers=servers)).session_id
        case "prompt":
            await _prompt(client, step, session)
        case "both":
            await asyncio.gather(*(_step(client, each, server) for each in step["of"]))
        case "cancel":
            await agent.cancel(session_id=session)
        case "load":
            await agent.load_session(cwd=work, session_id=session, mcp_servers=[])
        case "resume":
            await agent.resume_session(cwd=work, session_id=session, mcp_servers=[])
        case "fork":
            forked = await agent.fork_session(session_id=session, cwd=work, mcp_servers=[])
            client.sessions[step["as"]] = forked.session_id
        case "close":
            await agent.close_session(session_id=session)
        case "delete":
            await _request(client, "session/delete", {"sessionId": session})
        case "list":
            listed = (await agent.list_sessions(cwd=work)).sessions
            assert len(listed) == step["count"], f"{len(listed)} sessions are listed"
        case "mode":
            await agent.set_session_mode(session_id=session, mode_id=step["value"])
        case "option":
            await agent.set_config_option(config_id=step["id"], session_id=session, value=step["value"])
        case "request":
            await _request(client, step["method"], step["params"])
        case _:
            _look(client, step, session)


async def _prompt(client: Client, step: Mapping[str, Any], session: str) -> None:
    blocks = [{"type": "text", "text": step["text"]}, *step.get("blocks", ())]
    if (cancel := step.get("cancel_on", "")) not in ("", "now"):
        client.cancel_on[session] = cancel
    # Through the parts of the package, so that blocks stay as the dialogue has them.
    read = schema.PromptRequest.model_validate({"sessionId": session, "prompt": blocks})
    asking = asyncio.ensure_future(client.agent.prompt(session_id=session, prompt=read.prompt))
    if cancel == "now":
        await asyncio.sleep(0)
        await client.agent.cancel(session_id=session)
    ended = await asking
    assert ended.stop_reason in step["stop"].split("|"), f"it ended as {ended.stop_reason}"


async def _request(client: Client, method: str, params: Any) -> Any:
    """A request that the package has no method for."""
    return await client.agent._conn.send_request(method, params)


def _look(client: Client, step: Mapping[str, Any], session: str) -> None:
    updates = [each for name, each in client.updates if name == session]
    match step["do"]:
        case "choose":
            client.choice = step["kind"]
        case "form":
            client.form = step["action"]
        case "forget":
            client.updates.clear()
        case "write":
            (client.work / step["path"]).write_text(step["text"], "utf-8")
        case "buffer":
            client.buffers[str(client.work / step["path"])] = step["text"]
        case "file":
            assert (client.work / step["path"]).read_text("utf-8") == step["text"]
        case "missing":
            assert not (client.work / step["path"]).exists(), "the file is there"
        case "asked":
            count = client.called.count("session/request_permission")
            assert count == step["count"], f"it asked {count} times"
        case "called":
            assert step["method"] in client.called, f"it called {client.called}"
        case "terminal":
            shown, code = client.shown[-1]
            assert step["shows"] in shown and code == step["code"], f"{shown!r} and {code}"
        case "said":
            said = "".join(
                each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"
            )
            assert said == step["text"], f"it said {said!r}"
        case "seen":
            some = [each for each in updates if each["sessionUpdate"] == step["update"]]
            assert any(matches(each, step["where"]) for each in some), f"there were {some[-3:]}"
        case other:
            raise ValueError(f"no step is called {other}")
