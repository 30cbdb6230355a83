"""What is known offline about models."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from agent.core.config.schema import ModelInfoSettings as ModelSettings
from agent.model.catalog import PROVIDERS, UNKNOWN, ModelInfo, lookup, normalise

ROWS = json.loads(resources.files("agent.model").joinpath("catalog.json").read_text())["models"]


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("GPT-4o", ("gpt-4o", "")),
        ("gpt-4o-2024-08-06", ("gpt-4o", "")),
        ("claude-sonnet-4-5-20250929", ("claude-sonnet-4-5", "")),
        ("claude-3-5-haiku-latest", ("claude-3-5-haiku", "")),
        ("claude-sonnet-4@20250514", ("claude-sonnet-4", "")),
        ("anthropic/claude-sonnet-4.5", ("claude-sonnet-4-5", "")),
        ("moonshotai/kimi-k2:free", ("kimi-k2", "free")),
        ("gemini-3-pro-preview", ("gemini-3-pro", "")),
        ("", ("", "")),
    ],
)
def test_names_are_read_without_vendor_date_and_spelling(name: str, plain: tuple[str, str]) -> None:
    assert normalise(name) == plain


def test_known_models_have_window_and_price_where_they_are_sold() -> None:
    known = lookup("claude-sonnet-4-5-20250929", "anthropic")
    assert known is not None
    assert (known.context_window, known.max_output) == (200_000, 64_000)
    assert (known.input_price, known.output_price, known.cached_price) == (3, 15, 0.3)
    assert lookup("anthropic/claude-sonnet-4.5", "openrouter") == known


@pytest.mark.parametrize(
    ("model", "provider"), [("gpt-4o", ""), ("gpt-4o", "ollama"), ("openai/gpt-4o:free", "openrouter")]
)
def test_prices_are_unknown_elsewhere(model: str, provider: str) -> None:
    known = lookup(model, provider)
    assert known is not None
    assert known.context_window == 128_000
    assert (known.input_price, known.output_price, known.cached_price) == (None, None, None)


@pytest.mark.parametrize(
    "model", ["", "nobody-knows", "gpt-4o-mini-imitation", "gpt", "/", ":", "my-claude-sonnet-4"]
)
def test_an_unknown_model_is_unknown(model: str) -> None:
    assert lookup(model, "openai") is None


def test_near_names_are_not_confused() -> None:
    windows = {
        name: lookup(name)
        for name in ("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-5", "gpt-5-mini", "o3", "o3-mini")
    }
    assert all(windows.values())
    mini = lookup("gpt-4o-mini", "openai")
    assert mini is not None
    assert mini.input_price == 0.15


def test_settings_win_field_by_field() -> None:
    known = ModelInfo(context_window=10, input_price=1.0)
    mixed = known.overridden(ModelSettings(context_window=20, cached_price=0))
    assert mixed == ModelInfo(context_window=20, input_price=1.0, cached_price=0)
    assert UNKNOWN.overridden(None) == UNKNOWN


def test_the_fields_are_those_of_the_settings() -> None:
    # What a server told is known beside them, and no setting.
    assert set(ModelSettings.model_fields) == set(ModelInfo.__slots__) - {"told"}


def test_the_table_is_sound() -> None:
    patterns = [pattern for row in ROWS for pattern in row["match"]]
    assert len(set(patterns)) == len(patterns)
    for row in ROWS:
        assert row["context_window"] > 0
        assert row.get("max_output", 1) <= row["context_window"]
        assert set(row.get("price_at", ())) <= set(PROVIDERS)
        assert ("price" in row) == ("price_at" in row)
        if "price" in row:
            paid, said, cached, *kept = row["price"]
            assert 0 < paid <= said
            assert cached is None or 0 < cached < paid
            assert all(paid < price <= 2 * paid for price in kept)
        for pattern in row["match"]:
            assert normalise(pattern) == (pattern, "")
