"""Following a shell text costs work in proportion to its length, counted in what it brings to light."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from agent.safety.shell.marks import MOST_BRACES, UNKNOWN
from agent.safety.shell.recording import Assigned, Opened, Recording, Remark, Start, record
from agent.safety.shell.state import MOST_BRANCHES, MOST_FOLDERS, State

_HOME, _CWD = "/home/ada", "/home/ada/project"

MULTIPLIED = {
    "doubled values": "a=xxxxxxxxxxxxxxxx\n" + "a=$a$a\n" * 400 + "echo $a\n",
    "doubled arrays": "a=(x y z)\n" + 'a=("${a[@]}" "${a[@]}")\n' * 400 + 'echo "${a[@]}"\n',
    "doubled braces": "echo " + "{a,b}" * 400,
    "braces in a loop": "for f in "
    + "{a,b}" * 12
    + "; do for g in "
    + "{a,b}" * 12
    + "; do rm $f$g; done; done",
    "appended values": "a=x\n" + "a+=$a\n" * 400 + "touch $a\n",
    "doubled output": "x=ab\n" + 'x="$(echo $x $x)"\n' * 400 + "echo $x > out\n",
    "doubled files": "echo ab > f\n" + "cat f f > g; cat g g > f\n" * 200 + "sh f\n",
    "replaced text": "a=aaaaaaaaaaaaaaaa\n" + "a=${a//a/aaaa}\n" * 400 + "echo $a\n",
    "functions in a chain": "f0() { echo x; }\n"
    + "".join(f"f{n + 1}() {{ f{n}; f{n}; }}\n" for n in range(200)),
    "branches": "a=x\n" + "if t; then a=$a$a; else a=${a}y; fi\n" * 400 + "echo $a\n",
    "folders": "cd a || cd b\n" * 400 + "rm x\n",
}


def _texts(recording: Recording) -> int:
    """Characters of everything a recording holds."""
    total = 0
    for event in recording.events:
        match event:
            case Start():
                total += len(event.word) + _length(event.arguments) + _length(event.stdin or ())
            case Opened():
                total += len(event.path)
            case Assigned():
                total += sum(len(each) if isinstance(each, str) else _length(each) for each in event.values)
            case Remark():
                total += len(event.text)
    return total


def _length(texts: Sequence[str]) -> int:
    return sum(map(len, texts))


@pytest.mark.parametrize("text", MULTIPLIED.values(), ids=MULTIPLIED)
def test_text_that_expansions_multiply_stays_within_the_budget(text: str) -> None:
    recording = record(text, _CWD, _HOME)
    assert not recording.fault
    # A step stands for at most 64 characters of a value.
    assert _texts(recording) <= 64 * (150_000 + 6 * len(text))
    assert len(recording.events) <= 150_000 + 6 * len(text)


@pytest.mark.parametrize(
    "text",
    [
        "touch out/{a,b,c}.{x,y}\n" * (MOST_BRANCHES // 6 + 1),
        "sort < in > out/{a,b}\n" * (MOST_BRANCHES // 2 + 1),
        "ls x" + "{a,b}" * (MOST_BRACES + 1),
        "ls " + "{a," * (MOST_BRACES + 1) + "b" + "}" * (MOST_BRACES + 1),
    ],
    ids=["fields", "targets", "in one word", "in each other"],
)
def test_braces_that_make_too_much_are_not_followed(text: str) -> None:
    assert record(text, _CWD, _HOME).tangled


def test_folders_that_are_too_many_leave_one_that_is_not_known() -> None:
    state = State(_HOME, _CWD, budget=100_000)
    for number in range(MOST_FOLDERS + 5):
        with state.scope(merge=True):
            state.change_folder([f"/srv/{number}"])
    assert UNKNOWN in state.cwds
    assert len(state.cwds) <= MOST_FOLDERS + 1


def test_random_shell_text_never_stops_the_reading_with_a_fault() -> None:
    chance = random.Random(11)
    pieces = (
        *"'\"`$(){}[];&|<>\\\n *?~=#!",
        *("$(", "${", "$((", "<<E\n", "E\n", "<(", "a=", "a+=", "$a", "${a[@]}", "~/", "cd x\n", "f() {"),
        *("for f in ", "; do ", "done\n", "if ", "then ", "fi\n", "case x in ", "esac\n", "while ", "eval "),
        *("rm -rf ", "sh -c ", "xargs ", "echo ", "cat ", "{a,b}", "{1..9}", "word", "/tmp/x", "é", "\ue000"),
    )
    for length in (*range(1, 150), 2_000):
        text = "".join(chance.choices(pieces, k=length))
        assert not record(text, _CWD, _HOME).fault, text
