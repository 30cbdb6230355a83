"""Which models can be chosen, and what is said of those that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.errors import ConfigError
from agent.model.catalog import PROVIDERS, lookup
from agent.model.detect import DetectedServer
from agent.model.model_choices import OFFERED, ModelChoice, choices, merge_choices, ports, served_choices
from agent.model.providers import resolve


def listed(folder: Path, environ: dict[str, str] | None = None, **settings: object) -> dict[str, ModelChoice]:
    found = choices(Settings.model_validate(settings), environ or {}, Home(folder))
    return {choice.name: choice for choice in found}


def weights(folder: Path, *names: str) -> list[Path]:
    (folder / "models").mkdir()
    paths = [folder / "models" / name for name in names]
    for path in paths:
        path.write_bytes(b"GGUF")
    return paths


@pytest.mark.parametrize(("provider", "model"), [(p, m) for p, models in OFFERED.items() for m in models])
def test_every_model_offered_is_known_offline(provider: str, model: str) -> None:
    info = lookup(model, provider)
    assert info is not None and info.context_window
    assert any(model.startswith(family) for family in PROVIDERS[provider].families)


def test_every_choice_that_can_be_used_resolves_to_its_label(tmp_path: Path) -> None:
    weights(tmp_path, "a.gguf", "b.gguf")
    environ = {"OPENAI_API_KEY": "k1234567", "ANTHROPIC_API_KEY": "k1234567"}
    usable = [choice for choice in listed(tmp_path, environ).values() if not choice.problem]
    assert len(usable) > 10
    for choice in usable:
        target = resolve(Settings.model_validate({}), environ, choice.name)[0]
        assert choice.label == (choice.name if choice.name.startswith("local:") else target.label)


def test_a_missing_key_is_named_and_the_price_still_known(tmp_path: Path) -> None:
    choice = listed(tmp_path)["openai/gpt-5"]
    assert choice.missing_key == "OPENAI_API_KEY" and "OPENAI_API_KEY" in choice.problem
    assert choice.info.input_price == 1.25 and choice.info.context_window == 400_000


def test_a_key_makes_the_models_of_its_provider_usable(tmp_path: Path) -> None:
    found = listed(tmp_path, {"OPENAI_API_KEY": "k1234567"})
    assert not found["openai/gpt-5"].problem and found["openai/gpt-5"].missing_key == ""
    assert found["anthropic/claude-sonnet-5"].problem
    problems = [bool(choice.problem) for choice in found.values()]
    assert problems == sorted(problems), "usable ones come first"


def test_an_unusable_key_is_said(tmp_path: Path) -> None:
    choice = listed(tmp_path, {"OPENAI_API_KEY": "has blank"})["openai/gpt-5"]
    assert "OPENAI_API_KEY" in choice.problem and choice.missing_key == ""


def test_models_of_the_settings_come_with_their_own_figures(tmp_path: Path) -> None:
    lab = {
        "base_url": "http://127.0.0.1:9999/v1",
        "models": {"big": {"context_window": 5_000, "input_price": 0, "output_price": 0}, "plain": {}},
    }
    found = listed(tmp_path, providers={"lab": lab})
    assert found["lab/big"].info.context_window == 5_000 and found["lab/big"].info.input_price == 0
    assert found["lab/plain"].info.context_window is None and found["lab/plain"].info.input_price is None


def test_the_default_is_marked_once_whatever_it_is_called(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "k1234567"}
    found = listed(tmp_path, environ, model={"name": "gpt-5", "fallbacks": ["demo", "openai/gpt-5"]})
    assert [choice.label for choice in found.values() if choice.default] == ["openai/gpt-5"]
    assert [choice.label for choice in found.values()].count("openai/gpt-5") == 1
    found = listed(tmp_path, {**environ, "HERMES_MODEL": "demo"}, model={"name": "gpt-5"})
    assert [choice.name for choice in found.values() if choice.default] == ["demo"]


def test_a_broken_fallback_does_not_spoil_the_list(tmp_path: Path) -> None:
    found = listed(tmp_path, model={"name": "demo", "fallbacks": ["nowhere-model"]})
    assert not found["demo"].problem
    assert found["nowhere-model"].problem


def test_providers_without_a_list_ask_for_a_name(tmp_path: Path) -> None:
    found = listed(tmp_path, {"OPENROUTER_API_KEY": "k1234567"})
    assert found["openrouter/…"].problem == "Name the model: / and then openrouter/MODEL."
    assert found["groq/…"].missing_key == "GROQ_API_KEY"


def test_an_address_of_ones_own_hides_the_models_that_it_would_be_asked_for(tmp_path: Path) -> None:
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "HERMES_MODEL": "scripted"}
    found = listed(tmp_path, environ)
    assert not any(name.startswith(("openai/", "anthropic/")) for name in found)
    found = listed(tmp_path, environ | {"ANTHROPIC_API_KEY": "k1234567"})
    assert any(name.startswith("anthropic/") for name in found)
    assert found["scripted"].label == "custom/scripted"


def test_local_weights_are_listed_and_their_absence_told(tmp_path: Path) -> None:
    assert "hermes model pull" in listed(tmp_path)["local"].problem
    a, b = weights(tmp_path, "a.gguf", "b.gguf")
    found = listed(tmp_path)
    assert not found["local"].problem and found["local"].info.input_price == 0
    assert f"local:{b}" in found and f"local:{a}" not in found


def test_weights_that_are_gone_are_told_by_name(tmp_path: Path) -> None:
    weights(tmp_path, "a.gguf")
    found = listed(tmp_path, local={"model": str(tmp_path / "gone.gguf")})
    assert "gone.gguf" in found["local"].problem


def test_servers_offer_their_models_or_say_that_they_have_none(tmp_path: Path) -> None:
    servers = [
        DetectedServer("ollama", "http://127.0.0.1:11434/v1", ("qwen", "llama")),
        DetectedServer("vllm", "http://127.0.0.1:8000/v1", ()),
    ]
    found = served_choices(Settings.model_validate({}), {}, Home(tmp_path), servers)
    assert [(choice.name, bool(choice.problem)) for choice in found] == [
        ("ollama/qwen", False),
        ("ollama/llama", False),
        ("vllm/…", True),
    ]
    assert found[0].info.context_window is None, "what a server on this machine offers is not guessed"


def test_servers_are_asked_where_the_settings_say_and_never_twice() -> None:
    lab = {"base_url": "http://localhost:1234/v1"}
    far = {"base_url": "https://models.example/v1"}
    asked = ports(
        Settings.model_validate({"providers": {"lab": lab, "far": far}}),
        {"OPENAI_BASE_URL": "http://127.0.0.1:8733/v1"},
    )
    assert ("custom", 8733) in asked
    assert ("lab", 1234) in asked
    assert not {"lmstudio", "far"} & {name for name, _ in asked}
    assert len({port for _, port in asked}) == len(asked)


def test_merging_keeps_what_can_be_used() -> None:
    broken = ModelChoice(name="m", label="m", origin="settings", problem="no")
    good = ModelChoice(name="m", label="m", origin="server")
    other = ModelChoice(name="a", label="a", origin="provider", problem="no")
    assert merge_choices([broken, other, good]) == [good, other]
    assert merge_choices([good, broken]) == [good]


def test_a_home_that_cannot_be_read_spoils_nothing(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("no folder")
    with pytest.raises(ConfigError):
        from agent.model.local.sources import installed_files

        installed_files(Home(tmp_path))
    assert listed(tmp_path)["local"].problem and not listed(tmp_path)["demo"].problem
