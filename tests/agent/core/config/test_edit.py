"""One setting changes, every other byte stays."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.core.config import setting_names
from agent.core.config.document import parse
from agent.core.config.edit import set_setting, set_value
from agent.core.config.layers import lookup
from agent.core.config.loader import load
from agent.core.home import Home
from agent.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("", "model.name", "a", "model:\n  name: a\n"),
        ("# mine", "model.name", "a", "# mine\nmodel:\n  name: a\n"),
        ("model:\n  name: a  # why\n", "model.name", "b", "model:\n  name: b  # why\n"),
        ("model:\n  name: 'a'\n", "model.name", "no", "model:\n  name: 'no'\n"),
        ("model:\n  name: # why\n", "model.name", "b", "model:\n  name: b # why\n"),
        (
            "model:\n    retries: 1\n# end\n",
            "model.name",
            "b",
            "model:\n    retries: 1\n    name: b\n# end\n",
        ),
        ("model: {retries: 1}\n", "model.name", "a, b", "model: {retries: 1, name: 'a, b'}\n"),
        ("model: {}\n", "model.name", "b", "model: {name: b}\n"),
        ("model:\n  # name: x\n", "model.name", "b", "model:\n  name: b\n  # name: x\n"),
        ("model: ~\n", "model.name", "b", "model: {name: b}\n"),
        ("model:\n  # name: x\n", "agent.max_turns", 5, "model:\n  # name: x\nagent:\n  max_turns: 5\n"),
        ("model:\r\n  name: a\r\n", "model.retries", 1, "model:\r\n  name: a\r\n  retries: 1\r\n"),
        ("tools:\n  disabled:\n  - a\n  - b\n", "tools.disabled", ["c"], "tools:\n  disabled:\n  - c\n"),
        ("tools: {disabled: [a]}\n", "tools.disabled", [], "tools: {disabled: []}\n"),
        ("model:\n  name: |\n    x\n  retries: 1\n", "model.name", "b", "model:\n  name: b\n  retries: 1\n"),
        (
            "---\nmodel:\n  name: a\n...\n",
            "agent.max_turns",
            5,
            "---\nmodel:\n  name: a\nagent:\n  max_turns: 5\n...\n",
        ),
        ("\ufeffmodel:\n  name: 'é😀'\n", "model.retries", 1, "\ufeffmodel:\n  name: 'é😀'\n  retries: 1\n"),
        ("model:\n  name: a", "model.name", "b", "model:\n  name: b"),
    ],
)
def test_only_the_setting_changes(before: str, key: str, value: object, after: str) -> None:
    assert set_value(before.encode(), setting_names.split(key), value).decode() == after


@pytest.mark.parametrize(
    ("before", "key", "value"),
    [
        ("tools:\n  disabled:\n  - a\n  # why\n  - b\n", "tools.disabled", ["c"]),
        ("model: &m\n  name: a\nother: *m\n", "model.name", "b"),
        ("x: &x a\nmodel:\n  name: *x\n", "model.name", "b"),
        ("model: 5\n", "model.name", "b"),
    ],
)
def test_what_cannot_be_done_safely_is_refused_with_the_lines(before: str, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match="by hand") as refusal:
        set_value(before.encode(), setting_names.split(key), value)
    lines = str(refusal.value).split("\n", 1)[1]
    assert lookup(yaml.safe_load(lines), setting_names.split(key)) == value


def test_a_broken_file_is_not_edited(home: Home) -> None:
    home.root.mkdir()
    home.config.write_text("model: [\n")
    with pytest.raises(ConfigError, match=r"line 2.*Fix that first"):
        set_setting(home, "model.name", "a")
    assert home.config.read_text() == "model: [\n"


def test_a_set_value_is_read_back_and_the_file_is_private(home: Home) -> None:
    assert set_setting(home, "terminal.timeout", "60") == 60
    assert load(home, {}).settings.terminal.timeout == 60
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("model.name", "5", "5"),
        ("model.name", "no", "no"),
        ("model.name", "", ""),
        ("model.name", "a # b: c\n- \x1b[31m\U0001f600", "a # b: c\n- \x1b[31m\U0001f600"),
        ("model.temperature", "0.5", 0.5),
        ("model.temperature", "1", 1),
        ("model.temperature", "null", None),
        ("sandbox.mode", "off", "off"),
        ("sandbox.network", "on", "on"),
        ("model.fallbacks", "a, b", ["a", "b"]),
        ("model.fallbacks", '["a, b", c]', ["a, b", "c"]),
        ("model.fallbacks", "", []),
        ("providers.x.base_url", "http://h:1/v1", "http://h:1/v1"),
    ],
)
def test_text_becomes_what_the_setting_takes(home: Home, key: str, text: str, value: object) -> None:
    assert set_setting(home, key, text) == value
    assert lookup(load(home, {}).settings.model_dump(), setting_names.split(key)) == value


def test_names_with_dots_reach_their_entry(home: Home) -> None:
    set_setting(home, "providers.my.own.base_url", "http://h/v1")
    set_setting(home, "providers.my.own.models.qwen2.5-coder.context_window", "32768")
    set_setting(home, "providers.my.own.headers.X-Team", "7")
    own = load(home, {}).settings.providers["my.own"]
    assert own.models["qwen2.5-coder"].context_window == 32768
    assert own.headers == {"X-Team": "7"}


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("modle.name", "x", "did you mean `model"),
        ("model", "x", "is a section; set one of `model.name`"),
        ("providers.x", "y", "is a section"),
        ("providers", "y", "holds sections"),
        ("agent.max_turns", "0", "at least 1"),
        ("agent.max_turns", "many", "a whole number"),
        ("agent.max_turns", "5\nmodel: {name: x}", "a whole number"),
        ("approvals.mode", "yes", "one of `ask`"),
        ("model.name.x", "y", "no setting"),
        ("", "y", "no setting"),
        ("model..name", "y", "no setting"),
    ],
)
def test_what_is_not_allowed_leaves_the_file_alone(home: Home, key: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        set_setting(home, key, text)
    assert not home.config.exists()


def test_changes_made_at_once_are_all_kept(home: Home) -> None:
    with ThreadPoolExecutor(12) as pool:
        made = [pool.submit(set_setting, home, f"mcp_servers.s{each}.command", "true") for each in range(40)]
    assert not [each.exception() for each in made if each.exception()]
    assert len(parse(home.config.read_bytes(), "config.yaml").data["mcp_servers"]) == 40


def test_a_linked_file_stays_a_link(home: Home, tmp_path: Path) -> None:
    home.root.mkdir()
    real = tmp_path / "dotfiles.yaml"
    real.write_text("model:\n  name: a\n")
    home.config.symlink_to(real)
    set_setting(home, "model.name", "b")
    assert home.config.is_symlink() and real.read_text() == "model:\n  name: b\n"


_NAMES = st.sampled_from(
    ["a", "'b c'", '"d\\n"', "é", "x#y", "|\n      long\n      text", "[p, q]", "{r: s}", "~", ""]
)
_COMMENT = st.sampled_from(["", "  # why", " # a: b"])
_ENTRY = st.tuples(st.sampled_from(["k1", "k2", "name", "max_turns", "timeout"]), _NAMES, _COMMENT)
_ENTRIES = st.lists(_ENTRY, unique_by=lambda entry: entry[0], max_size=3)
_SECTIONS = st.lists(
    st.tuples(st.sampled_from(["model", "terminal", "agent", "mine"]), _ENTRIES),
    unique_by=lambda section: section[0],
    max_size=3,
)


def _written(sections: list[tuple[str, list[tuple[str, str, str]]]], blank: str) -> str:
    lines = []
    for name, entries in sections:
        lines.append(f"{name}:  # section")
        for key, value, comment in entries:
            lines.append(f"    {key}: {value}{'' if value.startswith('|') else comment}")
        lines.append(blank)
    return "\n".join(lines)


@pytest.mark.thorough
@given(
    _SECTIONS,
    st.sampled_from(["", "# note", "    # deep note"]),
    st.sampled_from(["model.name", "agent.max_turns", "terminal.timeout", "tools.disabled"]),
    st.one_of(st.text(max_size=8), st.integers(), st.lists(st.text(max_size=4), max_size=3)),
)
def test_a_change_touches_nothing_else(sections, blank: str, key: str, value: object) -> None:
    text = _written(sections, blank)
    path = setting_names.split(key)
    before = parse(text.encode(), "c")
    try:
        after = set_value(text.encode(), path, value).decode()
    except ConfigError:
        return
    assert lookup(parse(after.encode(), "c").data, path) == value
    kept = [line for line in text.split("\n") if line.strip()]
    result = after.split("\n")
    touched = [line for line in kept if line not in result]
    if before.keys.get(path) is None:
        assert touched == [] or all(line.startswith(f"{path[0]}:") for line in touched)
    else:
        assert all(path[-1] in line or line.strip() in ("long", "text") for line in touched)
