"""Names of settings, and the reference made from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.config import reference, setting_names
from agent.core.config.environment import OVERRIDES
from agent.errors import ConfigError

PAGE = Path(__file__).parents[4] / "docs" / "settings.md"


def test_the_page_lists_exactly_the_settings_of_the_schema() -> None:
    text = PAGE.read_text()
    assert reference.renew(text) == text, (
        "docs/settings.md is behind the schema; see docs/developing/extending.md"
    )


def test_every_setting_has_a_description_and_a_key_that_resolves() -> None:
    for key, field in setting_names.settings():
        assert field.description and field.description.endswith("."), key
        assert setting_names.field_at(setting_names.split(key.replace("NAME", "x"))) is not None, key


def test_every_override_names_a_setting() -> None:
    for path in OVERRIDES.values():
        assert setting_names.field_at(path) is not None


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("terminal.timeout", ("terminal", "timeout")),
        ("providers.a.b.base_url", ("providers", "a.b", "base_url")),
        ("providers.a.models.m.1.tool_mode", ("providers", "a", "models", "m.1", "tool_mode")),
        ("providers.a.headers.X.y", ("providers", "a", "headers", "X.y")),
        ("providers.a", ("providers", "a")),
    ],
)
def test_dotted_keys_are_split_where_the_schema_says(key: str, path: tuple[str, ...]) -> None:
    assert setting_names.split(key) == path


@pytest.mark.parametrize("key", ["x" * 100_000, ".".join("a" * 30), "providers..base_url", "\x1b[31m", "."])
def test_a_hopeless_key_is_refused_on_one_line(key: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        setting_names.split(key)
    assert str(refusal.value).isprintable() and len(str(refusal.value)) < 120
