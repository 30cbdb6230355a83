"""Settings whose values are names take only names of what is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.api.known_names import change_setting
from agent.core.config.loader import load
from agent.core.home import Home
from agent.errors import ConfigError
from tests.support.model_server import ModelServer


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Home(tmp_path / "home")


NEAR = {
    "display.skin": ("papper", "There is no skin `papper`; did you mean `paper`?"),
    "display.personality": ("concize", "There is no personality `concize`; did you mean `concise`?"),
    "model.name": ("anthropik/claude", "did you mean anthropic/claude?"),
    "model.fallbacks": ("openai/gpt-5, mistrol/large", "did you mean mistral/large?"),
    "vision.model": ("opnai/gpt-5", "did you mean openai/gpt-5?"),
    "providers.own.format": ("chta", "There is no wire format `chta`; did you mean `chat`?"),
    "providers.own.dialect": ("mistrl", "There is no dialect `mistrl`; did you mean `mistral`?"),
    "memory.provider": ("fils", "There is no provider of notes `fils`; did you mean `files`?"),
    "web.search.providers": ("brave,serxng", "There is no search service `serxng`; did you mean `searxng`?"),
    "tools.enabled": ("defualt", "There is no toolset 'defualt'; did you mean `default`?"),
    "tools.direct": ("terminl", "did you mean `terminal`?"),
    "heartbeat.deliver": ("telegrm", "'telegrm' is not a way to deliver; give notice, none, file:PATH"),
}


@pytest.mark.parametrize("key", NEAR)
def test_a_name_of_nothing_is_refused_with_the_nearest_one(home: Home, key: str) -> None:
    wrong, said = NEAR[key]
    with pytest.raises(ConfigError) as refused:
        change_setting(home, key, wrong)
    assert said in str(refused.value) and not home.config.exists()


def test_a_name_without_a_near_one_is_refused_with_those_there_are(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"^There is no provider of notes `xyz`; there are auto, files\.$"):
        change_setting(home, "memory.provider", "xyz")
    with pytest.raises(ConfigError, match=r"^There is no search service `brve`; did you mean `brave`\?$"):
        change_setting(home, "web.addresses.brve", "https://proxy.example")


def test_names_of_what_the_person_added_are_taken(home: Home) -> None:
    home.skins.mkdir(parents=True)
    (home.skins / "mine.yaml").write_text("base: night\n")
    (home.root / "dialects").mkdir()
    (home.root / "dialects" / "ours.yaml").write_text("roles: {alternate: true}\n")
    for key, value in (
        *(("display.skin", name) for name in ("mine", "auto", "paper")),
        ("display.personality", "concise"),
        ("providers.lab.base_url", "http://127.0.0.1:9/v1"),
        ("providers.lab.dialect", "ours"),
        ("model.name", "lab/maker/model"),
        ("recall.embeddings", "off"),
        ("heartbeat.deliver", "telegram"),
    ):
        assert change_setting(home, key, value) == value
    assert change_setting(home, "tools.direct", "terminal, file") == ["terminal", "file"]
    assert change_setting(home, "display.skin", "null") == "night"
    assert load(home, {}).settings.model.name == "lab/maker/model"


async def test_a_model_that_its_server_does_not_list_is_kept_with_a_warning_or_refused(home: Home) -> None:
    async with ModelServer(models=("tiny", "maker/large")) as server:
        change_setting(home, "providers.lab.base_url", server.base_url)

        def change(key: str, value: str) -> list[str]:
            warnings: list[str] = []
            change_setting(home, key, value, warnings)
            return warnings

        for key, value in (("model.name", "lab/tiny"), ("vision.model", "maker/large")):
            assert await asyncio.to_thread(change, key, value) == []
        (said,) = await asyncio.to_thread(change, "model.fallbacks", "lab/tiny, lab/larje")
        assert said.startswith("The list of lab does not have larje; did you mean lab/maker/large?")
        with pytest.raises(ConfigError, match=r"^There is no provider 'nosuch', and the list of lab"):
            await asyncio.to_thread(change, "model.name", "nosuch/foo")
    assert load(home, {}).settings.model.name == "lab/tiny"


def test_a_provider_that_is_nearly_one_of_several_is_guessed(home: Home) -> None:
    for name in ("echo", "other"):
        change_setting(home, f"providers.{name}.base_url", "http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError) as refused:
        change_setting(home, "model.name", "ehco/tiny")
    assert str(refused.value) == (
        "There is no provider 'ehco'; did you mean echo/tiny? If it is a maker, write for example "
        "echo/ehco/tiny."
    )
    with pytest.raises(ConfigError, match=r"^It is open which provider serves maker/tiny: echo, other;"):
        change_setting(home, "model.name", "maker/tiny")
