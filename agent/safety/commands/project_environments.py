"""Programs started in the environment of a Python project: `uv run`, `poetry run` and their like."""

from __future__ import annotations

import re
from dataclasses import replace

from agent.safety.commands.builders import PRE_COMMIT
from agent.safety.commands.builders import RULES as BUILDERS
from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, Rule, fine, runs
from agent.safety.commands.checkers import BUILDS, CHECKERS
from agent.safety.commands.declared import INSTALLS, first
from agent.safety.commands.interpreters import python
from agent.safety.commands.toolchains import RULES as TOOLCHAINS
from agent.safety.commands.verbs import Verbs
from agent.safety.shell.marks import UNKNOWN, words

_TOOLS = r"pytest|ruff|mypy|pyright|black|isort|flake8|tox|nox|coverage"

UV = Verbs(
    harmless=r"run (?:pytest|ruff|mypy|pyright|black|isort|flake8|tox|nox|coverage)|pip (?:list|show"
    r"|freeze|tree|check)|export|tree|version|lock --check|python (?:list|find|dir)"
    r"|cache dir|tool (?:list|dir)|build|help|self version|python pin [\d.]+$",
    reason="builds or tests the project",
    effects=(
        ("sync|add|remove|pip|tool|lock|venv|python|self|cache|publish|x", INSTALLS),
        (rf"run (?!(?:{_TOOLS})\b).*", RUNS_PROJECT),
    ),
    dangerous=words(
        "--with --from --index-url --index --extra-index-url --with-requirements --directory --project"
    ),
    inside=True,
)
POETRY = Verbs(
    harmless=rf"run (?:{_TOOLS})|show|check|version|env (?:list|info)|build|list|about|export|self show",
    reason="builds or tests the project",
    effects=(
        ("install|add|remove|update|lock|self|publish|init|new|source|config|env|cache|sync", INSTALLS),
        (rf"run (?!(?:{_TOOLS})\b).*|shell", RUNS_PROJECT),
    ),
    inside=True,
)
_PYTHONS = words("python python3")


_SCRIPT = re.compile(
    r"run (?:[\w.+-]+:)?(?:tests?|lint|format|fmt|check|types?|typing|typecheck|style|cov|coverage"
    r"|docs?|build)(?:[:-][\w-]+)?"
    r"|test(?: [\w./-]+)*|fmt(?: --check)?|env show|env find|version|status|dep show \w+|list|info"
)
"""Scripts of the project's settings that build and test, by the names they have everywhere."""


_FLAGS = words(
    "--frozen --locked --no-sync --all-extras --all-groups --all-packages --dev --no-dev --only-dev "
    "--offline --no-default-groups --isolated --quiet -q --verbose -v --no-progress --exact --no-project "
    "--active --no-env-file --no-build --compile-bytecode --no-cache -n"
)
_VALUED = words("--group --no-group --only-group --extra --no-extra --python -p --package")
_WORD = re.compile(r"[\w.,+-]+")


def _started(call: Call) -> Call | None:
    """What `uv run [options] [--] COMMAND` starts; None when an option may bring in something else."""
    arguments = list(call.arguments[1:])
    while arguments and arguments[0].startswith("-"):
        option, equals, value = arguments.pop(0).partition("=")
        if option == "--":
            break
        if option in _VALUED:
            value = value if equals else arguments.pop(0) if arguments else UNKNOWN
            if not _WORD.fullmatch(value):
                return None
        elif option not in _FLAGS or equals or call.name not in ("uv", "pdm", "rye"):
            return None
    if not arguments or arguments[0].startswith("-"):
        return None
    return replace(call, name=arguments[0], word=arguments[0], arguments=tuple(arguments[1:]))


def in_environment(rule: Rule) -> Rule:
    """The rule, but Python and tools that are started in the environment count as they do by themselves."""

    def judged(call: Call) -> Opinion:
        if call.name in ("hatch", "pdm") and call.inside and _SCRIPT.fullmatch(" ".join(call.arguments)):
            return BUILDS
        inner = _started(call) if call.arguments[:1] == ("run",) and call.inside else None
        if inner is None:
            return rule(call)
        if inner.name in _PYTHONS:
            return python(inner)
        if inner.name in ("pre-commit", "prek"):
            return PRE_COMMIT(inner)
        if inner.name in CHECKERS:
            return BUILDERS[inner.name](inner)
        if inner.name in _TOOLS_OF_PROJECTS:
            return TOOLCHAINS[inner.name](inner)
        if inner.arguments in (("--help",), ("--version",), ("-h",)) and _WORD.fullmatch(inner.name):
            return fine("only tells how a program is used")
        if inner.name.endswith(".py") and inner.ground.inside(inner.path(inner.name)):
            return runs(inner.name, "python", inner.arguments)
        return rule(call)

    return judged


_TOOLS_OF_PROJECTS = words("alembic flask actionlint interrogate deptry lint-imports pip-audit ty")

RULES: dict[str, Rule] = {
    name: first(in_environment(UV if name == "uv" else POETRY))
    for name in ("uv", "poetry", "pdm", "hatch", "rye", "pipenv")
}
