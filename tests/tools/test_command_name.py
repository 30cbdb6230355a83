"""Commands in sentences have the form that runs where the person is."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.support import command
from tools.command_name import as_called, as_typed


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of a program that is not on the search path."""
    script = tmp_path / "checkout/.venv/bin/hermes"
    script.parent.mkdir(parents=True)
    script.touch(0o755)
    monkeypatch.setattr(sys, "prefix", str(script.parents[1]))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return str(script)


@pytest.mark.parametrize(
    "sentence",
    [
        "Agree with `hermes mcp trust x`.",
        "To undo it: hermes rollback --to 3",
        "nothing draws; hermes config set image.base_url URL",
        "then hermes model pull, then hermes --model local",
    ],
)
def test_a_command_is_named_by_its_path_where_it_is_not_on_the_search_path(
    elsewhere: str, sentence: str
) -> None:
    assert as_called(sentence) == sentence.replace("hermes ", f"{elsewhere} ")


@pytest.mark.parametrize("sentence", ["the folder hermes is empty", "/opt/hermes --x", "what hermes said"])
def test_what_is_no_command_stays(elsewhere: str, sentence: str) -> None:
    assert as_called(sentence) == sentence


def test_answers_of_the_shell_name_commands_that_run(tmp_path: Path) -> None:
    script = Path(sys.prefix, "bin/hermes")
    assert script.exists(), "the tests run in the environment in which the program is installed"
    environ = command.environment(tmp_path / "home", PATH="/usr/bin:/bin")
    for words in (("mcp",), ("doctor",)):
        said = command.run(*words, env=environ, cwd=tmp_path).stdout
        assert f"{shlex.quote(str(script))} " in said and "`hermes " not in said and "; hermes " not in said


def test_in_the_application_its_own_commands_are_named_and_others_as_they_run(elsewhere: str) -> None:
    said = "No credit; choose another model: `hermes --model NAME`. `hermes doctor` looks."
    assert as_typed(said) == f"No credit; choose another model: `/model NAME`. `{elsewhere} doctor` looks."


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("agree to it with `hermes mcp trust echo`.", "agree to it with `/mcp echo`, then t."),
        ("look at it with `hermes mcp probe echo`", "look at it with `/mcp echo`"),
        ("see `hermes plugin enable notes`.", "see `/plugins`."),
        (
            "There is no learning 4; `hermes learnings list` shows",
            "There is no learning 4; `/learnings` shows",
        ),
        (
            "`hermes config set budget.day.money 5` sets one",
            "`/settings` (budget.day.money: 5) sets one",
        ),
    ],
)
def test_what_a_screen_can_do_is_named_by_its_command_in_the_application(said: str, typed: str) -> None:
    assert as_typed(said) == typed


def test_a_refused_key_is_entered_in_the_application_and_named_elsewhere() -> None:
    refused = "lab wants an API key (HTTP 401)"
    said = (
        f"{refused}; name the variable that holds the key: `hermes config set providers.lab.api_key_env V`."
    )
    assert as_typed(said) == f"{refused}; enter it (/model, then e)."
