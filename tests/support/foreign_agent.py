"""A small agent of another program, spoken to over the Agent Client Protocol; WAY says how it behaves.

Started as `python foreign_agent.py WAY`. It works in the folder it is given.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from acp import RequestError, run_agent, schema

WAY = sys.argv[1] if len(sys.argv) > 1 else "good"
text = schema.TextContentBlock


class Agent:
    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, **_: Any):
        if WAY == "silent":
            await asyncio.sleep(3600)
        if WAY == "dies":
            print("no licence found", file=sys.stderr, flush=True)
            os._exit(7)
        return schema.InitializeResponse(protocol_version=1)

    async def new_session(self, cwd, **_: Any):
        if WAY == "sign-in":
            raise RequestError(-32000, "sign in first")
        self.folder = Path(cwd)
        return schema.NewSessionResponse(session_id="theirs")

    async def cancel(self, session_id, **_: Any):
        (self.folder / "cancelled.txt").write_text("yes")

    async def say(self, update):
        await self.client.session_update("theirs", update)

    async def asked(self, kind, title, **more):
        call = schema.ToolCallUpdate(tool_call_id=title, title=title, kind=kind, **more)
        options = [
            schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="ever", name="Always", kind="allow_always"),
            schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        answer = await self.client.request_permission("theirs", call, options)
        return getattr(answer.outcome, "option_id", "cancelled")

    async def prompt(self, prompt, session_id, **_: Any):
        if WAY == "hangs":
            shell = subprocess.Popen(["sleep", "3600"], start_new_session=True)
            (self.folder / "shell.pid").write_text(str(shell.pid))
            await self.say(_chunk("I begin."))
            await asyncio.sleep(3600)
        if WAY == "leaves":
            os._exit(3)
        await self.say(
            schema.ToolCallStart(
                session_update="tool_call", tool_call_id="c1", title="look \x1b[31maround", kind="search"
            )
        )
        place = str(self.folder / "made.txt")
        said = []
        read = await self.client.read_text_file("theirs", str(self.folder / "there.txt"))
        said.append(f"read {read.content.strip()}")
        for path in (place, str(Path.home() / ".ssh" / "config"), "/etc/passwd"):
            try:
                await self.client.write_text_file("theirs", path, "made by another\n")
                said.append(f"wrote {Path(path).name}")
            except RequestError as error:
                said.append(f"not {Path(path).name}: {error}")
        said.append(await self.asked("execute", "rm -rf x", raw_input={"command": "touch run.txt"}))
        said.append(await self.asked("edit", "edit", locations=[schema.ToolCallLocation(path=place)]))
        (self.folder / "unasked.txt").write_text("by itself\n")
        done = schema.ToolCallProgress(
            session_update="tool_call_update", tool_call_id="c1", status="completed"
        )
        await self.say(done)
        await self.say(_chunk("Outcome: completed\n\n" + "; ".join(said)))
        return schema.PromptResponse(stop_reason="end_turn")


def _chunk(words):
    return schema.AgentMessageChunk(
        session_update="agent_message_chunk", content=text(type="text", text=words)
    )


asyncio.run(run_agent(Agent()))  # type: ignore[arg-type] - as much of one as is needed
