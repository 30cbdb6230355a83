"""Failures of calls: the line that states the cause, the kind of failure, and a stable form of the line.

Fixes of a failure, derived from the calls of one turn: another call, or a step done first. No model is asked.
If files were edited before a failure disappeared, no fix is returned: the project changed, and nothing was
learned about calling a program. Pure.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from agent.knowledge.learnings.calls import CallForm, CommandForm, SingleCommand, names
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from tools.text.words import one_line, shorten

LONGEST_LINE = 300
"""The maximum number of characters stored of an error line."""
_HEAD, _TAIL = 4_000, 12_000
"""The numbers of characters read at the start and the end of an output."""

_EXCEPTION = lazy_pattern(r"(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning))(?::\s|$)")
_CODED = lazy_pattern(r"\berror(?:\[(\w+)\]| ([A-Z]{1,4}\d{2,5}))|\bERR! code (\w+)")
_PHRASES = (
    "command not found",
    "no such file or directory",
    "permission denied",
    "address already in use",
    "connection refused",
    "not a git repository",
    "externally-managed-environment",
    "could not resolve host",
    "syntax error",
    "unrecognized arguments",
    "unrecognized option",
    "unknown option",
    "invalid option",
    "illegal option",
    "no such option",
    "unexpected argument",
    "no rule to make target",
    "no module named",
    "cannot find module",
    "timed out",
    "unbound variable",
    "not set",
    "no space left on device",
    "is a directory",
    "not a directory",
    "file exists",
)
"""Names of errors, in lower case; one found in a line is the kind of the error."""
_TELLING = lazy_pattern(
    r"\b(?:error|fatal|failed|failure|cannot|can't|could not|couldn't|unable to|denied|refused|missing|"
    r"invalid|illegal|unknown|unrecogni[sz]ed|unexpected|not found|not set|no such|not a|in use|required|"
    r"must be|syntax|panic|abort(?:ed)?|exception)\b|ERR!",
    re.IGNORECASE,
)
_USAGE = lazy_pattern(r"\s*(?:usage:|try ['\"`]|for more information|see ['\"`])", re.IGNORECASE)

_SHELL = lazy_pattern(r"^(?:\S*/)?(?:ba|z|da|k|a)?sh: (?:line \d+: |\d+: |-c: (?:line \d+: )?)?")
_TIME = lazy_pattern(
    r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?|\d{4}/\d\d/\d\d"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) +\d{1,2}\b"
)
_ADDRESS = lazy_pattern(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>)\]]+", re.IGNORECASE)
_HEX = lazy_pattern(
    r"\b(?:0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?=[0-9a-f]*\d)[0-9a-f]{7,64})\b",
    re.IGNORECASE,
)
_PATH = lazy_pattern(r"(?<![\w<])(?:[A-Za-z]:\\|~?/|\.{1,2}/|[\w.@+-]+/)[\w.@+~/\\:-]*")
_NUMBER = lazy_pattern(r"(?<![A-Za-z_\d])\d+(?:[.,]\d+)*")
_QUOTES = str.maketrans(dict.fromkeys('"`´‘’“”«»', "'"))
_MARKS = lazy_pattern(r"(<(?:path|time|url|n)>)(?:[:.,-]?<(?:path|time|url|n)>)+")
_PASSES = 6
"""The maximum number of passes over a text: what one pass removes may create matches for the next."""

_REPORTS: Mapping[str, frozenset[int]] = {
    **dict.fromkeys(
        ("pytest", "unittest", "jest", "vitest", "mocha", "rspec", "phpunit", "ctest"), frozenset({1})
    ),
    **dict.fromkeys(
        ("ruff", "flake8", "pylint", "mypy", "pyright", "black", "isort", "eslint"), frozenset({1})
    ),
    **dict.fromkeys(
        ("prettier", "stylelint", "shellcheck", "biome", "clippy", "lint-imports"), frozenset({1})
    ),
    **dict.fromkeys(("diff", "cmp", "grep", "egrep", "fgrep", "rg", "ag", "test", "[", "[["), frozenset({1})),
    **dict.fromkeys(("pgrep", "pkill", "which", "type", "false", "colordiff"), frozenset({1})),
    "tsc": frozenset({1, 2}),
}
"""Exit codes by which a program reports findings, which is not a failure of the call."""
_REPORTING_SUBCOMMANDS: Mapping[tuple[str, str], frozenset[int]] = {
    ("cargo", "test"): frozenset({101}),
    ("cargo", "clippy"): frozenset({101}),
    ("go", "test"): frozenset({1}),
    ("go", "vet"): frozenset({1}),
    ("npm", "test"): frozenset({1}),
    ("git", "diff"): frozenset({1}),
    ("git", "grep"): frozenset({1}),
    ("git", "merge-base"): frozenset({1}),
}
_NOT_OURS = frozenset({130, 137, 143})
"""Exit codes of commands that were ended by a signal."""
_AWAY = frozenset({"blocked", "declined", "interrupted", "held_back", "denied"})
"""Result states of calls that did not fail but were not allowed to run."""
TIMED_OUT = 124
TIMED_OUT_KIND = "timed out"


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a call: its kind, and the line that states the error."""

    kind: str
    """A short name: `ModuleNotFoundError`, `command not found`, `exit 2`."""
    line: str
    """The error line on one line, cut to `LONGEST_LINE` characters."""
    error: str
    """The error line, normalised."""
    code: int | None = None
    """The exit code of a command."""


