"""From settings and environment to what is talked to."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from agent.core.config.schema import Settings
from agent.errors import ConfigError, ExitCode
from agent.model.addresses import is_loopback
from agent.model.catalog import PROVIDERS
from agent.model.detect import DetectedServer
from agent.model.providers import NoModelError, Target, resolve

ENDPOINT = {"OPENAI_BASE_URL": "https://llm.example/v1", "OPENAI_API_KEY": "sk-1", "HERMES_MODEL": "m"}


def first(environ: dict[str, str], wanted: str | None = None, /, **settings: Any) -> Target:
    return resolve(Settings.model_validate(settings), environ, wanted)[0]


def refusal(environ: dict[str, str], wanted: str | None = None, /, **settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        first(environ, wanted, **settings)
    assert caught.value.exit_code == ExitCode.USAGE
    return str(caught.value)


def test_three_variables_suffice_for_any_endpoint() -> None:
    target = first(ENDPOINT)
    assert (target.kind, target.model, target.base_url) == ("chat", "m", "https://llm.example/v1")
    assert (target.api_key, target.key_hint, target.tool_mode) == ("sk-1", "OPENAI_API_KEY", "native")


@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-oss-20b",
        "anthropic/claude-sonnet-4",
        "mistralai/Devstral-Small",
        "a/b/c",
        "groq/x",
        "name:tag",
    ],
)
def test_at_ones_own_endpoint_the_whole_string_is_the_models_name(model: str) -> None:
    target = first(ENDPOINT | {"HERMES_MODEL": model})
    assert (target.model, target.base_url) == (model, "https://llm.example/v1")


def test_a_provider_with_a_key_is_meant_even_beside_ones_own_endpoint() -> None:
    target = first(ENDPOINT | {"GROQ_API_KEY": "g"}, "groq/llama-3.3-70b-versatile")
    assert (target.provider, target.model, target.api_key) == ("groq", "llama-3.3-70b-versatile", "g")
    assert first(ENDPOINT, "ollama/qwen3:8b").base_url == "http://127.0.0.1:11434/v1"


@pytest.mark.parametrize("name", [name for name, provider in PROVIDERS.items() if provider.key_env])
def test_every_built_in_provider_needs_its_key_and_says_which(name: str) -> None:
    variable = PROVIDERS[name].key_env
    assert variable in refusal({}, f"{name}/some/model")
    endpoint = "https://mine.openai.azure.com"
    target = first({variable: " k \n", "AZURE_OPENAI_ENDPOINT": endpoint}, f"{name}/some/model")
    assert (target.provider, target.model, target.api_key) == (name, "some/model", "k")
    assert target.base_url == PROVIDERS[name].base_url.replace("${AZURE_OPENAI_ENDPOINT}", endpoint)
    assert (target.headers.get("api-key") == "k") is (name == "azure")


@pytest.mark.parametrize("name", [name for name, provider in PROVIDERS.items() if not provider.key_env])
def test_servers_on_this_machine_need_no_key(name: str) -> None:
    target = first({}, f"{name}/m")
    assert (target.api_key, target.model) == ("", "m")
    assert is_loopback(target.base_url)


@pytest.mark.parametrize(
    "host", ["localhost:1", "127.0.0.1:8080", "127.9.9.9", "[::1]:80", "a.localhost", "0.0.0.0:1"]
)
def test_loopback_never_asks_for_a_key(host: str) -> None:
    target = first({"OPENAI_BASE_URL": f"http://{host}/v1", "HERMES_MODEL": "m"})
    assert target.api_key == ""


@pytest.mark.parametrize("host", ["llm.example", "10.0.0.1", "localhost.example", "127.0.0.1.example"])
def test_every_other_endpoint_does(host: str) -> None:
    assert "OPENAI_API_KEY" in refusal({"OPENAI_BASE_URL": f"http://{host}/v1", "HERMES_MODEL": "m"})


def test_the_label_of_a_model_at_the_endpoint_names_it_again() -> None:
    label = first(ENDPOINT, "vendor/m").label
    assert (label, first(ENDPOINT, label).label) == ("custom/vendor/m", label)


def test_command_line_before_environment_before_config() -> None:
    config = {"model": {"name": "config-model"}}
    environ = {key: value for key, value in ENDPOINT.items() if key != "HERMES_MODEL"}
    assert first(environ, **config).model == "config-model"
    assert first(environ | {"HERMES_MODEL": "env-model"}, **config).model == "env-model"
    assert first(environ | {"HERMES_MODEL": "env-model"}, "own-model", **config).model == "own-model"
    assert first(environ | {"HERMES_MODEL": "  "}, "", **config).model == "config-model"


def test_the_maker_of_a_model_is_found_by_its_name() -> None:
    both = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}
    assert first(both, "claude-sonnet-4-5").provider == "anthropic"
    assert first(both, "gpt-5").provider == "openai"
    assert "ANTHROPIC_API_KEY" in refusal({"OPENAI_API_KEY": "o"}, "claude-sonnet-4-5")


def test_the_only_provider_with_a_key_takes_an_unknown_name() -> None:
    assert first({"OPENROUTER_API_KEY": "k"}, "qwen/qwen3-coder").label == "openrouter/qwen/qwen3-coder"
    assert first({"OPENROUTER_API_KEY": "k"}, "openrouter/anthropic/claude-x").model == "anthropic/claude-x"
    assert "openrouter/anthropic/claude-x" in refusal({"OPENROUTER_API_KEY": "k"}, "anthropic/claude-x")
    assert "write for example" in refusal({"OPENROUTER_API_KEY": "k", "GROQ_API_KEY": "g"}, "some-model")
    assert "No provider" in refusal({}, "some-model")


PROVIDER = {
    "providers": {
        "work": {
            "base_url": "https://work.example/v1/chat/completions/",
            "api_key_env": "WORK_KEY",
            "tool_mode": "schema",
            "headers": {"X-Team": "a"},
            "models": {"big": {"context_window": 5000, "tool_mode": "text", "input_price": 1}},
        }
    }
}


def test_a_provider_of_the_settings_is_used_as_written() -> None:
    target = first({"WORK_KEY": "w"}, "work/small", **PROVIDER)
    assert (target.base_url, target.api_key, target.tool_mode) == ("https://work.example/v1", "w", "schema")
    assert target.headers == {"X-Team": "a"}
    assert target.info.context_window is None
    assert "WORK_KEY" in refusal({}, "work/small", **PROVIDER)


def test_what_the_settings_say_about_a_model_wins() -> None:
    target = first({"WORK_KEY": "w"}, "big", **PROVIDER)
    assert target.provider == "work"
    assert (target.tool_mode, target.info.context_window, target.info.input_price) == ("text", 5000, 1)
    assert target.info.output_price is None


def test_a_key_goes_only_where_its_provider_lives() -> None:
    elsewhere = {"providers": {"openai": {"base_url": "https://proxy.example/v1"}}}
    assert first({"OPENAI_API_KEY": "secret"}, "openai/gpt-5", **elsewhere).api_key == ""
    at_home = {"providers": {"openai": {"base_url": "https://api.openai.com/v1"}}}
    assert first({"OPENAI_API_KEY": "secret"}, "openai/gpt-5", **at_home).api_key == "secret"


def test_prices_count_where_the_model_is_bought() -> None:
    assert first({"OPENAI_API_KEY": "k"}, "openai/gpt-4o").info.input_price == 2.5
    at_home = {"OPENAI_BASE_URL": "https://api.openai.com/v1", "OPENAI_API_KEY": "k"}
    assert first(at_home, "gpt-4o").info.input_price == 2.5
    other = first(ENDPOINT, "gpt-4o").info
    assert (other.input_price, other.context_window) == (None, 128_000)
    assert first({}, "ollama/gpt-4o").info.context_window is None


def test_demo_and_local_need_nothing() -> None:
    assert (first({}, "demo").kind, first({}, "demo").label) == ("demo", "demo")
    local = first({}, "local", local={"context": 4096})
    assert (local.kind, local.tool_mode, local.info.context_window, local.path) == (
        "local",
        "schema",
        4096,
        "",
    )
    assert local.info.input_price == 0
    assert first({}, "local:/models/a.gguf").path == "/models/a.gguf"


def test_fallbacks_follow_in_their_order_once_each() -> None:
    settings = Settings.model_validate(
        {"model": {"name": "m", "fallbacks": ["ollama/x", " ", "m", "local", "ollama/x"]}}
    )
    assert [target.label for target in resolve(settings, ENDPOINT)] == ["custom/m", "ollama/x", "local"]
    assert [target.label for target in resolve(settings, ENDPOINT, "demo")] == ["demo"]


def test_a_fallback_that_cannot_work_is_told_at_once() -> None:
    environ = {"ANTHROPIC_API_KEY": "a"}
    assert "GROQ_API_KEY" in refusal(environ, "anthropic/x", model={"fallbacks": ["groq/x"]})
    assert "demo" in refusal(ENDPOINT, model={"fallbacks": ["demo"]})


@pytest.mark.parametrize(
    "url",
    [
        "llm.example/v1",
        "ftp://llm.example",
        "https://",
        "http://a:99999/v1",
        "http://[::1/v1",
        "http://a b/v1",
        "x",
    ],
)
def test_an_address_that_is_none_is_named(url: str) -> None:
    assert "OPENAI_BASE_URL" in refusal({**ENDPOINT, "OPENAI_BASE_URL": url})


def test_secrets_are_neither_shown_nor_taken_from_addresses() -> None:
    assert "sk-1" not in repr(first(ENDPOINT))
    assert "hush" not in refusal({**ENDPOINT, "OPENAI_BASE_URL": "https://me:hush@llm.example/v1"})


@pytest.mark.parametrize("key", ["sk-1\r\nX-Evil: 1", "se cret", "schlüssel", "“sk-1”"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(key: str) -> None:
    sentence = refusal({**ENDPOINT, "OPENAI_API_KEY": key})
    assert "OPENAI_API_KEY" in sentence
    assert key not in sentence


def test_an_unprintable_model_name_is_refused() -> None:
    assert "\x1b" not in refusal(ENDPOINT, "m\x1b[31m")


def test_with_nothing_configured_three_ways_on_are_named() -> None:
    with pytest.raises(NoModelError) as caught:
        first({})
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert caught.value.exit_code == ExitCode.USAGE
    for word in ("OPENAI_API_KEY", "Ollama", "hermes model pull", "--demo"):
        assert word in str(caught.value)


def test_servers_that_run_here_are_named() -> None:
    servers = [
        DetectedServer("ollama", "http://127.0.0.1:11434/v1", ("qwen3:8b", "llama3")),
        DetectedServer("vllm", "http://127.0.0.1:8000/v1", ()),
    ]
    sentence = str(NoModelError().with_servers(servers))
    assert "--model ollama/qwen3:8b" in sentence
    assert "vLLM" in sentence
    assert len(sentence.splitlines()) == 5


def test_a_key_alone_chooses_no_model() -> None:
    with pytest.raises(NoModelError) as caught:
        first({"ANTHROPIC_API_KEY": "secret"})
    assert "ANTHROPIC_API_KEY is set" in str(caught.value)
    assert "HERMES_MODEL=anthropic/" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_address_alone_chooses_no_model_and_says_how_to_name_one_of_it() -> None:
    with pytest.raises(NoModelError) as caught:
        first({"OPENAI_BASE_URL": "https://models.example/v1", "OPENAI_API_KEY": "secret"})
    assert "OPENAI_BASE_URL and OPENAI_API_KEY are set; add HERMES_MODEL=custom/<model>" in str(caught.value)


@pytest.mark.thorough
def test_importing_these_modules_loads_nothing_heavy() -> None:
    code = (
        "import sys, agent.model.providers, agent.model.detect, agent.model.usage, agent.model.demo\n"
        "heavy = {'pydantic', 'openai', 'httpx2', 'yaml', 'textual'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
