"""The table of programs: its files, their examples, and a person's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.safety.effects import effects_of
from agent.safety.programs.table import EFFECTS, examples, families, program_mistakes, programs
from agent.safety.reader.script import read
from agent.safety.reader.tree import UNKNOWN
from tests.agent.safety.corpus_files import HOME, PLACES, WORKSPACE

OWN = """\
programs:
  deploytool:
    looks: status
    publishes: push, release now
    quiet: "--dry-run"
    options: {lost: "--purge"}
  reformat, tidy: {always: edits, operands: write, outputs: "-o"}
"""


def strictest(command: str, own: Path | None = None) -> str:
    """The strictest effect of all that a command starts."""
    found = [effects_of(each, programs(own)).effect for each in read(command, str(WORKSPACE), HOME).commands]
    return max(found, key=EFFECTS.index)


@pytest.mark.parametrize("path", families(), ids=lambda path: path.stem)
def test_the_examples_of_a_family_hold(path: Path) -> None:
    given = list(examples(path))
    assert given
    found = {command: strictest(command) for _, command in given}
    assert found == {command: effect for effect, command in given}


def test_no_program_is_known_twice_and_none_is_named_with_a_folder() -> None:
    table = programs()
    assert len(table) > 800
    assert not [name for name in table if "/" in name or not name.strip()]


def test_a_program_of_the_project_is_code_whatever_its_name() -> None:
    assert strictest("./git status") == strictest("build/ls") == "code"
    assert strictest("node_modules/.bin/rm x") == "code"
    assert strictest("/usr/bin/git status") == "looks"


def test_a_persons_own_programs_count_and_go_before_ours(tmp_path: Path) -> None:
    assert strictest("deploytool push", tmp_path) == "code"
    (tmp_path / "mine.yaml").write_text(OWN)
    assert strictest("deploytool status", tmp_path) == "looks"
    assert (
        strictest("deploytool push", tmp_path) == strictest("deploytool release now", tmp_path) == "publishes"
    )
    assert strictest("deploytool push --dry-run", tmp_path) == "looks"
    assert strictest("deploytool status --purge", tmp_path) == "lost"
    (command,) = read("tidy a -o ../b", str(WORKSPACE), HOME).commands
    assert effects_of(command, programs(tmp_path)).writes == ("../b", "a")
    assert program_mistakes(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "needs a table named `programs`"),
        ("programs: {a: flies}", "there is no effect 'flies'"),
        ("programs: {a: {looks: b, flies: c}}", "unknown field `flies`"),
        ("programs: {a: {always: edits, operands: eaten}}", "not eaten"),
        ("programs: {a: {wraps: 3}}", "`wraps` must be a table"),
        ("programs: {a: {always: looks, plain: '('}}", "not a regular expression"),
        ("programs: [", "cannot be read"),
    ],
)
def test_a_file_with_a_mistake_counts_for_nothing_and_is_told_of_in_a_sentence(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    (told,) = program_mistakes(tmp_path)
    assert told.startswith("bad.yaml") and said in told and "\n" not in told
    assert programs(tmp_path) == programs()


def test_the_files_of_a_person_are_guarded() -> None:
    from agent.safety.guarded import guarded_place

    assert guarded_place(f"{HOME}/.hermes/programs/mine.yaml", WORKSPACE, Path(PLACES.home))


RUNS_OR_WRITES = {
    "code": """
jobs -x touch ../x; compgen -C 'touch ../x' x; compgen -W '$(touch ../x)' x; history -a ../x; history -w
history -s 'touch x'; dc -e '!touch x'; dc <<< '!touch x'; ldd ./a; mlr -n put 'end{system("x")}'
qsv luau map x y; cowsay -f ./evil.cow x; xmllint --shell a; cppcheck --addon=evil.py a; sqlfluff lint a
markdownlint-cli2 a.md; cloc --extract-with=./x a; ack --pager=./x y; go list -export ./...; uv tree
go list -toolexec ./evil ./...; hg log --config extensions.x=./evil.py; svn diff --diff-cmd ./evil
tar -tf x -I ./evil; tar -tf x --checkpoint-action=exec=./evil; git help --web x; terraform validate
zless +!x a; less --lesskey-src=x a; gawk 'BEGIN{f="s" "ystem"; @f("x")}'; sdiff --diff-program=./x a b
info --restore=x; pandoc -d x.yaml a.md; delta --pager ./x a; actionlint -shellcheck ./evil a.yml""",
    "edits": """
gofmt -l -w .; clang-format --dry-run -i a.c; file -C -m magic; yq -s .name a.yaml; tree -R -L 1
cloc --strip-code=x a
git fsck --lost-found; xsv split out a.csv; gcov a; aspell -c a; gawk -o x; cppcheck --dump a.c""",
    "network": "git remote show origin; tldr --update; vale sync",
    "machine": "stty -F /dev/ttyUSB0 9600; journalctl --flush",
}


@pytest.mark.sample(49)
@pytest.mark.parametrize(
    ("command", "effect"),
    [
        (each.strip(), effect)
        for effect, text in RUNS_OR_WRITES.items()
        for each in re.split(r"; (?![^']*'\)|@)|\n", text)
        if each.strip()
    ],
)
def test_what_takes_a_command_or_writes_a_file_does_not_only_look(command: str, effect: str) -> None:
    found = strictest(command)
    assert EFFECTS.index(found) >= EFFECTS.index(effect), found


@pytest.mark.parametrize(
    "command",
    [
        "time -o ../x ls",
        "sdiff -o ../x a b",
        "scc -o ../x .",
        "ncdu -o ../x .",
        "mktemp ../x.XXXX",
        "mktemp -p .. x",
        "pip list --log ../x",
        "cloc --report-file=../x .",
        "xsv sort -o ../x a.csv",
        "info --dribble=../x",
    ],
)
def test_a_file_that_an_option_of_a_looking_program_names_is_written(command: str) -> None:
    assert any(effects_of(each, programs()).writes for each in read(command, str(WORKSPACE), HOME).commands)


@pytest.mark.parametrize(
    ("command", "reached"),
    [
        ("xargs sh -c <<< \"'touch ../x'\"", "touch"),
        ("xargs -a list rm <<< harmless", UNKNOWN),
        ("xargs rm <<< '../x'", "../x"),
        ("seq 70 | xargs -n1 rm", UNKNOWN),
    ],
)
def test_what_xargs_is_given_is_read_as_it_reads_it(command: str, reached: str) -> None:
    reading = read(command, str(WORKSPACE), HOME)
    assert any(reached in (each.name, *each.arguments) for each in reading.commands)
