"""What was followed before is not followed again, and says the same as if it were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.safety.shell.memory import Depths, Memory, Work
from agent.safety.shell.output import Output
from agent.safety.shell.recording import Recording, record

_HOME, _CWD = "/home/ada", "/home/ada/project"

_COMMANDS = st.sampled_from(
    (
        "f $1",
        "g a",
        'h "$1" b',
        "f",
        "v=$1",
        "v=$v$1",
        "cd $1",
        "cd src",
        "rm -r $v",
        'echo "$v" > out',
        "sh out",
        'eval "$v"',
        "x='cd /; rm -r $v'",
        'eval "$x"',
        "set -- b c",
        "shift",
        "x=$(echo $v $1)",
        "echo a | g $1",
        "diff <(g a) <(g b)",
        "for i in a b; do v=$i; f $i; done",
        "if t; then v=c; else g $v; fi",
        "f() { echo $1 $v; }",
        "g() { v=z; h $1; }",
        "sh -c 'f $0; rm $0' $v",
        "docker run -v /:/host a sh -c 'rm /host/$v'",
    )
)
_FUNCTIONS = st.dictionaries(st.sampled_from("fgh"), st.lists(_COMMANDS, min_size=1, max_size=3), min_size=1)


def _forgotten(text: str) -> Recording:
    """What a text says when everything in it is followed each time."""

    def follow(self: Memory, what: object, depths: Depths, work: Work) -> Output:
        return work()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memory, "follow", follow)
        return record.__wrapped__(text, _CWD, _HOME)


def _same(one: Recording, other: Recording) -> bool:
    return (one.events, one.tangled, one.fault) == (other.events, other.tangled, other.fault)


def test_names_that_are_given_once_are_not_remembered() -> None:
    text = "f() { diff <(g a) <(g b); }\ng() { f $1; }\n" + "f $1\n" * 3
    assert _same(record.__wrapped__(text, _CWD, _HOME), _forgotten(text))


def _script(functions: Mapping[str, Sequence[str]], commands: Sequence[str]) -> str:
    defined = [f"{name}() {{ {'; '.join(body)}; }}" for name, body in functions.items()]
    return "\n".join([*defined, *commands])


@given(_FUNCTIONS, st.lists(_COMMANDS, min_size=3, max_size=9))
def test_scripts_say_the_same_whether_anything_is_remembered(
    functions: dict[str, list[str]], commands: list[str]
) -> None:
    text = _script(functions, commands)
    assert _same(record.__wrapped__(text, _CWD, _HOME), _forgotten(text))


@pytest.mark.parametrize(
    ("change", "call"),
    [
        ("v=/", "f"),
        ("cd /", "f"),
        ("set -- /", 'f "$@"'),
        ("g() { rm -r /; }", "f"),
        ("echo 'rm -r /' > s", "f"),
    ],
)
def test_a_function_is_followed_again_when_what_it_uses_has_changed(change: str, call: str) -> None:
    body = "rm -r ./$1 $v; g; sh s"
    text = f"v=a\ng() {{ :; }}\necho ls > s\nf() {{ {body}\n}}\nf\nf\nf\n{change}\n{call}\n"
    assert _same(record.__wrapped__(text, _CWD, _HOME), _forgotten(text))
    assert record(text, _CWD, _HOME).events != record(text.replace(change, ":"), _CWD, _HOME).events


@pytest.mark.parametrize("call", ["f{}", 'eval "$f{}"', 'sh -c "$f{}"'])
def test_calls_that_double_with_each_level_are_not_followed_each_time(call: str) -> None:
    levels = 9
    lines = ["f0='echo'; f0() { echo; }"]
    for level in range(levels):
        body = f"{call.format(level)}; {call.format(level)}"
        lines.append(f"f{level + 1}='{body}'; export f{level + 1}; f{level + 1}() {{ {body}; }}")
    followed = 0
    watched = Memory._watched

    def counted(self: Memory, depths: Depths, work: Work) -> object:
        nonlocal followed
        followed += 1
        return watched(self, depths, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memory, "_watched", counted)
        record.__wrapped__("\n".join([*lines, call.format(levels)]), _CWD, _HOME)
    assert 0 < followed <= levels * levels
