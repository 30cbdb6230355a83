"""Fixes of a failure, derived from the calls of one turn: another call, or a step done first.

No model is asked. If files were edited before a failure disappeared, no fix is returned: the project changed,
and nothing was learned about calling a program. Pure.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from agent.knowledge.learnings.calls import CallForm, SingleCommand, names
from agent.knowledge.learnings.failures import TIMED_OUT_KIND, Failure, is_unknown_command

FixKind = Literal["instead", "first", "words"]
"""`instead`: another call; `first`: something before the same call; `words`: a sentence."""

MOST_STEPS = 3
"""Calls that may have to be made first."""
REACH = 12
"""Calls after a failure that are searched for a fix."""
ALIKE = 0.6
"""The similarity from which two words, or two calls of a tool, count as the same."""
MOST_ALIKE = 0.8
"""The similarity for whole commands, which have much in common anyway."""
LONGEST_COMPARED = 2_000
"""Characters of two texts that are compared; longer ones count as different."""
_FAMILIES = tuple(
    map(
        names,
        (
            "sh bash dash zsh ksh",
            "npm pnpm yarn bun npx",
            "pip uv pipx conda mamba poetry",
            "docker podman nerdctl",
            "gcc clang cc g++ clang++",
            "make gmake just task ninja",
            "apt apt-get dnf yum apk",
            "curl wget http",
            "grep egrep fgrep rg ag ack",
            "sed gsed",
            "awk gawk mawk",
            "tar gtar unzip 7z bsdtar",
            "node deno bun",
            "vim nvim vi",
        ),
    )
)
"""Interchangeable programs."""
_EDITORS = frozenset({"write_file", "patch"})
_WITHOUT_CANDIDATES = frozenset({"write_file", "patch", "execute_code", "process"})
"""Tools whose failures depend on the content of a call, not on its form."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """One finished call of a turn."""

    form: CallForm
    failure: Failure | None
    node: int | None = None
    """The message that asked for it."""


@dataclass(frozen=True, slots=True)
class Fix:
    """The calls that fixed a failure."""

    kind: FixKind
    text: str
    """For people and models: commands, or a sentence."""
    key: str = ""
    """The key, equal for equivalent calls; empty for sentences."""
    steps: tuple[str, ...] = ()
    """The keys of calls to be made first."""


OnlyLooks = Callable[[CallForm], bool]
"""A test whether a call changes nothing."""


def what_worked(calls: Sequence[MadeCall], at: int, only_looks: OnlyLooks) -> Fix | None:
    """Return the fix of the failure `calls[at]` if the last call fixed it; otherwise None."""
    failed, last = calls[at], calls[-1]
    between = calls[at + 1 : -1]
    if failed.failure is None or last.failure is not None or len(between) >= REACH:
        return None
    if failed.form.tool != last.form.tool or failed.form.tool in _WITHOUT_CANDIDATES:
        return None
    done = [each for each in between if each.failure is None]
    if any(each.form.tool in _EDITORS for each in done) and not is_unknown_command(failed.failure):
        return None
    steps = [each for each in done if each.form.command is not None and not only_looks(each.form)]
    if failed.form.key == last.form.key:
        if failed.form.timed_key != last.form.timed_key and failed.failure.kind == TIMED_OUT_KIND:
            return Fix("instead", "give it a longer timeout", last.form.timed_key)
        return first(steps)
    if not same_aim(failed, last.form):
        return None
    return Fix("instead", _instead(failed.form, last.form), fix_key([last.form]))


def first(steps: Sequence[MadeCall]) -> Fix | None:
    """Return the fix that makes these calls before the failed one; None if there are none or too many."""
    if not 0 < len(steps) <= MOST_STEPS:
        return None
    text = " and then ".join(f"`{each.form.shown}`" for each in steps)
    forms = [each.form for each in steps]
    return Fix("first", f"first {text}", fix_key(forms), tuple(form.key for form in forms))


def fix_key(forms: Sequence[CallForm]) -> str:
    """Return the key of a sequence of calls; for a single call, the key of the call."""
    if len(forms) == 1:
        return forms[0].key
    return hashlib.sha256("\0".join(form.key for form in forms).encode()).hexdigest()[:32]


def same_aim(failed: MadeCall, other: CallForm) -> bool:
    """Return whether a call of the same tool tries to do the same as the failed one."""
    one, two = failed.form.command, other.command
    assert failed.failure is not None
    if one is None or two is None:
        return _alike(failed.form.text, other.text, ALIKE)
    main = one.main
    blamed = failed.failure.line
    if any(_related(main, each, failed.failure, blamed) for each in two.commands if each.program):
        return failed.form.text != other.text
    return main.kin == two.main.kin and _alike(one.text, two.text, MOST_ALIKE)


def _related(failed: SingleCommand, other: SingleCommand, failure: Failure, blamed: str) -> bool:
    if failed.kin == other.kin:
        same = failed.subcommand == other.subcommand or _alike(failed.subcommand, other.subcommand, ALIKE)
        return (same or failed.subcommand in blamed) and _fits(failed, other, blamed)
    if any({failed.kin, other.kin} <= family for family in _FAMILIES):
        return _fits(failed, other, blamed)
    words = {posixpath.basename(word) for word in (*other.arguments, other.subcommand.removeprefix("-m "))}
    if failed.kin in words or failed.program in words:
        return _fits(failed, other, blamed)
    if not is_unknown_command(failure):
        return False
    rest = set(failed.arguments)
    return (bool(rest) and rest <= set(other.arguments)) or _alike(failed.program, other.program, ALIKE)


def _fits(failed: SingleCommand, other: SingleCommand, blamed: str) -> bool:
    """Return whether `other` may replace the failed command.

    Each operand that it lacks must be the cause of the failure or be replaced by a similar one.
    """
    now = list(other.operands)
    missing: list[str] = []
    for operand in failed.operands:
        if operand in now:
            now.remove(operand)
        else:
            missing.append(operand)
    return all(
        _is_blamed(operand, blamed) or any(_stands_for(each, operand) for each in now) for operand in missing
    )


def _stands_for(one: str, other: str) -> bool:
    return (one.isdigit() and other.isdigit()) or _alike(other, one, ALIKE)


def _is_blamed(operand: str, line: str) -> bool:
    return operand in line or (len(name := posixpath.basename(operand)) > 2 and name in line)


def _alike(one: str, other: str, least: float) -> bool:
    if len(one) > LONGEST_COMPARED or len(other) > LONGEST_COMPARED:
        return False
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least and matcher.ratio() >= least


def _instead(failed: CallForm, worked: CallForm) -> str:
    one, two = failed.command, worked.command
    text = f"`{worked.shown}`"
    if one is None or two is None:
        return text
    if worked.options:
        return f"{text} with {worked.options}"
    if one.place != two.place and not worked.shown.lstrip().startswith("cd "):
        return f"{text} in the folder {two.place or 'of the workspace'}"
    return text
