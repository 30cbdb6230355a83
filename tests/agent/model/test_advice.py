"""What a failure advises works as it is written, also for a provider that only the environment names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.edit import set_setting
from agent.core.home import Home
from tests.support.delivery import Recorded
from tests.support.engines import bench
from tests.support.model_server import ModelServer, Reply, refuse, say

NO_TOOLS = "No endpoints found that support tool use. To learn more, visit the documentation."


def on_tools(status: int, said: str) -> Callable[[Recorded], Reply]:
    return lambda request: refuse(status, said)


def page(status: int, text: str) -> Callable[[Recorded], Reply]:
    return lambda request: Reply(status=status, content_type="text/html", body=text.encode())


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("refused", "cause", "setting"),
    [
        (on_tools(400, "test-model does not support tools"), "custom refused the request", "tool_mode text"),
        (on_tools(404, NO_TOOLS), "does not offer the model as it was asked for", "tool_mode text"),
        (on_tools(404, "No allowed providers are available for the selected model."), "the model", "model"),
        (on_tools(404, "The requested deployment was retired."), "does not offer the model", "model"),
        (on_tools(404, "Not Found"), "There is no chat completions API", "base_url URL"),
        (
            page(404, "<html><h1>404 Not Found</h1></html>"),
            "There is no chat completions API",
            "base_url URL",
        ),
        (page(404, "404 page not found"), "There is no chat completions API", "base_url URL"),
        (on_tools(400, "The value of foo is wrong."), "custom refused the request", "model"),
        (on_tools(402, "Insufficient balance"), "no credit left", "model"),
    ],
)
async def test_an_advice_works_as_it_is_written(
    tmp_path: Path, refused: Callable[[Any], Reply], cause: str, setting: str
) -> None:
    def answer(request: Recorded) -> Reply:
        if request.body["model"] == "other" or (setting == "tool_mode text" and mended):
            return say("well")
        return refused(request)

    mended = False
    async with bench(tmp_path, answer) as b, ModelServer(lambda _: say("well")) as elsewhere:
        ended = await b.turn("hi")
        assert ended.outcome == "failed" and cause in ended.error
        commands = re.findall(r"`(hermes [^`]+)`", ended.error)
        assert len(commands) == 1, ended.error
        mended, options = True, {}
        match shlex.split(commands[0]):
            case ["hermes", "config", "set", key, value]:
                assert f"providers.custom.{setting}" == f"{key} {value}"
                value = elsewhere.base_url if value == "URL" else value
                set_setting(Home(b.home), key, value)
            case ["hermes", "--model", "NAME"]:
                assert setting == "model"
                options["model"] = "other"
            case other:
                raise AssertionError(other)
        ended = await b.turn("hi again", **options)
        assert (ended.outcome, ended.text) == ("done", "well")
        if setting == "tool_mode text":
            assert "tools" not in b.server.requests[-1].body


async def test_a_key_that_is_wanted_goes_where_the_advice_says(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _: say("well"), api_key="sk-secret-key-1") as b:
        b.config(f"model: {{name: mine/m}}\nproviders: {{mine: {{base_url: '{b.server.base_url}'}}}}\n")
        b.environ = {
            "HERMES_MODEL": "",
            "OPENAI_BASE_URL": "",
            "OPENAI_API_KEY": "",
            "MY_KEY": "sk-secret-key-1",
        }
        ended = await b.turn("hi")
        assert "wants an API key" in ended.error
        (command,) = re.findall(r"`(hermes [^`]+)`", ended.error)
        *start, key, value = shlex.split(command)
        assert (start, key, value) == (["hermes", "config", "set"], "providers.mine.api_key_env", "VARIABLE")
        set_setting(Home(b.home), key, "MY_KEY")
        assert (await b.turn("hi")).text == "well"
