"""The reference server with one of everything, over each transport, through `hermes mcp` and `hermes -p`."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conformance import packages
from tests.support.command import HERMES, environment, events
from tests.support.model_process import ServerProcess

TRANSPORTS = {"stdio": "stdio", "http": "streamableHttp", "sse": "sse"}
"""Transport by our word, and by the server's."""
NAME = "everything"
SECONDS = 120

CALLS: Sequence[tuple[str, dict[str, Any], str]] = (
    ("echo", {"message": "héllo"}, "Echo: héllo"),
    ("get-sum", {"a": 19, "b": 23}, "42"),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}, '"images"'),
    ("get-env", {}, "PATH"),
    ("get-resource-links", {"count": 3}, '"links"'),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 2}, "demo://resource/dynamic/text/2"),
    ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}, '"path"'),
    ("get-structured-content", {"location": "Chicago"}, "temperature"),
    ("get-tiny-image", {}, "image/png"),
    ("gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain,hi"}, "demo://resource/session/a.gz"),
    ("get-roots-list", {}, "file://"),
    ("toggle-subscriber-updates", {}, "tarted"),
    ("toggle-simulated-logging", {}, "tarted"),
    ("trigger-long-running-operation", {"duration": 1, "steps": 4}, "completed"),
    ("trigger-elicitation-request", {}, '"decline'),
    ("trigger-url-elicitation", {"url": "https://example.com/a"}, "decline"),
    ("trigger-sampling-request", {"prompt": "say it"}, "hello from the model"),
    ("simulate-research-query", {"topic": "tides"}, "Research Report: tides"),
)
"""Every tool, and what its result says in a session where nobody is there."""

ON_LOOPBACK = (
    "data:text/javascript,import net from 'node:net'; const listen = net.Server.prototype.listen;"
    "net.Server.prototype.listen = function (port, ...more) {"
    " return listen.call(this, Number(port), '127.0.0.1', ...more); };"
)
"""The server listens on all addresses by itself."""

SCRIPT = """
CALLS = {calls}
def script(request):
    if not request.body.get("tools"):
        return say("hello from the model")
    answered = sum(message.get("role") == "tool" for message in request.messages)
    if "run them" in str(request.messages) and not answered:
        return calls(*CALLS)
    return say("done")
"""

Result = tuple[str, bool, str]
"""Name of a check, whether it passed, what was seen."""


def checks(transport: str) -> Iterator[Result]:
    """All checks over one transport."""
    program = packages.script(packages.EVERYTHING)
    with tempfile.TemporaryDirectory() as folder, _server(transport, program) as entry:
        place = Path(folder)
        calls = [(f"mcp__{NAME}__{tool}", arguments) for tool, arguments, _ in CALLS]
        with ServerProcess(SCRIPT.format(calls=repr(calls)), place) as model:
            yield from _Player(place, entry, model).play()


class _Player:
    """One home with the one server, and a scripted model."""

    def __init__(self, folder: Path, entry: dict[str, Any], model: ServerProcess) -> None:
        self._home, self._work, self._model = folder / "home", folder / "work", model
        self._home.mkdir()
        self._work.mkdir()
        given = {"mcp_servers": {NAME: {**entry, "connect_timeout": 60}}}
        given["budget"] = {"session": {"tokens": 10_000_000}}
        (self._home / "config.yaml").write_text(json.dumps(given))

    def play(self) -> Iterator[Result]:
        probed = self._hermes("mcp", "probe", NAME, "--json")
        listed = json.loads(probed.stdout) if probed.returncode == 0 else {"tools": [], "prompts": []}
        ready = {each["name"] for each in listed["tools"] if each["standing"] == "ready"}
        yield "every tool is listed and ready", ready == {tool for tool, *_ in CALLS}, probed.stderr
        prompts = {each["name"] for each in listed["prompts"]}
        yield "every prompt is listed", len(prompts) == 4, str(prompts)
        yield from self._calls()
        yield from self._forms()
        for text, wanted in (
            (f"/mcp__{NAME}__simple-prompt", "simple prompt without arguments"),
            (f"/mcp__{NAME}__args-prompt city=Paris", "weather in Paris"),
            (f"/mcp__{NAME}__completable-prompt Sales Alice", "Alice"),
            (f"/mcp__{NAME}__resource-prompt Text 3", "demo://resource/dynamic/text/3"),
            (f"see @{NAME}:demo://resource/dynamic/text/1", "Resource 1"),
            (f"see @{NAME}:demo://resource/static/document/features.md", "Simulated Logging"),
        ):
            yield self._message(text, wanted)

    def _calls(self) -> Iterator[Result]:
        done = self._hermes("-p", "run them", "--json", "--approve", "all")
        seen = [json.loads(each["result"]) for each in events(done.stdout) if each["type"] == "tool_finished"]
        told = [each for each in events(done.stdout) if each["type"] == "tool_progress"]
        for number, (tool, _, wanted) in enumerate(CALLS):
            result = json.dumps(seen[number], ensure_ascii=False) if number < len(seen) else done.stderr
            yield f"{tool} is called by the model", wanted in result, result
        yield "progress is told", any("4/4" in each["text"] for each in told), str(told)[:1_000]

    def _forms(self) -> Iterator[Result]:
        done = self._hermes(
            "mcp", "call", NAME, "trigger-elicitation-request", "--elicit", "defaults", "--json"
        )
        said = str(json.loads(done.stdout).get("content")) if done.returncode == 0 else done.stderr
        wanted = ('"action": "accept"', '"integer": 42', '"number": 3.14', '"hero-1"', '"fish-1"', '"pet-1"')
        yield "a form is accepted with its defaults", all(each in said for each in wanted), said
        arguments = json.dumps({"url": "https://example.com/a", "errorPath": True})
        done = self._hermes("mcp", "call", NAME, "trigger-url-elicitation", "--args", arguments)
        # What the server writes into its log stands there as well, whenever it comes.
        own = [line for line in done.stderr.splitlines() if line.startswith("hermes: ")]
        refused = "an address to be opened first" in "".join(own) and len(own) == 1
        yield "an address that is not opened is one sentence", refused, done.stderr

    def _message(self, text: str, wanted: str) -> Result:
        before = len(self._model.requests())
        done = self._hermes("-p", text, "--json", "--approve", "all")
        sent = json.dumps([each["body"]["messages"] for each in self._model.requests()[before:]])
        return text, done.returncode == 0 and wanted in sent, done.stderr + sent[-1_500:]

    def _hermes(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ours. One that does not end in time counts as failed, and says so."""
        command = [*HERMES, *arguments]
        try:
            return subprocess.run(
                command,
                env=environment(self._home, self._model.base_url),
                cwd=self._work,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"did not end within {SECONDS} s\n")


@contextmanager
def _server(transport: str, program: Path) -> Iterator[dict[str, Any]]:
    """The server as the settings name it; started here where it is reached by an address."""
    node = str(packages.node())
    if transport == "stdio":
        yield {"command": node, "args": [str(program), "stdio"]}
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [node, "--import", ON_LOOPBACK, str(program), TRANSPORTS[transport]]
    environ = {**packages.environment(), "PORT": str(port)}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _wait_for(port)
            path = "sse" if transport == "sse" else "mcp"
            yield {"url": f"http://127.0.0.1:{port}/{path}", "transport": transport}
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
