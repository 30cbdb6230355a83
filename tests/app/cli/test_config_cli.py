"""`hermes config`, as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.main import main

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home of mine"
    folder.mkdir(mode=0o700)
    return folder


@dataclass(frozen=True)
class Said:
    """What one command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def hermes(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """Runs `hermes` in an empty folder; extra variables by keyword."""
    monkeypatch.chdir(workspace)

    def run(*arguments: str, **variables: str) -> Said:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("HERMES_")]:
                patch.delenv(name)
            for name, value in {"HERMES_HOME": str(home), **variables}.items():
                patch.setenv(name, value)
            try:
                code = main(arguments)
            except SystemExit as exit_:
                code = int(exit_.code or 0)
        return Said(code, *capsys.readouterr())

    return run


def test_a_setting_is_set_read_and_shown(hermes, home: Path) -> None:
    assert hermes("config", "set", "terminal.timeout", "60").returncode == 0
    assert hermes("config", "get", "terminal.timeout").stdout == "60\n"
    shown = hermes("config", "show").stdout
    assert "terminal.timeout" in shown and "(config.yaml line 2)" in shown
    data = json.loads(hermes("config", "show", "--json", HERMES_MODEL="demo").stdout)
    assert data["terminal.timeout"] == {"value": 60, "source": "config.yaml line 2"}
    assert data["model.name"] == {"value": "demo", "source": "HERMES_MODEL"}
    assert data["agent.max_turns"] == {"value": 90, "source": "default"}
    defaults = json.loads(hermes("config", "show", "--json", "--defaults", HERMES_MODEL="demo").stdout)
    assert defaults["terminal.timeout"] == {"value": 180, "source": "default"}
    assert defaults["model.name"]["value"] == ""


def test_get_of_a_section_is_json(hermes) -> None:
    assert json.loads(hermes("config", "get", "agent").stdout) == {"max_turns": 90, "parallel_calls": 8}


def test_the_path_is_printed_as_it_is(hermes, home: Path) -> None:
    assert hermes("config", "path").stdout == f"{home / 'config.yaml'}\n"
    assert json.loads(hermes("config", "path", "--json").stdout) == {"path": str(home / "config.yaml")}


def test_check_says_everything_and_exits_with_2(hermes, home: Path) -> None:
    assert hermes("config", "check").returncode == 0
    (home / "config.yaml").write_text("modle: x\nagent: {max_turns: 0}\nmodel: {name: 5}\n")
    result = hermes("config", "check", HERMES_MODEL="demo", HERMES_MAX_TURNS="none")
    assert result.returncode == 2
    assert [line.split("`")[0] for line in result.stdout.splitlines()[:4]] == [
        "✗ config.yaml line 1, column 1: unknown key ",
        "✗ config.yaml line 2, column 20: ",
        "✗ config.yaml line 3, column 15: ",
        "✗ HERMES_MAX_TURNS: ",
    ]
    assert result.stdout.splitlines()[4].startswith("4 problems")
    as_json = hermes("config", "check", "--json", HERMES_MODEL="demo", HERMES_MAX_TURNS="none")
    assert as_json.returncode == 2
    shown = json.loads(as_json.stdout)
    assert shown["path"] == str(home / "config.yaml")
    assert [f"✗ {each}" for each in shown["problems"]] == result.stdout.splitlines()[:4]


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ("{before_tol: [{command: x}]}", "unknown key `hooks.before_tol`; did you mean `hooks.before_tool`?"),
        ("{odd: [{command: x}]}", "unknown key `hooks.odd`; it takes session_start,"),
        ("{before_tool: {command: x}}", "`hooks.before_tool` is a section; it takes a list."),
        ("{before_tool: [{match: x}]}", "`hooks.before_tool`, entry 1, `command`: field required."),
    ],
)
def test_check_says_what_is_wrong_inside_a_list_of_hooks(hermes, home: Path, hooks: str, said: str) -> None:
    (home / "config.yaml").write_text(f"hooks: {hooks}\n")
    result = hermes("config", "check")
    assert result.returncode == 2 and said in result.stdout


