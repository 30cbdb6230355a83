"""Meanings of exit codes that are not what they seem."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

TIMED_OUT = 124

_NO_MATCH = {1: "no line matched; that is not an error"}
_DIFFERENT = {1: "the inputs differ; that is not an error"}
_FALSE = {1: "the condition is false; that is not an error"}
_NO_PROCESS = {1: "no process matched; that is not an error"}
_NO_COMMAND = {1: "no such command was found"}

_KNOWN: Mapping[str, Mapping[int, str]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "git grep"), _NO_MATCH),
    **dict.fromkeys(("diff", "cmp", "colordiff", "git diff"), _DIFFERENT),
    **dict.fromkeys(("test", "[", "[["), _FALSE),
    **dict.fromkeys(("pgrep", "pkill"), _NO_PROCESS),
    **dict.fromkeys(("which", "type"), _NO_COMMAND),
    "find": {1: "some folders could not be read; what was found stands"},
    "pytest": {
        1: "some tests failed",
        2: "interrupted, or tests could not be read",
        5: "no tests were found",
    },
    "curl": {
        6: "the host name could not be resolved",
        7: "the connection was refused",
        22: "the server answered with an error (HTTP 400 or above)",
        28: "curl's own time limit was reached",
        60: "the certificate could not be verified",
    },
    "ssh": {255: "ssh itself failed: connection or authentication"},
    "git merge-base": {1: "no; that is not an error"},
}
_GENERAL = {
    126: "the command was found but could not be executed (not executable, or a folder)",
    127: "the command was not found",
}
_WRAPPERS = frozenset(
    {"sudo", "time", "nice", "nohup", "command", "exec", "env", "stdbuf", "!", "then", "do", "else"}
)
_SEPARATOR = re.compile(r"\|\|?|&&|;|\n")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)


def meaning(command: str, code: int) -> str:
    """One clause about `code`, or empty when it speaks for itself.

    Which program the code belongs to is a guess from the last part of `command`:
    good enough for a hint, never for a decision.
    """
    if code == 0:
        return ""
    words = _last_words(command)
    for name in (" ".join(words[:2]), words[0] if words else ""):
        if code in _KNOWN.get(name, {}):
            return _KNOWN[name][code]
    if code in _GENERAL:
        return _GENERAL[code]
    if code > 128:
        try:
            return f"ended by signal {code - 128} ({signal.Signals(code - 128).name})"
        except ValueError:
            return ""
    return ""


def _last_words(command: str) -> list[str]:
    """The first words of the last simple command: program and perhaps subcommand."""
    bare = _QUOTED.sub("''", command[-10_000:]).rstrip("; \t\n")
    words = _SEPARATOR.split(bare)[-1].split()
    while words and (words[0] in _WRAPPERS or re.match(r"[A-Za-z_]\w*=", words[0])):
        words = words[1:]
    if words:
        words[0] = words[0].rsplit("/", 1)[-1].lstrip("({")
    return words
