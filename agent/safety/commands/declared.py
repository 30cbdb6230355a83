"""Installing what the project itself lists: part of building it, as `cargo build` or `go build` do unasked.

Packages named on the command line, other sources, other places and everything for the
whole machine are no part of this. Whether the network is open is asked for on its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.safety.commands import known_packages
from agent.safety.commands.call import Call, Opinion, Rule, fine
from agent.safety.shell.marks import UNKNOWN

INSTALLS = "installs packages, which may run their programs"
"""The reason to ask about everything else that installs."""
INSTALLED = fine("installs what the project lists")

_NEWER = r"update|upgrade|up"
_NAMES = r"(?: @?[A-Za-z][\w.-]*(?:/[\w.-]+)?)*"
"""Names of packages without versions or sources: only those that are listed are renewed."""
_WORDS: dict[str, str] = {
    "npm": rf"ci|install|i|clean-install|prune|dedupe|(?:{_NEWER}){_NAMES}",
    "pnpm": rf"install|i|(?:{_NEWER}){_NAMES}",
    "yarn": rf"install||dedupe|upgrade{_NAMES}",
    "bun": rf"install|i|update{_NAMES}",
    "uv": r"sync|lock|venv",
    "poetry": rf"install|lock|sync|update{_NAMES}",
    "pdm": rf"install|lock|sync|update{_NAMES}",
    "pipenv": r"install|sync|lock|update",
    "bundle": rf"install||update{_NAMES}",
    "composer": rf"install|(?:{_NEWER}){_NAMES}",
    "cargo": r"fetch",
    "dotnet": r"restore|tool restore",
    "mix": rf"deps\.get|deps\.update(?: --all|{_NAMES})",
    "flutter": r"pub get",
    "dart": r"pub get",
}
"""The words that install everything listed, and nothing else."""

MANAGERS = frozenset(_WORDS)

_OPTIONS = re.compile(
    r"--(?:no-[a-z-]+|ignore-engines|ignore-platform|frozen(?:-lockfile)?|locked|immutable|prefer-(?:offline|dist|frozen-lockfile)|offline"
    r"|production|silent|quiet|verbose|ignore-scripts|legacy-peer-deps|dev|only-group|all-extras|all-groups"
    r"|extras?|all-packages|group|with|without|only|omit|include|sync|root|jobs|retry|optimize-autoloader"
    r"|check|deploy|workspaces?|recursive|filter|strict-peer-dependencies|compile-bytecode|latest|all|color|progress|no-progress"
    r"|loglevel|reporter|non-interactive|fix-lockfile|lockfile-only|package-lock-only|upgrade|ansi|check-cached"
    r"|deployment|inline-builds|python|save(?:-dev|-exact|-prod|-optional)?)(?:=[\w.,:*/@-]+)?|-[qvsrjDPEanS]+\d*"
)
_VALUED = frozenset(
    {"--extra", "--group", "--with", "--without", "--only", "--omit", "--include", "-E", "--extras", "--jobs"}
    | {"--filter", "--only-group", "--loglevel", "--reporter", "-j", "--retry", "--python", "-P"}
    | {"--upgrade-package", "--package"}
)
_INNER_VALUE = re.compile(r"[\w.,:*@^-]+")


def installs(call: Call) -> Opinion | None:
    """The opinion on `npm ci`, `uv sync` and their like; None for everything else."""
    words = _WORDS.get(call.name)
    if call.name == "uv" and call.arguments[:2] == ("pip", "install"):
        return into_environment(call, call.arguments[2:])
    if words is None or not call.inside:
        return None
    said: list[str] = []
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument in _VALUED:
            if not arguments or not _INNER_VALUE.fullmatch(arguments.pop(0)):
                return None
        elif argument == "--path" and call.name == "bundle" and arguments:
            if call.changed([arguments.pop(0)]):
                return None
        elif argument.startswith("-"):
            if not _OPTIONS.fullmatch(argument):
                return None
        else:
            said.append(argument)
    if call.name == "uv" and said[:1] == ["venv"] and len(said) == 2:
        return call.changed(said[1:]) or INSTALLED
    return INSTALLED if re.fullmatch(words, " ".join(said)) else None


def first(rule: Rule) -> Rule:
    """The rule, unless the call installs what the project lists."""

    def judged(call: Call) -> Opinion:
        for opinion in (installs(call), known_packages.adds(call)):
            if opinion is not None:
                return opinion
        return rule(call)

    return judged


_PIP_FLAGS = re.compile(
    r"-[qvU]+|--(?:timeout|retries|group)=[\w-]+|--(?:upgrade|quiet|verbose|no-(?:cache-dir|deps|input|build-isolation|warn-script-location)"
    r"|require-hashes|disable-pip-version-check|progress-bar=\w+)"
)


def into_environment(call: Call, said: Sequence[str]) -> Opinion | None:
    """The opinion on installing what is listed, what is well known, `-e .` and `.` into an environment.

    Inside a boundary there is no other environment it could change. `said` are the arguments behind
    `install`. None when it is anything else.
    """
    if not (call.inside and (call.ground.confined or _is_environment(call))):
        return None
    arguments = list(said)
    installs_listed = False
    while arguments:
        argument = arguments.pop(0)
        if argument in ("--timeout", "--retries", "--group") and arguments:
            if not re.fullmatch(r"[\w.-]+", arguments.pop(0)):
                return None
            installs_listed |= argument == "--group"
        elif argument in ("-r", "--requirement", "-c", "--constraint", "-e", "--editable"):
            if not arguments or not _is_own(call, arguments.pop(0)):
                return None
            installs_listed = True
        elif match := re.fullmatch(r"(?:-[rce]|--(?:requirement|constraint|editable)=)(.+)", argument):
            if not _is_own(call, match[1]):
                return None
            installs_listed = True
        elif argument.startswith(("./", ".[")) or argument == ".":
            if _PACKED.search(argument) or not _is_own(call, argument):
                return None
            installs_listed = True
        elif known_packages.are_known_to_python([argument]):
            installs_listed = True
        elif not _PIP_FLAGS.fullmatch(argument):
            return None
    return INSTALLED if installs_listed else None


def takes_out_of_environment(call: Call) -> bool:
    """Whether `pip uninstall` names packages of an environment of the project; said no by name otherwise."""
    given = call.arguments[1:]
    own = call.inside and _is_environment(call)
    return own and bool(given) and all(_TAKEN_OUT.fullmatch(argument) for argument in given)


_TAKEN_OUT = re.compile(r"-y|--yes|-q|(?!pip$)[A-Za-z][\w.-]*")
_PACKED = re.compile(r"\.(?:whl|zip|tar(?:\.\w+)?|tgz|egg)$")


def _is_own(call: Call, place: str) -> bool:
    bare = place.partition("[")[0]
    return UNKNOWN not in place and "://" not in place and call.ground.inside(call.path(bare or "."))


_ENVIRONMENT = re.compile(r"(?:.*/)?\.?v?env[\w.-]*/bin/[\w.]+")


def _is_environment(call: Call) -> bool:
    """Whether the program belongs to an environment of the project: by its path, or activated before."""
    if "activate" in call.named:
        return True
    return _ENVIRONMENT.fullmatch(call.word) is not None and call.ground.inside(call.path(call.word))