def test_check_names_a_dialect_of_your_own_that_cannot_be_used(hermes, home: Path) -> None:
    (home / "dialects").mkdir()
    (home / "dialects" / "fine.yaml").write_text("match: {providers: [mine]}\n")
    assert hermes("config", "check").returncode == 0
    (home / "dialects" / "odd.yaml").write_text("match: {providers: [mine]}\nbogus: 1\n")
    result = hermes("config", "check")
    assert result.returncode == 2
    assert (
        "odd.yaml is not used: it has a mistake at 'bogus': there is no such key." in result.stdout
        and "fine.yaml" not in result.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "modle.name", "x"), "did you mean `model`"),
        (("set", "agent.max_turns", "0"), "at least 1"),
        (("get", "nonsense"), "config show` lists all."),
        (("get", "providers.none.base_url"), "is not set"),
        (("trust",), "nothing to trust"),
        (("trust", "/nonexistent/\x1b[31m"), "nothing to trust"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(hermes, arguments: tuple[str, ...], words: str) -> None:
    result = hermes("config", *arguments)
    assert result.returncode == 2 and result.stdout == ""
    assert words in result.stderr and "Traceback" not in result.stderr and "\x1b" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_secrets_are_never_shown(hermes, home: Path) -> None:
    (home / "config.yaml").write_text(
        "providers:\n  a:\n    base_url: https://me:hunter22@h/v1\n"
        "    headers: {Authorization: Bearer hush-hush}\n"
    )
    (home / ".env").write_text("A_KEY=quiet-quiet\n")
    (home / ".env").chmod(0o600)
    for arguments in (
        ("show",),
        ("show", "--json"),
        ("get", "providers.a"),
        ("get", "providers"),
        ("check",),
    ):
        result = hermes("config", *arguments)
        assert result.returncode == 0, result.stderr
        said = result.stdout + result.stderr
        assert "hunter22" not in said and "hush-hush" not in said and "quiet-quiet" not in said
    assert "Authorization" in hermes("config", "show").stdout


def test_control_characters_of_a_file_do_not_reach_the_terminal(hermes, home: Path) -> None:
    (home / "config.yaml").write_text('model: {name: "a\\e]0;title\\ab"}\n"x\\e[2J": 1\n')
    for arguments in (("show",), ("check",), ("get", "model.name")):
        result = hermes("config", *arguments)
        assert "\x1b" not in result.stdout + result.stderr and "\x07" not in result.stdout


@pytest.mark.thorough
def test_a_terminal_without_unicode_is_served_too(home: Path, workspace: Path) -> None:
    (home / "config.yaml").write_text("modle: é\n", "utf-8")
    result = subprocess.run(
        [sys.executable, "-c", "import sys; from app.main import main; sys.exit(main())", "config", "check"],
        cwd=workspace,
        env={"HERMES_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 2 and b"unknown key `modle`" in result.stdout


def test_trust_shows_what_it_allows_and_can_be_taken_back(hermes, workspace: Path) -> None:
    (workspace / ".hermes").mkdir()
    (workspace / ".hermes" / "config.yaml").write_text("model: {name: theirs}\napprovals: {mode: all}\n")
    before = hermes("config", "show")
    assert "theirs" not in before.stdout and "config trust`" in before.stderr
    trusted = hermes("config", "trust")
    assert "model.name = theirs" in trusted.stdout
    assert "`approvals.mode` cannot be set by a project" in trusted.stdout
    assert hermes("config", "get", "model.name").stdout == "theirs\n"
    assert hermes("config", "get", "approvals.mode").stdout == "ask\n"
    assert "no longer trusted" in hermes("config", "untrust").stdout
    assert hermes("config", "get", "model.name").stdout == "\n"


def test_a_variable_that_hides_the_new_value_is_named(hermes) -> None:
    result = hermes("config", "set", "model.name", "a", HERMES_MODEL="b")
    assert "HERMES_MODEL is set and overrides it" in result.stdout


def test_null_unsets_what_cannot_be_nothing(hermes, home: Path) -> None:
    assert hermes("config", "set", "model.name", "openai/model").returncode == 0
    assert hermes("config", "set", "agent.max_turns", "7").returncode == 0
    assert hermes("config", "set", "model.name", "null").stdout.startswith("model.name = ")
    assert hermes("config", "set", "agent.max_turns", "null").stdout.startswith("agent.max_turns = 90")
    data = json.loads(hermes("config", "show", "--json").stdout)
    assert data["model.name"] == {"value": "", "source": "default"}
    assert data["agent.max_turns"]["source"] == "default"


@pytest.mark.parametrize("address", ["not-a-url", "http://", "ftp://host/v1", "https://a b/v1", ""])
def test_an_address_of_a_provider_that_is_not_one_is_refused(hermes, home: Path, address: str) -> None:
    done = hermes("config", "set", "providers.mine.base_url", address)
    assert done.returncode == 2
    assert "address such as https://api.example.com/v1" in done.stderr
    assert not (home / "config.yaml").exists()


@pytest.mark.parametrize("address", ["http://localhost:11434/v1", "https://[::1]:8/x", "https://${HOST}/v1"])
def test_an_address_of_a_provider_may_hold_a_variable(hermes, address: str) -> None:
    assert hermes("config", "set", "providers.mine.base_url", address).returncode == 0
