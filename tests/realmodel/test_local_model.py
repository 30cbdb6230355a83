"""What the small model really does: opt-in, as it needs the weights and some minutes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.core.messages import Message
from agent.model.codecs.schema import SchemaCodec
from agent.model.local.profile import LOCAL
from agent.model.local.server import Endpoint, LocalServer
from agent.model.protocol import TextDelta, ToolSpec
from tests.agent.model.offer import chat_form
from tests.realmodel.runner import Record, run, summary
from tests.realmodel.tasks import SINGLE, TWO_STEPS, Task

pytestmark = [pytest.mark.realmodel, pytest.mark.timeout(3_600)]

CODEC = SchemaCodec()
TOOLS = LOCAL.offer([ToolSpec(name, "", {}) for name in LOCAL.tools or ()])


@pytest_asyncio.fixture
async def endpoint(model: Path) -> AsyncIterator[Endpoint]:
    server = LocalServer(model, 2, 4096)
    endpoint = await server.start()
    try:
        yield endpoint
    finally:
        await server.stop()


def opening(request: str) -> list[Message]:
    prompt = (LOCAL.system_prompt or "").format(workspace="/home/ida/garden", date="")
    return [Message("system", CODEC.system(prompt, TOOLS)), *LOCAL.examples, Message("user", request)]


def ask(endpoint: Endpoint, messages: list[Message]) -> dict[str, Any]:
    body = {
        "messages": [json.loads(chat_form(CODEC, message)) for message in messages],
        "temperature": 0,
        "max_tokens": 200,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": CODEC.reply_schema(TOOLS)},
        },
    }
    return post(endpoint, body, endpoint.token)


def post(endpoint: Endpoint, body: dict[str, Any], token: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    url = f"{endpoint.base_url}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=900) as answer:
        return json.load(answer)


async def test_the_prompt_is_short_and_only_its_tail_is_read_again(endpoint: Endpoint) -> None:
    messages = opening("How many files are in the folder photos?")
    first = await asyncio.to_thread(ask, endpoint, messages)
    assert first["usage"]["prompt_tokens"] < 600
    decoder = CODEC.decoder(TOOLS)
    decoder.feed(TextDelta(first["choices"][0]["message"]["content"]))
    _, reply = decoder.finish()
    (call,) = reply.calls
    assert reply.repairs == ()
    messages += [
        Message("assistant", "", reply.calls),
        Message("tool", '{"output": "5", "exit_code": 0}', call_id=call.id),
    ]
    second = await asyncio.to_thread(ask, endpoint, messages)
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    # The whole first prompt and the model's own reply are known already.
    assert cached >= first["usage"]["prompt_tokens"]
    assert second["usage"]["prompt_tokens"] - cached < 60


async def test_nobody_without_the_key_is_answered(endpoint: Endpoint) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    for token in ("", "wrong", endpoint.token[:-1]):
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(post, endpoint, body, token)
        assert refused.value.code == 401
        refused.value.close()


def test_a_killed_parent_takes_the_model_with_it(model: Path) -> None:
    script = textwrap.dedent(f"""
        import asyncio, sys
        sys.path.insert(0, {str(Path.cwd())!r})
        from pathlib import Path
        from agent.model.local.server import LocalServer

        async def main():
            server = LocalServer(Path({str(model)!r}), 2, 1024)
            await server.start()
            print(server.pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail(f"the server {pid} is still there")


async def measured(tasks: tuple[Task, ...], model: Path, folder: Path) -> list[Record]:
    records = []
    for number, task in enumerate(tasks):
        records.append(await run(task, model, folder / "home", folder / f"{number}" / "garden"))
        print(records[-1].line(), flush=True)
    print(summary(records).splitlines()[-1], flush=True)
    return records


async def test_ten_of_twelve_requests_get_the_right_call(model: Path, tmp_path: Path) -> None:
    records = await measured(SINGLE, model, tmp_path)
    assert sum(record.right for record in records) >= 10, summary(records)


async def test_three_of_four_two_step_tasks_are_solved(model: Path, tmp_path: Path) -> None:
    records = await measured(TWO_STEPS, model, tmp_path)
    assert sum(record.right for record in records) >= 3, summary(records)
