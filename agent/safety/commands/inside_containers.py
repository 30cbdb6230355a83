"""Commands in a container or a pod that already runs: what only looks passes as it does on this machine."""

from __future__ import annotations

import re
from dataclasses import replace

from agent.safety.commands import databases, readers
from agent.safety.commands.call import Call, Opinion, fine
from agent.safety.commands.checkers import CHECKERS
from agent.safety.places import absolute
from agent.safety.shell.marks import GLOBS, UNKNOWN, words

LOOKS = fine("only looks into a container")
TESTS = fine("tests the project in its container")

_FLAGS = re.compile(r"-[itTd]+|--(?:interactive|tty|no-TTY|stdin)(?:=(?:true|false))?")
_VALUED = words("-u --user -w --workdir --index -n --namespace -c --container -l --context")
_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")
_LOOKERS = words(
    "ls cat head tail grep egrep fgrep find stat wc du df ps file which pwd whoami id hostname date uname "
    "uptime nl tree diff cmp md5sum sha1sum sha256sum readlink realpath basename dirname getent nproc free "
    "ss netstat echo printf true test"
)
"""What changes nothing wherever it runs. Not `env`: the environment of a container holds its passwords."""
_GLOBS = frozenset(GLOBS)
_FIND_ACTS = re.compile(r"-(?:delete|exec\w*|ok\w*|fprint\w*|fls)")
_TELLS = (("--version",), ("-version",), ("version",), ("-v",), ("-V",))
_TESTERS = words("pytest rspec phpunit jest vitest mypy ruff flake8 eslint tsc rubocop phpstan")
_SECRET_PLACES = re.compile(r"/proc(?:/.*)?|(?:/var)?/run(?:/secrets(?:/.*)?)?")
"""Where the environment of programs and the secrets of containers lie."""


def looks(call: Call, after_exec: int) -> Opinion | None:
    """The opinion on `… exec [options] NAME [--] COMMAND` that only reads or tests; None for all else.

    `after_exec` is the place behind the word `exec`. Shells, and everything that is not known,
    are none of it: what they do in the container cannot be undone here.
    """
    argv = _command(list(call.arguments[after_exec:]))
    if not argv or any(UNKNOWN in word for word in call.arguments):
        return None
    name, given = argv[0], tuple(argv[1:])
    if given in _TELLS and re.fullmatch(r"[a-z][\w.-]*", name):
        return LOOKS
    if any(_FIND_ACTS.fullmatch(word) for word in given) or _may_tell_secrets(name, given):
        return None
    inner = replace(call, name=name, word=name, arguments=given)
    if name in ("python", "python3") and given[:2] == ("-m", "pytest"):
        name, inner = "pytest", replace(inner, name="pytest", word="pytest", arguments=given[2:])
    if name in _TESTERS & CHECKERS:
        return TESTS
    rule = readers.RULES.get(name) if name in _LOOKERS else databases.RULES.get(name)
    if rule is None:
        return None
    opinion = rule(inner)
    return opinion if opinion else LOOKS


def _may_tell_secrets(name: str, given: tuple[str, ...]) -> bool:
    """Whether what is read may be where containers keep secrets. Names of files are judged elsewhere."""
    if name in ("ls", "stat", "find", "df", "du", "test", "echo", "printf"):
        return False
    if any(word.startswith("/") and not _GLOBS.isdisjoint(word) for word in given):
        return True
    # Where the command runs is not known: it may be the root.
    places = [absolute(f"/{word}") for word in given if not word.startswith("-")]
    above = bool({"/", "/var"} & set(places)) and name in ("grep", "egrep", "fgrep", "diff")
    return above or any(_SECRET_PLACES.fullmatch(place) for place in places)


def _command(arguments: list[str]) -> list[str]:
    """The command line in the container; empty when its beginning is not known."""
    name = ""
    while arguments:
        argument = arguments.pop(0)
        if argument == "--":
            return arguments if name else []
        option, equals, value = argument.partition("=")
        if option in _VALUED:
            value = value if equals else arguments.pop(0) if arguments else ""
            if value.startswith(("/proc", "/run", "/var/run")):
                return []
        elif _FLAGS.fullmatch(argument):
            continue
        elif argument.startswith("-"):
            return []
        elif name:
            return [argument, *arguments]
        elif not _NAME.fullmatch(argument):
            return []
        else:
            name = argument
    return []
