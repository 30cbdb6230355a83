"""Generated exchanges with an agent: requests right and wrong, in any order, several sessions at once.

A seed decides what is sent, so that a run can be made again. What is asked of the client is answered in
every way the protocol has, and in some that it has not.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.acp_suite.wire_check import WireCheck

PATIENCE = 120.0
"""Seconds for one answer."""
AT_ONCE = 4
"""Sessions that are open, and messages that are worked on."""
TEXTS = (
    "",
    "a",
    "ä\u2028\U0001f600",
    "\x1b[31mred\x07",
    '{"a": 1}',
    "x" * 5_000,
    "/context",
    "/nonsense",
    "../..",
)
WRONG: tuple[Any, ...] = (None, 5, -1.5, True, "", "nonsense", [], {}, [None], {"a": {}})


class RawPeer:
    """Speaks lines of JSON with a process; every line of it is checked."""

    def __init__(self, process: asyncio.subprocess.Process, check: WireCheck, chance: random.Random) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._out, self._in = process.stdin, process.stdout
        self._check = check
        self._chance = chance
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self.unanswered: Counter[str] = Counter()
        self.reader = asyncio.create_task(self._read())

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message."""
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self._check.sent(line)
        self._out.write(line)

    def garbage(self, line: bytes) -> None:
        """Write a line that is not a message."""
        self._out.write(line + b"\n")

    async def ask(self, method: str, params: Any) -> dict[str, Any]:
        """A request; the whole response. Raises `TimeoutError`."""
        self._number += 1
        number = self._number
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.send({"id": number, "method": method, "params": params})
        await self._out.drain()
        try:
            return await asyncio.wait_for(answer, PATIENCE)
        except TimeoutError:
            self.unanswered[method] += 1
            raise

    async def _read(self) -> None:
        while line := await self._in.readline():
            self._check.heard(line)
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict):
                continue
            if "method" in message and "id" in message:
                self.send(
                    {"id": message["id"], **self._reply(message["method"], message.get("params") or {})}
                )
            elif (
                waiting := self._waiting.pop(message.get("id") or 0, None)
            ) is not None and not waiting.done():
                waiting.set_result(message)

    def _reply(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        chance = self._chance
        if chance.random() < 0.1:
            return {"error": {"code": -32603, "message": "the client failed"}}
        if chance.random() < 0.05:
            return {"result": chance.choice(WRONG)}
        match method:
            case "session/request_permission":
                options = [each["optionId"] for each in params.get("options", [])]
                chosen = chance.choice([*options, "nonsense", None])
                outcome = (
                    {"outcome": "cancelled"}
                    if chosen is None
                    else {"outcome": "selected", "optionId": chosen}
                )
                return {"result": {"outcome": outcome}}
            case "fs/read_text_file":
                return {"result": {"content": chance.choice(TEXTS)}}
            case "elicitation/create":
                action = chance.choice(["accept", "decline", "cancel"])
                return {
                    "result": {
                        "action": action,
                        **({"content": {"answer": "a"}} if action == "accept" else {}),
                    }
                }
            case "terminal/create":
                return {"result": {"terminalId": f"t{chance.randrange(10**9)}"}}
            case "terminal/wait_for_exit":
                return {"result": {"exitCode": 0}}
            case _:
                return {"result": {}}


class Exchanges:
    """Makes exchanges until there were enough."""

    def __init__(self, peer: RawPeer, folder: Path, words: Sequence[str], chance: random.Random) -> None:
        self._peer = peer
        self._folder = folder
        self._words = words
        self._chance = chance
        self._open: list[str] = []
        self._known: list[str] = []
        self._prompts: set[asyncio.Task[Any]] = set()
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []

    async def run(self, count: int) -> None:
        """Make that many exchanges."""
        rich = {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "elicitation": {"form": {}},
        }
        await self._ask("initialize", {"protocolVersion": 1, "clientCapabilities": rich})
        while sum(self.done.values()) < count:
            await self._one()
        for session in self._open:
            self._peer.send({"method": "session/cancel", "params": {"sessionId": session}})
        await asyncio.gather(*self._prompts, return_exceptions=True)

    async def _one(self) -> None:
        chance = self._chance
        if not self._open or (len(self._open) < AT_ONCE and chance.random() < 0.1):
            await self._new()
            return
        session = chance.choice(self._open)
        place = {"cwd": str(self._folder), "mcpServers": []}
        match chance.choices(range(12), (8, 4, 18, 12, 14, 1, 1, 1, 1, 1, 4, 12))[0]:
            case 0:
                self._prompt(session)
            case 1:
                self._peer.send({"method": "session/cancel", "params": {"sessionId": session}})
            case 2:
                await self._ask(
                    "session/list", chance.choice([{}, {"cwd": str(self._folder)}, {"cursor": "0"}])
                )
            case 3:
                mode = chance.choice(["careful", "normal", "plan", "yolo", "deny", "nonsense"])
                await self._ask("session/set_mode", {"sessionId": session, "modeId": mode})
            case 4:
                option, value = chance.choice(
                    [("mode", "careful"), ("mode", "normal"), ("effort", "high"), ("effort", "?"), ("x", "y")]
                )
                params = {"sessionId": session, "configId": option, "value": value}
                await self._ask("session/set_config_option", params)
            case 5:
                self._open.remove(session)
                await self._ask("session/close", {"sessionId": session})
            case 6 if self._known:
                again = chance.choice(self._known)
                if (
                    await self._ask("session/load", {"sessionId": again, **place})
                ) and again not in self._open:
                    self._open.append(again)
            case 7 if self._known:
                again = chance.choice(self._known)
                if (
                    await self._ask("session/resume", {"sessionId": again, **place})
                ) and again not in self._open:
                    self._open.append(again)
            case 8 if len(self._open) < AT_ONCE:
                forked = await self._ask("session/fork", {"sessionId": session, **place})
                if forked:
                    self._open.append(forked["sessionId"])
            case 9 if len(self._known) > AT_ONCE and self._known[0] not in self._open:
                await self._ask("session/delete", {"sessionId": self._known.pop(0)})
            case 10:
                line = chance.choice(
                    [b"no json", b"[1]", b"{}", b"\xff\xfe", b'{"jsonrpc":"1.0"}', b"", b"5"]
                )
                self._peer.garbage(line)
                await self._ask(chance.choice(["session/nonsense", "nonsense", "_x/y"]), chance.choice(WRONG))
            case _:
                await self._mutated(session, place)

    async def _new(self) -> None:
        made = await self._ask("session/new", {"cwd": str(self._folder), "mcpServers": []})
        if made:
            self._open.append(made["sessionId"])
            self._known.append(made["sessionId"])

    def _prompt(self, session: str) -> None:
        if len(self._prompts) >= AT_ONCE:
            return
        chance = self._chance
        blocks: list[dict[str, Any]] = [{"type": "text", "text": chance.choice(self._words)}]
        if chance.random() < 0.3:
            resource = {"uri": "file:///a/b.txt", "text": chance.choice(TEXTS)}
            blocks.append({"type": "resource", "resource": resource})
        if chance.random() < 0.2:
            blocks.append(
                {"type": "resource_link", "uri": chance.choice(["file:///x", "::", "a b"]), "name": "x"}
            )
        task = asyncio.create_task(self._ask("session/prompt", {"sessionId": session, "prompt": blocks}))
        self._prompts.add(task)
        task.add_done_callback(self._prompts.discard)

    async def _mutated(self, session: str, place: Mapping[str, Any]) -> None:
        """A request with something wrong in it."""
        chance = self._chance
        method, params = chance.choice(
            [
                ("session/new", dict(place)),
                ("session/load", {"sessionId": session, **place}),
                ("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": " "}]}),
                ("session/set_mode", {"sessionId": session, "modeId": "normal"}),
                ("session/list", {"cursor": "0"}),
                ("session/delete", {"sessionId": "nowhere"}),
                ("authenticate", {"methodId": "nonsense"}),
            ]
        )
        name = chance.choice(list(params))
        if chance.random() < 0.3:
            del params[name]
        else:
            params[name] = chance.choice(WRONG)
        made = await self._ask(method, params)
        if method == "session/new" and made:
            await self._ask("session/close", {"sessionId": made["sessionId"]})

    async def _ask(self, method: str, params: Any) -> Any:
        """A request and its answer, which is an exchange; the result, None for an error."""
        try:
            answer = await self._peer.ask(method, params)
        except TimeoutError:
            self.failed.append(f"{method} was not answered: {json.dumps(params)[:200]}")
            answer = {}
        self.done[method] += 1
        if "error" in answer and not str(answer["error"].get("message", "")).strip():
            self.failed.append(f"{method} was refused without a word")
        return answer.get("result")


async def exchange(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    count: int,
    seed: int,
    words: Sequence[str],
    check: WireCheck,
) -> tuple[Counter[str], list[str]]:
    """Make exchanges with an agent: how many of each method, and what went wrong beside the schema."""
    chance = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environ),
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    peer = RawPeer(process, check, chance)
    exchanges = Exchanges(peer, folder, words, chance)
    try:
        await exchanges.run(count)
        assert process.stdin is not None
        process.stdin.close()
        code = await asyncio.wait_for(process.wait(), PATIENCE)
        if code != 0:
            exchanges.failed.append(f"the agent ended with {code}")
    finally:
        if process.returncode is None:
            process.kill()
            exchanges.failed.append("the agent did not end by itself")
        peer.reader.cancel()
    return exchanges.done, exchanges.failed
