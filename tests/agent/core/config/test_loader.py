"""Settings from files and variables, with everything wrong told and left out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.config.loader import LoadedSettings, load
from agent.core.config.schema import Settings
from agent.core.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir(mode=0o700)
    return Home(root)


def loaded(home: Home, text: str = "", **environ: str) -> LoadedSettings:
    home.config.write_text(text)
    return load(home, environ)


def test_without_any_file_the_defaults_hold(home: Home) -> None:
    result = load(home, {})
    assert result.settings == Settings()
    assert result.problems == () and not result.sources


def test_a_key_spelt_wrong_is_named_with_its_line_and_the_nearest_one(home: Home) -> None:
    result = loaded(home, "# a\n\nmodle:\n  name: x\nterminal:\n  timout: 3\ntimeout: 4\n")
    assert [str(problem) for problem in result.problems] == [
        "config.yaml line 3, column 1: unknown key `modle`; did you mean `model`?",
        "config.yaml line 6, column 3: unknown key `terminal.timout`; did you mean `terminal.timeout`?",
        "config.yaml line 7, column 1: unknown key `timeout`; did you mean `terminal.timeout`?",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "agent:\n  max_turns: ninety\n",
            'line 2, column 14: `agent.max_turns` is "ninety"; it takes a whole number, at least 1.',
        ),
        (
            "agent: {max_turns: true}",
            "line 1, column 20: `agent.max_turns` is true; it takes a whole number, at least 1.",
        ),
        (
            "agent: {max_turns: '5'}",
            'line 1, column 20: `agent.max_turns` is "5"; it takes a whole number, at least 1.',
        ),
        ("model:\n  name: no\n", "line 2, column 9: `model.name` is read as false; put the text in quotes."),
        (
            "model: {max_output: 0}",
            "line 1, column 21: `model.max_output` is 0; it takes a whole number, at least 1, or nothing.",
        ),
        (
            "tools: {enabled: default}",
            'line 1, column 18: `tools.enabled` is "default"; it takes a list of texts.',
        ),
        (
            "tools: {enabled: [a, 1]}",
            "line 1, column 18: `tools.enabled`, entry 2, is 1; it takes a list of texts.",
        ),
        (
            "tools: [a]",
            "line 1, column 8: `tools` is a list; it takes a section of `key: value` lines below it.",
        ),
        (
            "model: {stall_timeout: .inf}",
            "line 1, column 24: `model.stall_timeout` is inf; it takes a number, above 0.",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(home: Home, text: str, sentence: str) -> None:
    result = loaded(home, text)
    assert [str(problem) for problem in result.problems] == [f"config.yaml {sentence}"]
    assert result.settings == Settings()


def test_one_wrong_entry_costs_no_other(home: Home) -> None:
    result = loaded(home, "model: {name: a, retries: -1}\nterminal: {timeout: 7, bakend: x}\nnonsense: 1\n")
    assert len(result.problems) == 3
    assert result.settings.model.name == "a"
    assert result.settings.model.retries == Settings().model.retries
    assert result.settings.terminal.timeout == 7


def test_a_section_whose_lines_are_all_comments_is_fine(home: Home) -> None:
    result = loaded(home, "terminal:\n  # timeout: 5\nproviders:\nmodel: ~\n")
    assert result.problems == () and result.settings == Settings()


def test_secrets_are_in_no_message(home: Home) -> None:
    text = (
        "providers:\n  a:\n    base_url: http://h/v1\n    api_key: tok-AAAA\n    api_key_env: tok-BBBB\n"
        "    headers: {X: 12345678}\n"
    )
    result = loaded(home, text)
    assert len(result.problems) == 3
    told = "\n".join(str(problem) for problem in result.problems)
    assert "AAAA" not in told and "BBBB" not in told and "12345678" not in told


def test_thousands_of_wrong_keys_are_summed_up(home: Home) -> None:
    result = loaded(home, "".join(f"key{n}: 1\n" for n in range(3000)))
    assert len(result.problems) == 51
    assert str(result.problems[-1]) == "config.yaml: 2,950 more wrong entries left out."


def test_variables_win_and_say_so(home: Home) -> None:
    text = "model: {name: a}\nagent: {max_turns: 3}\nterminal: {timeout: 9}\n"
    result = loaded(
        home,
        text,
        HERMES_MODEL="b",
        HERMES_MAX_TURNS="5",
        HERMES_APPROVALS="deny",
        HERMES_TERMINAL_TIMEOUT="",
    )
    assert result.problems == ()
    chosen = result.settings
    assert (chosen.model.name, chosen.agent.max_turns, chosen.approvals.mode) == ("b", 5, "deny")
    assert chosen.terminal.timeout == 9
    assert {".".join(map(str, path)): str(source) for path, source in result.sources.items()} == {
        "model.name": "HERMES_MODEL",
        "agent.max_turns": "HERMES_MAX_TURNS",
        "approvals.mode": "HERMES_APPROVALS",
        "terminal.timeout": "config.yaml line 3",
    }


@pytest.mark.parametrize("value", ["many", "0", "-3", "1e3", "9" * 5000, "5\n6"])
def test_a_wrong_variable_leaves_the_file_in_force(home: Home, value: str) -> None:
    result = loaded(home, "agent: {max_turns: 3}", HERMES_MAX_TURNS=value)
    assert result.settings.agent.max_turns == 3
    (problem,) = result.problems
    assert str(problem).startswith("HERMES_MAX_TURNS: `agent.max_turns` is ")


def test_a_wrong_entry_under_a_variable_shows_when_asked_for(home: Home) -> None:
    home.config.write_text("model: {name: 5}\n")
    assert load(home, {"HERMES_MODEL": "b"}).problems == ()
    assert len(load(home, {"HERMES_MODEL": "b"}, thorough=True).problems) == 1


def test_the_env_file_stands_below_the_real_environment(home: Home) -> None:
    home.env.write_text('A=file\nB=file\nexport C="x ${A} $(id)"\n')
    home.env.chmod(0o600)
    result = load(home, {"A": "real"})
    assert result.problems == ()
    assert result.environ == {"A": "real", "B": "file", "C": "x ${A} $(id)"}


def test_the_env_file_may_set_overriding_variables(home: Home) -> None:
    home.env.write_text("HERMES_MODEL=from-env-file\n")
    home.env.chmod(0o600)
    assert load(home, {}).settings.model.name == "from-env-file"
    assert load(home, {"HERMES_MODEL": "real"}).settings.model.name == "real"


def test_an_env_file_others_may_read_is_told_without_its_content(home: Home) -> None:
    home.env.write_text("KEY=hush\nbare-secret-token\n=x\n")
    home.env.chmod(0o644)
    told = [str(problem) for problem in load(home, {}).problems]
    assert [line.split(":")[0] for line in told] == [".env line 2, column 1", ".env line 3, column 1", ".env"]
    assert "chmod 600" in told[-1]
    assert "hush" not in str(told) and "bare-secret" not in str(told)


def _as_folder(path: Path) -> None:
    path.mkdir()


def _as_loop(path: Path) -> None:
    path.symlink_to(path.name)


def _as_pipe(path: Path) -> None:
    os.mkfifo(path)


def _as_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir(before)


def _as_huge(path: Path) -> None:
    path.write_bytes(b"# " + b"x" * 1_000_000)


def _as_utf16(path: Path) -> None:
    path.write_bytes("a: b".encode("utf-16"))


@pytest.mark.parametrize("make", [_as_folder, _as_loop, _as_pipe, _as_socket, _as_huge, _as_utf16])
@pytest.mark.parametrize("name", ["config.yaml", ".env"])
def test_whatever_stands_in_place_of_a_file_is_one_sentence(home: Home, make, name: str) -> None:
    make(home.root / name)
    result = load(home, {})
    assert result.settings == Settings()
    (problem,) = result.problems
    assert str(problem).startswith(name) and str(problem).endswith(".")


def test_a_dangling_link_is_as_good_as_no_file(home: Home) -> None:
    home.config.symlink_to("nowhere")
    assert load(home, {}).problems == ()


def test_the_file_is_never_written(home: Home) -> None:
    broken = "model: [\n\tx"
    loaded(home, broken)
    assert home.config.read_text() == broken
    assert [entry.name for entry in home.root.iterdir()] == ["config.yaml"]


_LINES = st.sampled_from(
    """model:;  name: x;  name: [;agent: {max_turns: 3};agent:;  max_turns: -1;providers:;  p:;    models:
    base_url: http://h/v1;    headers: {a: 1};      m.1: {context_window: x};- a;\tx: 1;? a;<<: *x;x: &x
tools: {enabled: [a, 1, {}]};{;};';# c;terminal: ~;approvals: deny;agent: [{}]""".replace("\n", ";").split(
        ";"
    )
)


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(_LINES, st.text(max_size=12)), max_size=10).map("\n".join))
def test_no_file_stops_the_program(home: Home, text: str) -> None:
    home.config.write_bytes(text.encode("utf-8", "surrogatepass"))
    result = load(home, {})
    assert isinstance(result.settings, Settings)
    assert all("\n" not in str(problem) for problem in result.problems)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("sandbox: {network: off}", "network", "off"),
        ("sandbox: {network: no}", "network", "off"),
        ("sandbox: {network: on}", "network", "on"),
        ("sandbox: {network: yes}", "network", "on"),
        ("sandbox: {mode: off}", "mode", "off"),
        ("sandbox: {mode: on}", "mode", "auto"),
    ],
)
def test_bare_on_and_off_are_the_words_they_look_like(home: Home, text: str, name: str, value: str) -> None:
    result = loaded(home, text)
    assert getattr(result.settings.sandbox, name) == value
    assert result.problems == ()