def failure_of(result: Mapping[str, Any], form: CommandForm | None) -> Failure | None:
    """Return the failure in a call's result; None if the call succeeded or did not run.

    Commands that a signal ended, and exit codes that report findings, are no failures. `form` is the command,
    for tools that run one.
    """
    if not is_run(result):
        return None
    if (error := result.get("error")) is not None:
        line = telling_line(str(error))
        return Failure(_kind(line, None), line, normalise(line))
    code = result.get("exit_code")
    if not isinstance(code, int) or isinstance(code, bool) or code == 0 or code in _NOT_OURS:
        return None
    if form is not None and any(_reports(command, code) for command in form.commands[-3:]):
        return None
    if code == TIMED_OUT:
        return Failure(TIMED_OUT_KIND, TIMED_OUT_KIND, TIMED_OUT_KIND, code)
    line = telling_line(str(result.get("output") or ""))
    return Failure(_kind(line, code), line or f"exit {code}", normalise(line) or f"exit {code}", code)


def is_run(result: Mapping[str, Any]) -> bool:
    """Return whether a call ran, as opposed to being refused, held back or interrupted."""
    return str(result.get("status") or "") not in _AWAY


def is_unknown_command(failure: Failure) -> bool:
    """Return whether a program was missing or could not start. Changes to files rarely fix that."""
    return failure.code in (126, 127) or failure.kind == "command not found"


def telling_line(output: str) -> str:
    """Return the line of an output that most likely states the error; empty for an empty output."""
    text = output if len(output) <= _HEAD + _TAIL else f"{output[:_HEAD]}\n{output[-_TAIL:]}"
    lines = [one_line(each) for each in text.splitlines()]
    lines = [each for each in lines if any(map(str.isalnum, each))]
    for each in reversed(lines):
        if _EXCEPTION.match(each):
            return shorten(each, LONGEST_LINE)
    telling = [each for each in lines if _TELLING.search(each) and not _USAGE.match(each)]
    named = [each for each in telling if any(phrase in each.lower() for phrase in _PHRASES)]
    chosen = named or telling or [each for each in reversed(lines) if not _USAGE.match(each)] or lines
    return shorten(chosen[0], LONGEST_LINE) if chosen else ""


def normalise(line: str) -> str:
    """Return an error line without the parts that differ from run to run. Idempotent.

    Paths, addresses, times, numbers and hexadecimal become placeholders; quotes and spaces are unified.
    """
    text = clean(line).translate(_QUOTES)
    for _ in range(_PASSES):
        before, text = text, _normalised(text)
        if text == before:
            break
    return text


