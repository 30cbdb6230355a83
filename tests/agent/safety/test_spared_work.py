"""What is not looked at twice is judged as if it were."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety import rules
from agent.safety.guarded import guarded_place
from agent.safety.hardline import Hardline
from agent.safety.look import one_look
from agent.safety.permissions.certainty import Certainty
from agent.safety.permissions.command_patterns import CommandPattern, meant_by
from agent.safety.permissions.reading import read
from agent.safety.places import Places
from agent.safety.shell.marks import words
from agent.safety.shell.recording import record

HOME = "/home/ada"
WORKSPACE = f"{HOME}/project"


@pytest.mark.parametrize(
    "script",
    [
        "for i in a b; do rm -rf $x; x=/; done",
        "for i in a b; do rm -rf $x; if test a; then x=/; fi; done",
        "for i in a b; do rm -rf $x; y=/; x=$y; done",
        "x=a; for i in a b; do rm -rf /$x; x=${x#a}; done",
        "for i in a b; do f; f() { rm -rf /; }; done",
        "for i in a b; do sh t.sh; echo 'rm -rf /' > t.sh; done",
        "for i in a b; do rm -rf etc; cd /; done",
        'for i in a b; do rm -rf "$1"; set -- /; done',
        "while true; do rm -rf $x; export x=/; done",
        "for i in a b; do (rm -rf $x); read x <<< /; done",
    ],
)
def test_a_loop_that_forbids_itself_only_the_second_time_is_forbidden(script: str) -> None:
    assert Hardline(Places(HOME)).check(script, Path(WORKSPACE))


def test_each_pass_of_a_loop_that_sees_something_new_is_shown() -> None:
    recording = record('for i in a b; do echo "$x"; x=1; done', WORKSPACE, HOME)
    shown = [event.arguments for event in recording.events if hasattr(event, "arguments")]
    assert ("1",) in shown
    assert len(shown) == 2


_WORD = st.text("abcdefr./-:_1", min_size=1, max_size=6) | st.sampled_from(
    [
        "rm",
        "-rf",
        "/",
        "cd",
        "..",
        "sh",
        "-c",
        "if",
        "export",
        "time",
        "unset",
        "eval",
        "sudo",
        "test",
        "local",
    ]
)


@given(st.lists(_WORD, min_size=1, max_size=5))
def test_a_plain_command_is_read_as_its_tree_would_be(words: list[str]) -> None:
    text = " ".join(words)
    plain, by_tree = record(text, WORKSPACE, HOME), record(f"{text} ", WORKSPACE, HOME)
    assert (plain.events, plain.tangled, plain.fault) == (by_tree.events, by_tree.tangled, by_tree.fault)


_NAME = st.sampled_from(
    [
        "a.py",
        "B",
        "x.pth",
        "x.code-workspace",
        "Jenkinsfile.a",
        ".git",
        "hooks",
        "HEAD",
        ".hermes",
        "scratch",
        ".bashrc",
        ".ssh",
        "bin",
        "fish",
        "etc",
        "home",
        "ada",
        "project",
        "site-packages",
        ".x",
        "a.",
        "git~1",
        ".CONFIG",
        "Authorized_Keys",
        "a:b",
        ".github",
        "workflows",
        "Library",
        "launchagents",
        "a\ue001",
        "\ue000",
    ]
)
_PATH = st.builds(
    lambda start, names: "/".join((start, *names)),
    st.sampled_from(["", HOME, WORKSPACE, f"{HOME}/.hermes", f"{HOME}/.config", "/usr"]),
    st.lists(_NAME, min_size=1, max_size=3),
)


@given(st.lists(_PATH, min_size=1, max_size=12), st.booleans())
def test_a_place_is_guarded_whatever_was_asked_before_it(paths: list[str], whole: bool) -> None:
    alone = [guarded_place(path, Path(WORKSPACE), Path(HOME), whole=whole) for path in paths]
    with one_look():
        together = [guarded_place(path, Path(WORKSPACE), Path(HOME), whole=whole) for path in paths]
    assert together == alone


_COMMANDS = st.lists(
    st.sampled_from(
        [
            "git push",
            "git -C x push -f",
            "git status",
            "git -c alias.p=push p",
            "git-push a",
            "git $x",
            "$x push",
            "rm -rf a",
            "rm -f a",
            "rm -- -r",
            "rm a -vr",
            "./deploy.sh a",
            "sh/../deploy.sh",
            "cd $x; deploy.sh",
            "deploy.sh/.",
            "/bin/git push",
            "npm run a",
            "cd ..; project/deploy.sh",
            "*/deploy.sh",
            "rm $@",
        ]
    ),
    min_size=1,
    max_size=6,
)
_PATTERNS = (
    "git push *",
    "git push --force",
    "git push -f",
    "rm -r *",
    "./deploy.sh",
    "./deploy.sh a",
    "/bin/git *",
)


@given(_COMMANDS, st.sampled_from(_PATTERNS))
def test_no_command_that_a_pattern_may_mean_is_left_out(commands: list[str], pattern: str) -> None:
    reading = read("\n".join(commands), WORKSPACE, HOME)
    compiled = CommandPattern(pattern, Path(WORKSPACE))
    meant = [each for each in reading.commands if compiled.loosely(each) is not Certainty.NO]
    assert set(meant) <= set(meant_by(compiled, reading))


_PLACES = Places(HOME, guarded=(f"{HOME}/hermes/config.yaml",), secret=(f"{HOME}/hermes/state.db",))
_NAMES = words(
    "home ada hermes config.yaml config.yaml-x state.db state.db-wal etc passwd Users usr lib dev sda null "
    "private proc kcore x .x var"
)
_PATH = st.lists(st.sampled_from(sorted(_NAMES)), min_size=1, max_size=5).map(
    lambda names: "/" + "/".join(names)
)


@given(_PATH)
def test_what_is_vital_is_told_the_same_however_its_path_is_written(path: str) -> None:
    assert _PLACES.wreck(path) == _PLACES.wreck(f"/x/..{path}")
    assert _PLACES.disaster(path) == _PLACES.disaster(f"{path}/.")


@given(
    st.sampled_from(["cat", "rm", "dd", "curl", "mkfs.ext4", "tool", "cp", "echo"]),
    st.lists(_PATH | st.sampled_from(["-o", "--output=/dev/sda", "of=/dev/sda", "", "-rf"]), max_size=4),
)
def test_only_what_a_rule_speaks_about_can_be_forbidden(name: str, arguments: list[str]) -> None:
    if not rules.is_ruled(name, arguments) and not _PLACES.may_hide("/".join(arguments)):
        assert rules.forbidden(rules.Line(name, arguments, WORKSPACE, _PLACES)) is None
