"""Taking a setting out of the file: its lines go, everything else stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.core.config.document import parse
from agent.core.config.edit import set_value, unset_setting, unset_value
from agent.core.config.loader import load
from agent.core.home import Home
from agent.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("model:\n  name: demo  # slow\n  retries: 2\n", "model.name", "model:\n  retries: 2\n"),
        ("# top\nterminal:\n  timeout: 60\n# end\n", "terminal.timeout", "# top\nterminal:\n# end\n"),
        ("terminal: {timeout: 60, backend: local}\n", "terminal.timeout", "terminal: {backend: local}\n"),
        ("terminal: {timeout: 60}\n", "terminal.timeout", "terminal: {}\n"),
        ("model:\r\n  name: demo\r\n  retries: 2\r\n", "model.name", "model:\r\n  retries: 2\r\n"),
        ("terminal:\n  timeout: 60", "terminal.timeout", "terminal:\n"),
        ("tools:\n  enabled:\n  - a\n  - b\n  disabled: [c]\n", "tools.enabled", "tools:\n  disabled: [c]\n"),
        ("model:\n  name: |\n    a\n    b\n  retries: 2\n", "model.name", "model:\n  retries: 2\n"),
        ("keys:\n  'view.log': f5\n  view.files: f6\n", "keys.view.log", "keys:\n  view.files: f6\n"),
    ],
)  # fmt: skip
def test_the_lines_of_the_setting_go_and_nothing_else(home: Home, before: str, key: str, after: str) -> None:
    home.config.write_bytes(before.encode())
    assert unset_setting(home, key)
    assert home.config.read_bytes() == after.encode()
    assert not load(home, {}).problems


@pytest.mark.parametrize("text", ["", "terminal:\n", "terminal:\n  timeout: 60\n"])
def test_what_is_not_in_the_file_changes_nothing(home: Home, text: str) -> None:
    home.config.write_text(text)
    assert not unset_setting(home, "model.retries")
    assert home.config.read_text() == text


@pytest.mark.parametrize(
    "text",
    [
        "base: &b {timeout: 60}\nterminal:\n  <<: *b\n",
        "terminal: {timeout: 60, # why\n  backend: local}\n",
        "terminal:\n  timeout: [60\n",
    ],
)
def test_what_cannot_be_done_safely_is_refused_and_left_alone(home: Home, text: str) -> None:
    home.config.write_text(text)
    with pytest.raises(ConfigError):
        unset_setting(home, "terminal.timeout") or unset_value(text.encode(), ("terminal", "timeout"))
    assert home.config.read_text() == text


def test_an_unknown_key_and_a_section_are_refused(home: Home) -> None:
    for key in ("terminal.timout", "terminal"):
        with pytest.raises(ConfigError):
            unset_setting(home, key)


@pytest.mark.thorough
@given(
    st.dictionaries(
        st.sampled_from(["timeout", "max_timeout", "env_passthrough"]),
        st.integers(1, 999) | st.lists(st.text("ab :", max_size=4), max_size=3),
        min_size=1,
    ),
    st.booleans(),
    st.data(),
)
def test_setting_and_taking_out_again_leaves_the_rest_as_it_was(section, flow: bool, data) -> None:
    text = yaml.safe_dump({"agent": {"max_turns": 3}, "terminal": section}, default_flow_style=flow)
    name = data.draw(st.sampled_from(sorted(section)))
    left = parse(unset_value(text.encode(), ("terminal", name)), "config.yaml").data
    assert left["agent"] == {"max_turns": 3}
    assert (left.get("terminal") or {}) == {key: value for key, value in section.items() if key != name}
    added = set_value(text.encode(), ("model", "retries"), 2)
    assert parse(unset_value(added, ("model", "retries")), "config.yaml").data.get("terminal") == section