@pytest.mark.parametrize(
    ("text", "path", "strictest"),
    [
        ("sandbox: {network: offf}", ("sandbox", "network"), "off"),
        ("sandbox: {network: 0}", ("sandbox", "network"), "off"),
        ("sandbox: {network: }", ("sandbox", "network"), "off"),
        ("sandbox: {network: [off]}", ("sandbox", "network"), "off"),
        ("sandbox: {mode: none}", ("sandbox", "mode"), "auto"),
        ("approvals: {mode: carefull}", ("approvals", "mode"), "deny"),
        ("approvals: {mode: off}", ("approvals", "mode"), "deny"),
        ("memory: {write_approval: maybe}", ("memory", "write_approval"), "ask"),
    ],
)
def test_a_security_setting_that_is_not_understood_is_its_strictest_value(
    home: Home, text: str, path: tuple[str, str], strictest: str
) -> None:
    result = loaded(home, text)
    assert getattr(getattr(result.settings, path[0]), path[1]) == strictest
    [problem] = result.problems
    assert f"until then it is `{strictest}`" in str(problem)


def test_a_layer_above_still_overrides_what_was_not_understood(home: Home) -> None:
    result = loaded(home, "approvals: {mode: carefull}", HERMES_APPROVALS="plan")
    assert result.settings.approvals.mode == "plan"
