"""A service with messengers, a model that follows orders, and a service that listens."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

import yaml

from tests.support import command
from tests.support.chat_platform import LoopbackServer, ShownMessage, reply, until
from tests.support.model_process import ServerProcess
from tests.support.service import Service

SCRIPT = """
import json, os, re

def echo(text):
    return "Echo: " + " ".join(re.findall(r"[#\\w-]+", text))[-300:]

def script(request):
    asked = [each for each in request.messages if each.get("role") == "user"]
    contents = [e["content"] for e in asked]
    texts = [c if isinstance(c, str) else " ".join(p.get("text", "") for p in c) for c in contents]
    *before, last = [each for each in texts if "The person changed files" not in each]
    steps = 0
    for each in reversed(request.messages):
        if each.get("role") == "user" and "The person changed files" not in str(each["content"]):
            break
        steps += each.get("role") == "assistant"
    if "push" in last:
        return say("Pushed or not.") if steps else call("terminal", command="git push origin main")
    if "tell-the-others" in last:
        return say("Told.") if steps else call(
            "send_message", target="webhook", text="from-the-tool", title="News")
    if "send-the-files" in last:
        return say("Sent.") if steps else call(
            "send_message", target="here", text="Here-they-are", files=["report.txt", "chart.png"])
    if "which" in last:
        return say("Thanks.") if steps else call(
            "clarify", question="Which?", choices=["red", "blue"], allow_freetext=False)
    if "long" in last:
        return say("\\n\\n".join(f"```py\\nline = {at}\\n" + "x = 1\\n" * 90 + "```" for at in range(12)))
    if "The program ended while" in last:
        said = [each for each in before if "The program ended while" not in each][-1]
        whole, at = "word " * 120 + "END" if "slow" in said else echo(said), 0
        for each in request.messages:
            if each.get("role") == "user" and said in str(each["content"]):
                at = 0
            if each.get("role") == "assistant":
                # Behind what was written stands a note that it was cut off.
                at += len(os.path.commonprefix([whole[at:], each["content"]]))
        return say(whole[at:] or "(That was all.)")
    if "slow" in last:
        return say("word " * 120 + "END", pace=0.02, piece=6)
    return say(echo(last))
"""


class ChatStage:
    """Messengers by name, and the service they talk to."""

    def __init__(self, folder: Path, *platforms: Any, script: str = SCRIPT) -> None:
        self.folder = folder
        self._script = script
        self.home = folder / "home"
        self.platforms = {each.name: each for each in platforms}
        self.heard: list[bytes] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.home.mkdir(mode=0o700, parents=True)
        listener = self._stack.enter_context(LoopbackServer(self._listen))
        self.model = self._stack.enter_context(ServerProcess(self._script, self.folder))
        environ: dict[str, str] = {}
        for each in self.platforms.values():
            self._stack.enter_context(each)
            environ |= each.secrets()
        settings = {
            "gateways": {name: each.settings() for name, each in self.platforms.items()},
            "transcribe": {"backend": "openai", "base_url": f"{listener.url}/v1", "price": 0.0},
        }
        (self.home / "config.yaml").write_text(yaml.safe_dump(settings))
        self.service = Service(self.home, self.model.base_url, **environ)
        self.start()
        until(lambda: len(self.rows("SELECT 1 FROM gateway_states WHERE state = 'running'")) == len(
            self.platforms), "all connections")  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.service.stop()
        self._stack.close()

    def start(self) -> None:
        """Start the service, on the port it had."""
        self.service.start(self.service.port if self.service.url else 0)
        for each in self.platforms.values():
            if hasattr(each, "target"):
                each.target = self.service.url

    def run(self, *arguments: str) -> str:
        """What a command of Hermes prints, in the home of the service."""
        done = command.run(*arguments, env=self.service.env, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the store holds."""
        connection = sqlite3.connect(f"file:{self.home}/state.db?mode=ro", uri=True, timeout=20)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def left_waiting(self) -> str:
        """Return the text of what a killed service had not sent.

        A copy of the store is read, because opening the store itself would recover it.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for each in self.home.glob("state.db*"):
                shutil.copy(each, folder)
            with closing(sqlite3.connect(Path(folder, "state.db"))) as copy:
                return str(copy.execute("SELECT body FROM deliveries WHERE state = 'waiting'").fetchall())

    def user_messages(self) -> list[str]:
        """Every message of a person in every session."""
        return [text for (text,) in self.rows(
            "SELECT content FROM nodes WHERE kind = 'user' AND json_extract(data, '$.origin') != 'engine'"
        )]  # fmt: skip

    def story(self, words: str) -> str:
        """What became of a message, for whoever has to find out why nobody answered it."""
        said = self.rows("SELECT * FROM received WHERE data LIKE ?", f"%{words}%")
        nodes = self.rows(
            "SELECT id, kind, content, data FROM nodes WHERE session IN (SELECT session FROM received WHERE "
            "data LIKE ?) ORDER BY id DESC LIMIT 12",
            f"%{words}%",
        )
        sent = self.rows("SELECT * FROM deliveries WHERE body LIKE ? OR state = 'waiting'", f"%{words}%")
        states = self.rows("SELECT * FROM gateway_states")
        parts = {"received": said, "nodes": nodes, "deliveries": sent, "gateways": states}
        return "\n".join(f"{name}: {row}" for name, rows in parts.items() for row in rows or ["none"])

    def settled(self) -> None:
        """Wait until nothing waits to be worked on or to be sent."""

        def quiet() -> bool:
            open_rows = self.rows("SELECT count(*) FROM received WHERE state != 'done'")[0][0]
            return not open_rows and not self.rows("SELECT 1 FROM deliveries WHERE state = 'waiting' LIMIT 1")

        until(quiet, "an end")

    def _listen(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.heard.append(body)
        reply(handler, 200, json.dumps({"text": "what was spoken"}).encode())


def shown(platform: Any, words: str, chat: str = "", after: int = 0) -> ShownMessage:
    """The first message of ours with these words, once it is there."""
    return until(
        lambda: next(
            (e for e in platform.shown[after:] if words in e.text and (not chat or e.chat == chat)), None
        ),
        f"{words!r} at {platform.name} (there is {[e.text[:80] for e in platform.shown[after:]]})",
    )
