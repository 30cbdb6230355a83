"""Which commands are essentially the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent.knowledge.learnings.calls import command_form, join_words, words


def form(text: str, cwd: str = "/w") -> tuple[str, str]:
    made = command_form(text, cwd, "/w")
    return made.text, made.place


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("make  test", "make test "),
        ("make test 2>&1 | tail -20", "make test"),
        ("make test > /dev/null 2>&1", "make test"),
        ("cd /w && make test", "make test"),
        ("cd ./ ; make test", "make test"),
        ('echo "a b"', "echo 'a b'"),
        ("echo a\\ b", "echo 'a b'"),
        ("python ./app.py", "python app.py"),
        ("python /w/src/app.py", "python src/app.py"),
        ("tool --out=/w/x", "tool --out=x"),
        ("/w/run.sh", "./run.sh"),
        ("B=2 A=1 tool", "A=1 B=2 tool"),
        ("tool # quickly", "tool"),
        ("a\nb", "a; b;"),
        ("tool \\\n  --flag", "tool --flag"),
    ],
)
def test_what_changes_nothing_is_not_essential(one: str, other: str) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("python app.py", "python3 app.py"),
        ("find . -name *.py", "find . -name '*.py'"),
        ('echo "$HOME"', "echo '$HOME'"),
        ("run.sh", "./run.sh"),
        ("API=1 tool", "tool"),
        ("serve --port 8000", "serve --port 8001"),
        ("cd sub && make", "make"),
        ("tool a b", "tool b a"),
        ("tool > out", "tool"),
        ("tool | grep x", "tool"),
        ("sudo tool", "tool"),
        ("tool &", "tool"),
    ],
)
def test_what_changes_the_call_is_essential(one: str, other: str) -> None:
    assert form(one) != form(other)


def test_a_folder_counts_whether_it_is_entered_or_named() -> None:
    assert form("cd sub && make test") == form("make test", "/w/sub")
    assert form("cd /w/sub && python /w/sub/a.py") == form("python a.py", "/w/sub")


@pytest.mark.parametrize(
    ("text", "program", "subcommand"),
    [
        ("git -C sub commit -m x", "git", "commit"),
        ("sudo -u you env A=1 timeout 5 python3 -m pip install x", "python3", "-m pip"),
        ("export A=1 && python app.py", "python", ""),
        ("cd a && cd b && npm run build", "npm", "run"),
        ("/usr/bin/make test", "make", "test"),
        ("cat x | sort", "cat", ""),
        ("cd sub", "cd", ""),
        ("", "", ""),
        ("A=1", "", ""),
        ("( tool x )", "tool", ""),
    ],
)
def test_the_program_that_matters_is_found(text: str, program: str, subcommand: str) -> None:
    main = command_form(text, "/w", "/w").main
    assert (main.program, main.subcommand) == (program, subcommand)


_TEXTS = some.text(
    alphabet=some.one_of(some.sampled_from(list("ab'\"\\ $`&|;<>()#\n=*./-2")), some.characters()),
    max_size=60,
)


@given(_TEXTS)
def test_what_is_written_one_way_stays_that_way(text: str) -> None:
    once = join_words(words(text))
    assert join_words(words(once)) == once


@given(_TEXTS)
def test_any_text_has_a_form(text: str) -> None:
    made = command_form(text, "/w", "/w")
    assert isinstance(made.text, str) and isinstance(made.main.program, str)


@given(some.lists(some.text("abc ", min_size=1, max_size=6), min_size=1, max_size=4))
def test_quotes_of_either_kind_are_alike(arguments: list[str]) -> None:
    double = " ".join(f'"{each}"' for each in arguments)
    single = " ".join(f"'{each}'" for each in arguments)
    assert form(f"tool {double}") == form(f"tool {single}")


def test_a_long_text_takes_time_in_proportion() -> None:
    assert form("tool " + "x " * 100_000)[0].startswith("tool x x")
    assert form("'" * 50_001)[0]
