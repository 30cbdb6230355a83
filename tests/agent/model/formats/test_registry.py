"""A wire format is one file that declares itself, also outside of the packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.model.format_registry import FORMATS
from tests.support.engines import bench
from tests.support.model_server import call, say
from tools.parts import searching

OWN = '''
"""Chat completions under another name, as a gateway might want them."""

from agent.model.formats.chat import ChatFormat


class Shouted(ChatFormat):
    name = "shouted"

    def headers(self, api_key):
        return {"Authorization": f"Bearer {api_key}", "X-Voice": "loud"}


FORMAT = Shouted()
'''


def declared(folder: Path, name: str, text: str) -> Path:
    (folder / "formats").mkdir(exist_ok=True)
    (folder / "formats" / f"{name}.py").write_text(text)
    return folder


def test_the_formats_of_the_program_are_found_by_their_files() -> None:
    assert FORMATS.names() == ["anthropic", "chat", "responses"]
    assert [FORMATS.get(name).name for name in FORMATS.names()] == FORMATS.names()


async def test_a_file_outside_of_the_packages_adds_a_format(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with bench(tmp_path, [call("read_file", path="a.txt"), say("Read.")]) as b:
        b.config(
            "model: {name: gate/m}\n"
            f"providers: {{gate: {{base_url: '{b.server.base_url}', format: shouted, api_key_env: GATE}}}}\n"
        )
        b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "GATE": "test-key"}
        (b.workspace / "a.txt").write_text("hello\n")
        with searching(declared(outside, "shouted", OWN)):
            ended = await b.turn("Read it")
        assert (ended.outcome, ended.text, b.server.refusals) == ("done", "Read.", [])
        assert {request.headers["x-voice"] for request in b.server.requests} == {"loud"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("odd", "FORMAT = 1 +", "cannot be loaded (SyntaxError"),
        ("odd", "x = 1", "cannot be loaded (AttributeError"),
        ("odd", OWN, "calls itself 'shouted'; name its file so"),
    ],
)
def test_a_file_that_is_no_format_is_named(tmp_path: Path, name: str, text: str, words: str) -> None:
    with searching(declared(tmp_path, name, text)), pytest.raises(ConfigError) as caught:
        FORMATS.get(name)
    assert words in str(caught.value) and "odd.py" in str(caught.value)


def test_no_file_outside_replaces_a_format_of_the_program(tmp_path: Path) -> None:
    with searching(declared(tmp_path, "chat", "FORMAT = None")):
        assert FORMATS.get("chat").title == "chat completions"


async def test_an_unknown_format_is_told_with_those_there_are(tmp_path: Path) -> None:
    async with bench(tmp_path, []) as b:
        b.config("providers: {gate: {base_url: 'http://127.0.0.1:9/v1', format: soap}}\n")
        b.environ |= {"HERMES_MODEL": "gate/m", "OPENAI_BASE_URL": ""}
        with pytest.raises(ConfigError) as caught:
            async with b.engine():
                pass
    assert "no wire format 'soap' (providers.gate.format); known are anthropic, chat, responses" in str(
        caught.value
    )
