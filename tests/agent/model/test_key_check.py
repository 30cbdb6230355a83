"""Whether a provider takes a key: one request, and a sentence that never holds the key."""

from __future__ import annotations

import pytest

from agent.core.config.schema import Settings
from agent.model.catalog import PROVIDERS
from agent.model.key_check import KeyProvider, check_key, key_providers
from tests.support.model_server import ModelServer

KEY = "right-key-0123456789"


def provider(base_url: str, **fields: str) -> KeyProvider:
    return KeyProvider(
        name="mine", variable="MINE_API_KEY", base_url=base_url, **{"format": "chat", **fields}
    )


async def test_a_right_key_is_taken_and_the_models_are_told() -> None:
    async with ModelServer(api_key=KEY, models=("mini", "maxi")) as server:
        check = await check_key(provider(server.base_url), KEY)
        assert (check.problem, check.models) == ("", ("mini", "maxi"))
        assert server.connections == 1 and server.requests == []


async def test_a_wrong_key_is_refused_without_being_repeated() -> None:
    async with ModelServer(api_key=KEY) as server:
        check = await check_key(provider(server.base_url), "wrong-key-987654321")
    assert check.problem == "mine does not take this key (401); copy it again."


@pytest.mark.parametrize(
    ("base_url", "words"),
    [
        ("http://models.example.org/v1", "is not encrypted"),
        ("http://127.0.0.1:9/v1", "mine"),
        ("https://[::1", "mine"),
    ],
)
async def test_what_cannot_be_asked_is_told_in_a_sentence(base_url: str, words: str) -> None:
    check = await check_key(provider(base_url), KEY)
    assert words in check.problem and "\n" not in check.problem and KEY not in check.problem


@pytest.mark.parametrize("key", ["two words", "tab\t", "ключ"])
async def test_what_no_header_can_hold_is_not_sent(key: str) -> None:
    async with ModelServer(api_key=KEY) as server:
        assert "copy it again" in (await check_key(provider(server.base_url), key)).problem
        assert server.connections == 0


def test_providers_of_the_settings_come_first_and_know_whether_their_key_is_set() -> None:
    own = {"mine": {"base_url": "https://m.example/v1", "api_key_env": "MINE_API_KEY"}}
    found = key_providers(Settings.model_validate({"providers": own}), {"OPENAI_API_KEY": "k"})
    assert found[0].name == "mine" and not found[0].is_set
    assert {each.name for each in found[1:]} == {name for name, each in PROVIDERS.items() if each.key_env}
    assert [each.name for each in found if each.is_set] == ["openai"]


def test_a_provider_that_has_named_no_variable_yet_takes_a_key_under_one_of_its_name() -> None:
    own = {"1-lab": {"base_url": "http://127.0.0.1:9/v1"}}
    found = key_providers(Settings.model_validate({"providers": own}), {"_1_LAB_API_KEY": "of another"})
    assert (found[-1].name, found[-1].variable, found[-1].is_set) == ("1-lab", "_1_LAB_API_KEY", False)
    assert found[0].name == next(name for name, each in PROVIDERS.items() if each.key_env)


def test_a_variable_with_another_value_in_place_of_it_is_filled_in_where_it_is_not_set() -> None:
    own = {
        "mine": {
            "base_url": "https://m.example/v1?api-version=${API_VERSION:-2025-01-01}",
            "api_key_env": "MINE_API_KEY",
            "headers": {"X-Team": "${TEAM:-core}", "X-Other": "${MISSING}"},
        }
    }
    found = key_providers(Settings.model_validate({"providers": own}), {})[0]
    assert found.base_url.endswith("api-version=2025-01-01")
    assert found.headers == {"X-Team": "core", "X-Other": "${MISSING}"}
