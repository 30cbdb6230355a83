"""Package managers of Node, what they run, and tools with subcommands that projects have there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, Rule, ask, fine, runs
from agent.safety.commands.checkers import BUILDS, CHECKERS, OUTWARD, check
from agent.safety.commands.declared import INSTALLS, installs
from agent.safety.commands.verbs import Verbs
from agent.safety.shell.marks import UNKNOWN, literal, words
from agent.safety.shell.wrappers import fetched

_SCRIPT_WORDS = words("run run-script")
_OWN_VERBS = words("install add remove update upgrade init publish audit outdated list why pack")
"""Words behind which an option is for pnpm, yarn and bun; behind others it is for what they start."""
_SETTINGS = words(
    "--script-shell --node-options --userconfig --globalconfig --registry --shell --use-yarnrc "
    "--npmrc-auth-file"
)


def _of_package(call: Call) -> Call | None:
    """The call without the words that choose packages of the workspace; None when there are none."""
    for place, argument in enumerate(call.arguments[:-1]):
        if argument in ("--filter", "--workspace"):
            return replace(call, arguments=(*call.arguments[:place], *call.arguments[place + 2 :]))
    if call.name == "yarn" and call.arguments[:1] == ("workspace",) and len(call.arguments) > 2:
        return replace(call, arguments=tuple(call.arguments[2:]))
    return None


def node_manager(call: Call) -> Opinion:
    """npm, yarn, pnpm and bun: scripts of the project are plain work, packages are not."""
    first = call.arguments[0] if call.arguments else ""
    own = call.name == "npm" or first.startswith("-") or first in _OWN_VERBS
    if own and call.tells("--version", "-v", "--help", "-h"):
        return fine("only looks")
    for option in ("-C", "--dir", "--cwd", "--prefix"):
        at = call.arguments.index(option) if option in call.arguments[:-1] else -1
        if at >= 0 and call.ground.inside(folder := call.path(call.arguments[at + 1])):
            rest = (*call.arguments[:at], *call.arguments[at + 2 :])
            inner = replace(call, arguments=rest, cwd=folder)
            return opinion if (opinion := installs(inner)) is not None else node_manager(inner)
    if call.flag("--prefix", "-C", "--cwd", "--dir", *_SETTINGS, "-g", "--global"):
        return ask("works outside of the workspace, or for every project")
    if (inner := _of_package(call)) is not None:
        return node_manager(inner)
    operands = call.operands("wF")
    if not operands:
        return ask(INSTALLS) if call.name in ("yarn", "pnpm") else fine("only looks")
    verb, rest = operands[0], operands[1:]
    if verb in (
        "ls",
        "list",
        "ll",
        "outdated",
        "view",
        "info",
        "why",
        "explain",
        "root",
        "bin",
        "prefix",
        "help",
        "doctor",
        "fund",
        "audit",
        "licenses",
        "query",
        "pkg",
    ):
        if rest == ["fix"] and call.name == "npm" and not call.flag("--force", "-f"):
            return BUILDS if call.inside else ask("works outside of the workspace")  # as `npm update`
        changes = (verb == "pkg" and rest[:1] != ["get"]) or "fix" in rest
        return ask("changes the packages of the project") if changes else fine("lists packages")
    if verb == "config":
        return fine("lists settings") if rest[:1] in (["get"], ["list"], ["ls"]) else ask("changes settings")
    if verb in ("version", "search") and (verb == "search" or not rest) and call.name == "npm":
        return fine("lists packages")
    if verb in (
        "publish",
        "unpublish",
        "deprecate",
        "login",
        "logout",
        "adduser",
        "token",
        "owner",
        "access",
        "dist-tag",
        "star",
        "whoami",
        "version",
    ):
        return ask("publishes, or uses the account at the registry")
    if call.name == "yarn" and operands[:2] in (["workspaces", "info"], ["workspaces", "list"]):
        return fine("lists packages")
    if verb == "exec" and rest and not call.flag("--package", "-p", "-c", "--call", "--yes", "-y"):
        after = call.arguments[call.arguments.index("exec") + 1 :]
        return npx(replace(call, name="npx", word="npx", arguments=tuple(a for a in after if a != "--")))
    if call.name in ("yarn", "pnpm") and verb in _LOCAL:
        after = call.arguments[call.arguments.index(verb) :]
        return npx(replace(call, name="npx", word="npx", arguments=tuple(after)))
    if (
        call.name == "npm"
        and verb in ("dedupe", "prune", "install", "update", "ci")
        and call.flag("--dry-run")
    ):
        return fine("lists packages")
    if call.name == "bun" and verb == "x" and rest and call.arguments[0] == "x":
        return npx(replace(call, name="npx", word="npx", arguments=tuple(call.arguments[1:])))
    if verb == "init" and not rest and call.name != "bun" and call.inside:
        return BUILDS if call.flag("-y", "--yes") or call.name == "pnpm" else ask("asks questions")
    if verb in _TAKE_OUT.get(call.name, ()) and rest and all(map(_TAKEN_OUT.fullmatch, call.arguments[1:])):
        return fine("takes packages out of the project") if call.inside else ask(INSTALLS)
    if verb in ("exec", "x", "dlx", "create", "init", "npx"):
        looks = not rest and call.flag("--version", "--help")
        return fine("only looks") if looks else ask("fetches and runs a package")
    script = rest[0] if verb in _SCRIPT_WORDS and rest else verb
    if verb in _SCRIPT_WORDS and not rest:
        return fine("lists the scripts of the project")
    if UNKNOWN in script:
        return ask("runs a script that is not known here")
    known = (
        verb in _SCRIPT_WORDS
        or verb in ("test", "t", "tst")
        or (
            call.name in ("yarn", "pnpm")
            and re.fullmatch(
                r"(?:build|test|lint|format|typecheck|check|tsc|jest|vitest|eslint|prettier|dev"
                r"|coverage)(?:[:-].*)?",
                verb,
            )
        )
        or (call.name == "bun" and verb in ("test", "build"))
        or (call.name != "npm" and verb in scripts_of(call))
    )
    if verb in ("start", "restart") or (verb in _SCRIPT_WORDS and script == "start"):
        return BUILDS if call.inside else ask("works outside of the workspace")
    if verb == "pack":
        own = all(re.match(r"\./|\.$", place) and call.ground.inside(call.path(place)) for place in rest)
        plain = own and call.inside and not call.flag("--pack-destination", "-w", "--filename", "--out")
        if call.flag("--dry-run") or plain:
            return BUILDS
    if verb == "stop" or (call.name == "bun" and verb == "run" and re.search(r"\.\w+$", script)):
        if not call.inside:
            return ask("works outside of the workspace")
        own = call.name == "bun" and UNKNOWN not in script and call.ground.inside(call.path(script))
        return runs(script, "bun", rest[1:]) if own else ask(RUNS_PROJECT)
    if not known:
        return ask(INSTALLS)
    if OUTWARD.fullmatch(script):
        return ask(f"runs the script {literal(script)}, which may reach beyond the workspace")
    return BUILDS if call.inside else ask("works outside of the workspace")


_TAKE_OUT: dict[str, frozenset[str]] = {
    "npm": words("uninstall remove rm un unlink"),
    "pnpm": words("remove rm uninstall un"),
    "yarn": words("remove"),
    "bun": words("remove rm"),
}
_TAKEN_OUT = re.compile(
    r"-D|-S|-w|--(?:save(?:-dev)?|no-save|silent|legacy-peer-deps)|@?[A-Za-z][\w.-]*(?:/[A-Za-z][\w.-]*)?"
)
_LARGEST = 262_144
"""Bytes of a `package.json` that are read."""


def scripts_of(call: Call) -> frozenset[str]:
    """The names of the scripts in `package.json`, unless the same text has changed it."""
    path = Path(call.path("package.json"))
    if "package.json" in call.named or not call.inside:
        return frozenset()
    try:
        if path.stat().st_size > _LARGEST:
            return frozenset()
        scripts = json.loads(path.read_bytes())["scripts"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return frozenset()
    return frozenset(scripts) if isinstance(scripts, dict) else frozenset()


_FRONTENDS = "vite next astro nuxt ng vue-cli-service gatsby remix storybook"
_BROWSERS = "playwright cypress"
_LOCAL = CHECKERS | words(f"{_FRONTENDS} {_BROWSERS} prisma")
"""Tools that projects have in their own `node_modules`."""


def npx(call: Call) -> Opinion:
    """npx fetches what is not installed; known tools that the project has run from there."""
    name = next((argument for argument in call.arguments if not argument.startswith("-")), "")
    if name in _PACKAGES and call.arguments[0] == name:
        name = _PACKAGES[name]
        call = replace(call, arguments=(name, *call.arguments[1:]))
    installed = Path(call.path(f"node_modules/.bin/{name}")).is_file() and call.inside
    options = call.arguments[: call.arguments.index(name)] if name else ()
    known = name in _LOCAL and all(option in ("--no-install", "--no", "--yes", "-y") for option in options)
    anew = {"--yes", "-y"} & set(options)
    if known and (installed or (call.name == "npx" and not anew)):
        # Without the network, which is asked for on its own, only what the project installed runs.
        rest = call.arguments[call.arguments.index(name) + 1 :]
        rule = check if name in CHECKERS else _TOOLS[name]
        return rule(replace(call, name=name, arguments=rest, word=name))
    given = call.arguments[call.arguments.index(name) + 1 :] if name else ()
    if call.name == "npx" and fetched(call.arguments) and not anew:
        return fine("only starts what follows it")
    if call.name == "uvx" and name in CHECKERS and name == call.arguments[0]:
        return check(replace(call, name=name, arguments=given, word=name))
    if call.name == "npx" and name in _RUNNERS and not anew and given and not given[0].startswith("-"):
        file = given[0]
        if UNKNOWN not in file and call.inside and call.ground.inside(call.path(file)):
            return runs(file, name, given[1:])
    return ask("fetches and runs a package")


_PACKAGES = {"@biomejs/biome": "biome", "@playwright/test": "playwright", "@angular/cli": "ng"}
"""Tools by the names of the packages that hold them."""
_RUNNERS = words("tsx ts-node esno vite-node babel-node")
"""Programs that run a file of the project, which projects have in their own `node_modules`."""


_OPENS = re.compile(r"(?:--host|-H|--hostname)(?:=(?!localhost$|127\.).*)?")
FRONTEND = Verbs(
    harmless="build|lint|check|info|typecheck|preview|optimize|export|sync|test|prepare|dev|start|serve",
    reason="builds or tests the project",
    effects=(("upgrade|add|init|new|generate|deploy", INSTALLS),),
    inside=True,
)
BROWSER_TESTS = Verbs(
    harmless="test|run|verify|show-report|merge-reports",
    reason="builds or tests the project",
    effects=(("install|open|codegen", INSTALLS),),
    bare=False,
    inside=True,
)
PRISMA = Verbs(
    harmless="validate|format|generate|version|migrate (?:status|diff)",
    reason="builds or tests the project",
    effects=(("migrate|db|studio|init", "changes a database, or opens it"),),
    bare=False,
    inside=True,
)


def _settled(rule: Rule) -> Rule:
    """The rule, for tools whose settings are code: settings from elsewhere ask."""

    def judged(call: Call) -> Opinion:
        if rule is FRONTEND and any(map(_OPENS.fullmatch, call.arguments)):
            return ask("opens a server to the network")
        for argument in call.arguments:
            place = argument.partition("=")[2] if argument.startswith("-") else argument
            path = call.path(place)
            near = call.ground.inside(path) or call.ground.private(path)
            if place.startswith(("/", "..", "~")) and not near:
                return ask("takes settings or code from outside of the workspace")
        return rule(call)

    return judged


TABLE: tuple[tuple[str, Rule], ...] = (
    ("npm yarn pnpm bun", node_manager),
    ("npx bunx pnpx pipx uvx", npx),
    (_FRONTENDS, _settled(FRONTEND)),
    (_BROWSERS, _settled(BROWSER_TESTS)),
    ("prisma", _settled(PRISMA)),
)
_TOOLS = {name: rule for names, rule in TABLE for name in names.split()}