def _normalised(text: str) -> str:
    text = _SHELL.sub("", " ".join(text.lower().split()))
    for pattern, mark in ((_TIME, "<time>"), (_ADDRESS, "<url>"), (_HEX, "<n>"), (_PATH, "<path>")):
        text = pattern.sub(mark, text)
    text = _MARKS.sub(r"\1", _NUMBER.sub("<n>", text))
    if len(text) <= LONGEST_LINE:
        return text
    # No word is cut in two: half of one may be something else.
    return text[:LONGEST_LINE].rpartition(" ")[0] or text[:LONGEST_LINE]


def _kind(line: str, code: int | None) -> str:
    if match := _EXCEPTION.match(line):
        return match[1]
    if match := _CODED.search(line):
        return next(each for each in match.groups() if each)
    lower = line.lower()
    if phrase := next((each for each in _PHRASES if each in lower), ""):
        return phrase
    return "error" if code is None else f"exit {code}"


def _reports(command: SingleCommand, code: int) -> bool:
    names = {command.kin, command.subcommand.removeprefix("-m ")}
    if any(code in _REPORTS.get(name, ()) for name in names):
        return True
    return code in _REPORTING_SUBCOMMANDS.get((command.kin, command.subcommand), ())


EVERYWHERE = ""
"""The project id of learnings that apply to all projects."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The identity of a failure, equal for failures with the same cause."""

    tool: str
    program: str
    """The program without its version; empty for tools that run none."""
    subcommand: str
    error: str
    """The normalised error."""
    project: str
    """The id of the project, as in the list of trusted projects; empty for general learnings."""

    @property
    def key(self) -> str:
        """A digest of all fields but the project, used to find rows."""
        parts = "\0".join((self.tool, self.program, self.subcommand, self.error))
        return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:32]


def signature(call: CallForm, failure: Failure, project: str) -> Signature:
    """Return the signature of a failed call."""
    main = call.command.main if call.command is not None else None
    if main is None:
        return Signature(call.tool, "", "", failure.error, project)
    return Signature(call.tool, main.kin, main.subcommand, failure.error, project)


FixKind = Literal["instead", "first", "words"]
"""`instead`: another call; `first`: something before the same call; `words`: a sentence."""

MOST_STEPS = 3
"""The maximum number of calls that a fix may require before the failed one."""
REACH = 12
"""The maximum number of calls after a failure that are searched for a fix."""
ALIKE = 0.6
"""The similarity from which two words, or two calls of a tool, count as the same."""
MOST_ALIKE = 0.8
"""The similarity required of whole commands, which have much in common anyway."""
LONGEST_COMPARED = 2_000
"""The maximum length in characters of texts that are compared; longer ones count as different."""
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
"""Groups of interchangeable programs."""
_EDITORS = frozenset({"write_file", "patch"})
_WITHOUT_CANDIDATES = frozenset({"write_file", "patch", "execute_code", "process"})
"""Tools whose failures depend on the content of a call, not on its form."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """One finished call of a turn."""

    form: CallForm
    failure: Failure | None
    node: int | None = None
    """The id of the message that asked for it."""


@dataclass(frozen=True, slots=True)
class Fix:
    """What fixed a failure: other calls, or a sentence."""

    kind: FixKind
    text: str
    """The fix for users and models to read: commands, or a sentence."""
    key: str = ""
    """The key, equal for equivalent calls; empty for sentences."""
    steps: tuple[str, ...] = ()
    """The keys of calls to be made first."""


IsReadOnly = Callable[[CallForm], bool]
"""The type of a function that tells whether a call changes nothing."""


def what_worked(calls: Sequence[MadeCall], at: int, is_read_only: IsReadOnly) -> Fix | None:
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
    steps = [each for each in done if each.form.command is not None and not is_read_only(each.form)]
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
