"""The model picker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.errors import ConfigError
from agent.model.catalog import ModelInfo
from agent.model.detect import DetectedServer
from agent.model.model_choices import ModelChoice, choices, served_choices
from app.tui.screens.models.model_menu import ModelMenu
from app.tui.screens.models.models import BUSY, ModelsScreen, about, dollars, price
from tests.app.tui.pages import PageHost, lines_of, pressing
from tests.support.waiting import until

KEYS = {"ANTHROPIC_API_KEY": "k1234567", "OPENROUTER_API_KEY": "k1234567"}
SETTINGS = Settings.model_validate(
    {
        "model": {"name": "anthropic/claude-sonnet-5"},
        "providers": {
            "lab": {"base_url": "http://127.0.0.1:9/v1", "models": {"big": {"context_window": 9_000}}}
        },
    }
)
HOME = Home(Path("/nonexistent-home"))
SERVERS = [DetectedServer("ollama", "http://127.0.0.1:11434/v1", ("qwen3-coder:30b", "[red]tiny"))]


class Menu:
    """Answers at once, except that servers answer when `gate` is open."""

    def __init__(self, *, slow: bool = False) -> None:
        self.gate = asyncio.Event()
        if not slow:
            self.gate.set()
        self.kept: list[str] = []
        self.failure = ""

    async def list_choices(self) -> list[ModelChoice]:
        return choices(SETTINGS, KEYS, HOME)

    async def detect_choices(self) -> list[ModelChoice]:
        await self.gate.wait()
        if self.failure:
            raise ConfigError(self.failure)
        return served_choices(SETTINGS, KEYS, HOME, SERVERS)

    async def keep(self, name: str) -> str:
        if self.failure:
            raise ConfigError(self.failure)
        self.kept.append(name)
        return f"New sessions begin with {name}."


def host_of(menu: Menu, *, busy: bool = False, current: str = "anthropic/claude-opus-5") -> PageHost:
    return PageHost(lambda: ModelsScreen(current, menu, lambda: busy))


def rows_of(host: PageHost) -> Any:
    return host.screen.rows  # type: ignore[attr-defined]


async def ready(pilot: Any, host: PageHost) -> Any:
    await until(pilot, lambda: isinstance(host.screen, ModelsScreen) and "qwen3" in "".join(names(host)))
    return rows_of(host)


def names(host: PageHost) -> list[str]:
    rows = rows_of(host)
    return [choice.name for choice in rows._choices]


async def test_the_list_is_there_before_the_servers_have_answered() -> None:
    menu = Menu(slow=True)
    host = host_of(menu)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "demo" in names(host))
        assert not any("qwen" in name for name in names(host))
        assert "looking" in str(host.screen.query_one("#page-state").render())
        await pilot.press("down")
        pointed = rows_of(host).pointed
        menu.gate.set()
        await ready(pilot, host)
        assert rows_of(host).pointed == pointed, "the cursor stays where it was"


async def test_what_prevents_the_list_is_told_below_it() -> None:
    menu = Menu(slow=True)
    menu.failure = "config.yaml cannot be read."
    host = host_of(menu)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "demo" in names(host))
        menu.gate.set()
        await until(pilot, lambda: not str(host.screen.query_one("#page-state").render()))
        assert str(host.screen.query_one("#page-about").render()) == f"✗ {menu.failure}"


async def test_the_cursor_begins_on_the_current_model_which_is_marked() -> None:
    host = host_of(Menu())
    async with host.run_test(size=(80, 24)) as pilot:
        rows = await ready(pilot, host)
        assert rows.pointed.name == "anthropic/claude-opus-5"
        assert any("● anthropic/claude-opus-5" in each for each in lines_of(rows))
        assert "$5 / $25" in next(each for each in lines_of(rows) if "claude-opus-5" in each)


@pytest.mark.thorough
async def test_enter_chooses_and_escape_does_not() -> None:
    host = host_of(Menu())
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host)
        await pilot.press("down", "enter")
        await until(pilot, lambda: host.outcomes == ["anthropic/claude-fable-5"])
    host = host_of(Menu())
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host)
        await pilot.press("escape")
        await until(pilot, lambda: host.outcomes == [None])


@pytest.mark.thorough
async def test_a_model_without_its_key_says_which_variable_is_missing() -> None:
    host = host_of(Menu())
    async with host.run_test(size=(120, 40)) as pilot:
        await ready(pilot, host)
        await pilot.press("slash", *"gpt-5-mini", "enter", "g", "enter")
        await until(pilot, lambda: any("OPENAI_API_KEY" in each for each in host.told))
        assert host.outcomes == []
        assert "OPENAI_API_KEY" in str(host.screen.query_one("#page-about").render())


@pytest.mark.thorough
async def test_a_name_on_no_list_can_be_chosen() -> None:
    host = host_of(Menu())
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host)
        await pilot.press("slash", *"openrouter/vendor/new")
        await until(
            pilot,
            lambda: any("continue with “openrouter/vendor/new”" in each for each in lines_of(rows_of(host))),
        )
        await pilot.press("enter", "enter")
        await until(pilot, lambda: host.outcomes == ["openrouter/vendor/new"])


async def test_while_a_turn_runs_nothing_is_switched() -> None:
    host = host_of(Menu(), busy=True)
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host)
        await until(pilot, lambda: "turn is running" in str(host.screen.query_one("#page-state").render()))
        await pilot.press("enter")
        await until(pilot, lambda: host.told == [BUSY])
        assert host.outcomes == []


async def test_d_keeps_a_model_as_the_default() -> None:
    menu = Menu()
    host = host_of(menu)
    async with host.run_test(size=(120, 40)) as pilot:
        rows = await ready(pilot, host)
        await pilot.press("space")
        await until(pilot, lambda: menu.kept == ["anthropic/claude-opus-5"])
        await until(pilot, lambda: rows.pointed.default)
        menu.failure = "Cannot write config.yaml: disk full."
        await pilot.press("down", "space")
        await until(pilot, lambda: menu.failure in host.told)
        assert not rows.pointed.default


async def test_names_from_a_server_stay_text() -> None:
    host = host_of(Menu())
    async with host.run_test(size=(80, 24)) as pilot:
        await ready(pilot, host)
        await pilot.press("slash", *"tiny", "enter", "g")
        await until(pilot, lambda: any("ollama/[red]tiny" in each for each in lines_of(rows_of(host))))
        await until(pilot, lambda: "[red]tiny" in str(host.screen.query_one("#page-about").render()))


def test_prices_are_short_exact_and_never_invented() -> None:
    assert [dollars(each) for each in (None, 0, 3, 3.0, 0.25, 0.1, 1.25, 0.0028)] == [
        "–", "$0", "$3", "$3", "$0.25", "$0.10", "$1.25", "$0.0028",
    ]  # fmt: skip
    assert price(ModelInfo()) == "–"
    assert price(ModelInfo(input_price=0, output_price=0)) == "free"
    assert price(ModelInfo(input_price=3)) == "$3 / –"
    assert price(ModelInfo(output_price=2)) == "– / $2"


def test_what_is_unknown_is_said_to_be() -> None:
    choice = ModelChoice(name="a/b", label="a/b", origin="server")
    assert about(choice) == "a/b · window unknown · price unknown"
    known = replace(choice, info=ModelInfo(context_window=9_000, max_output=1_000, input_price=3))
    assert about(known) == (
        "a/b · window 9k tokens · longest reply 1k · per million tokens: in $3, out –, from the cache –"
    )
    free = ModelInfo(input_price=0, output_price=0, cached_price=0)
    assert about(replace(choice, info=free)) == "a/b · window unknown · free"
    assert about(replace(choice, problem="No.")) == "No."


async def test_the_real_menu_reads_and_writes_the_settings(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("# mine\nmodel:\n  name: demo\n")
    menu = ModelMenu(tmp_path, {"HERMES_HOME": str(tmp_path), "OPENAI_API_KEY": "k1234567"})
    assert [each.name for each in await menu.list_choices() if each.default] == ["demo"]
    assert "openai/gpt-5" in await menu.keep("openai/gpt-5")
    assert (tmp_path / "config.yaml").read_text() == "# mine\nmodel:\n  name: openai/gpt-5\n"
    assert [each.name for each in await menu.list_choices() if each.default] == ["openai/gpt-5"]
    menu = ModelMenu(tmp_path, {"HERMES_HOME": str(tmp_path), "HERMES_MODEL": "demo"})
    assert "HERMES_MODEL is set to demo" in await menu.keep("local")


async def test_the_real_menu_finds_a_server_at_an_address_of_the_settings(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"object": "list", "data": [{"id": "mine"}]}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        (tmp_path / "config.yaml").write_text(
            f"providers:\n  lab:\n    base_url: http://127.0.0.1:{port}/v1\n"
        )
        found = await ModelMenu(tmp_path, {"HERMES_HOME": str(tmp_path)}).detect_choices()
    assert "lab/mine" in [choice.name for choice in found if not choice.problem]


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    ("skin", "keys"),
    [("night", ()), ("paper", ("slash", *"gemini", "enter")), ("night", ("slash", *"groq/llama"))],
    ids=["list", "paper-filter", "another"],
)
def test_the_picker_looks_as_it_should(
    snap_compare: Any, size: tuple[int, int], skin: str, keys: tuple[str, ...]
) -> None:
    host = PageHost(lambda: ModelsScreen("anthropic/claude-opus-5", Menu()), skin)
    assert snap_compare(host, terminal_size=size, run_before=pressing(*keys))
