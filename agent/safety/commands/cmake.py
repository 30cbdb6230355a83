"""cmake: which folders it builds, and which programs its variables name."""

from __future__ import annotations

import re

from agent.safety.commands.call import Call, Opinion, Rule, ask
from agent.safety.commands.checkers import BUILDS, OUTWARD
from agent.safety.commands.environment import variable
from agent.safety.places import absolute
from agent.safety.shell.marks import UNKNOWN, literal


def cmake(call: Call) -> Opinion:
    if call.flag("-P", "--install") or call.arguments[:1] == ("-E",):
        return ask("runs a script or installs")
    build = call.value("", "build")
    for place in (
        build,
        call.value("S"),
        call.value("C"),
        *(o for o in call.operands("BSGDCUTAj") if build is None),
    ):
        if place and not (call.ground.inside(call.path(place)) or call.ground.private(call.path(place))):
            return ask("works outside of the workspace")
    native = call.arguments[call.arguments.index("--") + 1 :] if "--" in call.arguments else ()
    if not all(re.fullmatch(r"-[jklvs]?\d*|-[kvs]|VERBOSE=1|\d+|-m:?\d*", argument) for argument in native):
        return ask("hands options to the build program")
    for name, value in _definitions(call):
        if _RUNS_IN_CMAKE.fullmatch(name) and not _is_harmless_definition(call, name, value):
            return ask(f"decides which program runs ({literal(name)})")
    target = call.value("t", "target") if build is not None else None
    if target and OUTWARD.fullmatch(target):
        return ask(f"makes {literal(target)}, which may reach beyond the workspace")
    return call.changed([call.value("B") or build or "."]) or BUILDS


_RUNS_IN_CMAKE = re.compile(
    r"CMAKE_(?:\w*COMPILER\w*|\w*LAUNCHER|\w*TOOLCHAIN\w*|MAKE_PROGRAM|LINKER|AR|RANLIB|STRIP|\w*INCLUDE\w*"
    r"|\w*MODULE_PATH|\w*EMULATOR|\w*LINT|\w*TIDY|\w*CPPCHECK|\w*WHAT_YOU_USE)|\w*_(?:EXECUTABLE|PROGRAM|COMMAND)"
)


def _definitions(call: Call) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for argument, following in zip(call.arguments, [*call.arguments[1:], ""], strict=True):
        if argument.startswith("-D"):
            name, _, value = (argument[2:] or following).partition("=")
            found.append((name.partition(":")[0], value))
    return found


def _is_harmless_definition(call: Call, name: str, value: str) -> bool:
    """A program known by its name, or a place in the workspace."""
    if UNKNOWN in value:
        return False
    if "/" not in value:
        return re.fullmatch(r"[\w.+-]*", value) is not None and (
            variable("CC", [value], call.ground.inside) is None
            or value in ("ccache", "sccache", "distcc", "clang-tidy", "cppcheck", "", "ON", "OFF")
        )
    if name.endswith("LAUNCHER"):
        return False
    folder = absolute(call.path(value)).rpartition("/")[0]
    return call.ground.inside(call.path(value)) or folder in ("/usr/bin", "/usr/local/bin", "/bin")


RULES: dict[str, Rule] = {"cmake": cmake}
