from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.permissions.patterns import Certainty, CommandPattern
from agent.safety.reader.script import read

WORKSPACE = Path("/home/ada/project")


def loosely(pattern: str, command: str) -> Certainty:
    compiled = CommandPattern(pattern, WORKSPACE)
    reading = read(command, str(WORKSPACE), "/home/ada")
    return max((compiled.loosely(each) for each in reading.commands), default=Certainty.NO)


def exactly(pattern: str, command: str) -> bool:
    compiled = CommandPattern(pattern, WORKSPACE)
    return any(compiled.exactly(each) for each in read(command, str(WORKSPACE), "/home/ada").commands)


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main",
        "cd x && git  push",
        "sh -c 'git push'",
        "GIT_DIR=. git push",
        "git -C ../other push",
        "git --no-pager -c color.ui=never push",
        "/usr/bin/git push",
        "./git push",
        "sudo -u ada env A=1 git push",
        "timeout 5 git push",
        "echo main | xargs git push origin",
        "find . -name x -exec git push \\;",
        "$(echo git) push",
        "g=git; p=push; $g $p",
        "eval \"g''it pu\\sh\"",
        "bash <<< 'git push'",
        "bash <<'E'\ngit push\nE",
        "true || git push",
        "if true; then git push; fi",
        "f() { git push; }; f",
        "git-push",
        "git -c alias.p=push p",
        "python3 -c 'import os; os.system(\"git push\")'",
        "ssh host git push",
        "(git push) &",
        "echo $(git push)",
    ],
)
def test_a_pattern_finds_its_command_however_it_is_written(command: str) -> None:
    assert loosely("git push *", command) is Certainty.YES


@pytest.mark.parametrize(
    "command",
    [
        "echo git push",
        "git pull",
        "git commit -m push",
        "grep -r 'git push' .",
        "git stash",
        "push",
        "# git push",
    ],
)
def test_a_pattern_does_not_find_what_only_mentions_it(command: str) -> None:
    assert loosely("git push *", command) is Certainty.NO


@pytest.mark.parametrize("command", ["git $ACTION", "git pus?", "git $(cat next) origin"])
def test_what_is_not_known_may_match(command: str) -> None:
    assert loosely("git push *", command) is Certainty.MAYBE


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("rm -rf *", "rm -fr build", True),
        ("rm -rf *", "rm build -r -f", True),
        ("rm -rf *", "rm -r build", False),
        ("rm -rf *", "rm -f build", False),
        ("rm -rf *", "rm -Rf build", True),
        ("rm -rf *", "rm -rfv build", True),
        ("rm -rf *", "rm --recursive --force build", True),
        ("rm -rf *", "rm --recur build --forc", True),
        ("rm -rf *", "find . | xargs rm -f -R", True),
        ("rm --recursive *", "rm -R build", True),
        ("git push --force *", "git push -f origin", True),
        ("git push -f *", "git push origin --force", True),
        ("git push --force *", "git push origin", False),
        ("git commit --no-verify *", "git commit -nm x", True),
        ("npm install -g *", "npm install --global x", True),
        ("sed -i *", "sed --in-place s/a/b/ f", True),
        ("kill -9 *", "kill -KILL 4", True),
        ("chmod -R *", "chmod --recursive 777 x", True),
        ("git push --force", "git push origin main --force", True),
        ("git push --force", "git push origin", False),
        ("git * origin", "git push -u origin main", True),
        ("npm publish", "npm --registry x publish", True),
        ("./deploy.sh", "/home/ada/project/deploy.sh now", True),
        ("./deploy.sh", "cd sub && ./deploy.sh", False),
        ("pip* install *", "pip3 install x", True),
        ("*", "anything", True),
    ],
)
def test_options_may_stand_in_any_order_and_words_may_follow(
    pattern: str, command: str, expected: bool
) -> None:
    assert (loosely(pattern, command) is Certainty.YES) is expected


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status *", "git status -s a b", True),
        ("git status *", "git -C /x status", False),
        ("git status", "./git status", False),
        ("git status", "/tmp/git status", False),
        ("git status", "/usr/bin/git status", True),
        ("cat src/*", "cat src/a.py", True),
        ("cat src/*", "cat src/../../.ssh/id_rsa", False),
        ("cat *.md", "cat -n.md", False),
        ("cat x", "cat $F", False),
        ("make *", "make $TARGET", True),
        ("./run.sh *", "./run.sh a", True),
        ("./run.sh *", "cd sub; ./run.sh a", False),
        ("cp * dest", "cp a b dest", True),
        ("cp * dest", "cp a b", False),
    ],
)
def test_a_rule_that_allows_is_read_to_the_letter(pattern: str, command: str, expected: bool) -> None:
    assert exactly(pattern, command) is expected


@pytest.mark.parametrize("text", ["", "a | b", "a; b", "a && b", "a > b", "echo 'x", "$(x)", "`x`"])
def test_what_is_no_pattern_for_one_command_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        CommandPattern(text, WORKSPACE)


def test_long_commands_are_compared_in_time() -> None:
    command = "git " + " ".join(f"-x{n} word{n}" for n in range(5_000))
    assert loosely("git * a * b * c", command) is Certainty.NO
