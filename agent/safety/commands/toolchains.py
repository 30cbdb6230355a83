"""Toolchains with subcommands of their own: what builds, tests and looks, and what installs or publishes."""

from __future__ import annotations

import re
from dataclasses import replace

from agent.safety.commands import servers
from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, Rule, ask, fine
from agent.safety.commands.checkers import BUILDS, OUTWARD
from agent.safety.commands.declared import INSTALLS
from agent.safety.commands.verbs import Verbs
from agent.safety.places import absolute
from agent.safety.shell.marks import UNKNOWN, words

LOOKS = fine("only looks")
_TESTS = "builds or tests the project"
_LEIN = Verbs(
    harmless=r"test|check|compile|uberjar|jar|clean|deps :tree|classpath|version|help|kibit|eastwood"
    r"|cljfmt check|ancient",
    reason=_TESTS,
    effects=(
        ("run|repl|trampoline|do|with-profile|exec", RUNS_PROJECT),
        ("deps|install|new|upgrade|deploy", INSTALLS),
    ),
    inside=True,
)
_REBAR = Verbs(
    harmless="compile|eunit|ct|proper|dialyzer|xref|fmt|tree|deps|clean|version|as test (?:eunit|ct|compile)"
    "|cover|edoc",
    reason=_TESTS,
    effects=(("shell|escriptize|release|tar", RUNS_PROJECT), ("upgrade|unlock|hex|new|get-deps", INSTALLS)),
    inside=True,
)
_CRYSTAL = Verbs(
    harmless=r"build|spec|docs|tool (?:format|context|hierarchy|unreachable)|env|version",
    reason=_TESTS,
    effects=(("run|eval|play|i|init", RUNS_PROJECT),),
    inside=True,
)
_NIM = Verbs(
    harmless=r"c|cc|cpp|js|compile|check|doc|dump|jsondoc",
    reason=_TESTS,
    effects=(("e|r|secret|run", RUNS_PROJECT),),
    dangerous=words(
        "--passC --passL --gcc.exe --cc --hint --clib --cincludes --app --path -p --import --include"
    ),
    inside=True,
)


def nim(call: Call) -> Opinion:
    """nim: with `-r` what was built runs at once, as with `cargo run`."""
    if call.flag("-r", "--run") and any(map(OUTWARD.fullmatch, call.operands())):
        return ask(RUNS_PROJECT)
    return _NIM(call)


_BUF = Verbs(
    harmless="lint|build|format|breaking|generate|ls-files|config ls-lint-rules|--version",
    reason=_TESTS,
    effects=(("push|registry|beta|dep|mod|curl|export", "reaches the network"),),
    dangerous=words("--template --against-registry --config"),
    inside=True,
)
_OPENAPI = Verbs(
    harmless="validate|list|version|help|generate|config-help",
    reason=_TESTS,
    bare=False,
    inside=True,
    dangerous=words("--plugin -t --template-dir --custom-generator -e --engine"),
)
_ELM_LIKE = Verbs(
    harmless="make|format|test|check|build|lint", reason=_TESTS, otherwise=INSTALLS, inside=True
)


def clojure(call: Call) -> Opinion:
    """clj and clojure: aliases of the project that test or build."""
    if call.arguments in (("--version",), ("-version",)):
        return LOOKS
    tests = re.compile(r"-[MXT]:[\w/:.-]*(?:test|kaocha|lint|format|fmt|cljfmt|build|check|kondo)[\w/:.-]*")
    harmless = len(call.arguments) == 1 and tests.fullmatch(call.arguments[0])
    if not harmless or OUTWARD.fullmatch(call.arguments[0]):
        return ask(RUNS_PROJECT)
    return BUILDS if call.inside else ask("works outside of the workspace")


_NIX_READS = re.compile(
    r"flake (?:check|show|metadata|info)|build|eval|search|store (?:info|ping)|path-info|log"
    r"|why-depends|hash \S+"
    r"|registry list|profile list|derivation show|show-config|config show|fmt|print-dev-env"
)
_NIX_FLAGS = re.compile(
    r"--(?:json|no-link|dry-run|print-build-logs|print-out-paths|show-trace|raw|quiet|verbose)|-[Lv]"
)


def nix(call: Call) -> Opinion:
    """nix: building and looking at the flake of the project, in its own sandbox."""
    if call.arguments in (("--version",), ("--help",)):
        return LOOKS
    said = " ".join(argument for argument in call.arguments[:2] if not argument.startswith((".", "-")))
    match = _NIX_READS.match(said)
    rest = [a for a in call.arguments if a not in said.split()]
    own = all(re.fullmatch(r"\.(?:/[\w./-]*)?(?:#[\w.\"-]*)?", a) or _NIX_FLAGS.fullmatch(a) for a in rest)
    if match is None or match.end() != len(said) or not own or call.unsure:
        return ask("installs, runs or fetches packages")
    return BUILDS if call.inside else ask("works outside of the workspace")


def checks(call: Call) -> Opinion:
    """Linters whose operands are files of the workspace."""
    if call.arguments in (("--version",), ("-version",), ("--help",), ("-h",)):
        return LOOKS
    if call.flag("-shellcheck", "-pyflakes", "--shellcheck", "-o", "--output-file") or any(
        UNKNOWN in argument for argument in call.arguments
    ):
        return ask("runs another program")
    for argument in call.arguments:
        place = argument.partition("=")[2] if argument.startswith("-") else argument
        if place.startswith(("/", "..", "~")) and not call.ground.inside(call.path(place)):
            return ask("works outside of the workspace")
    return BUILDS if call.inside else ask("works outside of the workspace")


_ALEMBIC = Verbs(
    harmless="history|current|heads|show|branches|check|revision|list_templates",
    reason="runs the settings of the project, as its tests do",
    effects=(("upgrade|downgrade|stamp|merge|edit|init", "changes a database, or may do so"),),
    dangerous=words("-c --config -x --sql"),
    inside=True,
)


def alembic(call: Call) -> Opinion:
    """alembic: with `--sql` the steps are only printed."""
    if call.arguments[:1] in (("upgrade",), ("downgrade",)) and call.arguments[-1:] == ("--sql",):
        return _ALEMBIC(replace(call, arguments=("history",)))
    return _ALEMBIC(call)


_FLASK = Verbs(
    harmless="routes",
    reason="runs the settings of the project, as its tests do",
    valued=words("--app -A"),
    otherwise="starts or changes a server",
    dangerous=words("--env-file -e"),
    bare=False,
    inside=True,
)
_WASM_PACK = Verbs(
    harmless="build|test",
    reason=_TESTS,
    effects=(("publish|login|pack|new", "publishes, or uses the account at the registry"),),
    inside=True,
)
_HUGO = Verbs(
    harmless=r"server|serve|list|version|env|config|new|mod (?:graph|verify)|gen",
    reason=_TESTS,
    effects=(("deploy|mod|import", "reaches the network"),),
    dangerous=words("--bind -d --destination --config --configDir -c --contentDir --cacheDir"),
    inside=True,
)
_SITES = Verbs(
    harmless="build|serve|server|test|check|clean|init|new|doctor",
    reason=_TESTS,
    effects=(("deploy|publish", "may reach beyond the workspace"),),
    dangerous=words("-d --dest-dir --destination --host --hostname -H -n --interface --config -c"),
    bare=False,
    inside=True,
)


def jekyll(call: Call) -> Opinion:
    """jekyll: pages are made from and into folders of the workspace."""
    arguments = list(call.arguments)
    for option in ("-d", "--destination", "-s", "--source"):
        if option in arguments[:-1]:
            at = arguments.index(option)
            if opinion := call.changed([arguments[at + 1]]):
                return opinion
            if absolute(call.path(arguments[at + 1])) == absolute(call.cwd):
                return ask("empties the folder it writes to")
            del arguments[at : at + 2]
    return _SITES(replace(call, arguments=tuple(arguments)))


_DIRENV = Verbs(
    harmless="status|version|help",
    reason="only looks",
    otherwise="runs a script of the project in this shell",
)


def flask(call: Call) -> Opinion:
    """flask: listing routes loads the application of the project."""
    app = call.value("A", "app")
    if app is not None and (UNKNOWN in app or not call.ground.inside(call.path(app.partition(":")[0]))):
        return ask("takes an application from elsewhere")
    opinion = servers.flask_server(call)
    return _FLASK(call) if opinion is None else opinion


def act(call: Call) -> Opinion:
    """act: running CI at home starts containers; listing does not."""
    lists = call.flag("-l", "--list", "-g", "--graph", "-n", "--dryrun", "--version", "--help")
    return LOOKS if lists else ask("starts containers")


def audits(call: Call) -> Opinion:
    """pip-audit: compares what is installed with known faults."""
    if call.may_mean("--fix", "--index-url", "--extra-index-url", "--output", "--require-hashes"):
        return ask("changes packages, or asks elsewhere")
    return BUILDS if call.inside and not call.flag("-o") else ask("works outside of the workspace")


def compiles_requirements(call: Call) -> Opinion:
    """pip-compile: writes down the versions of what the project lists."""
    if call.flag("--version", "--help"):
        return LOOKS
    if call.may_mean(
        "--index-url", "--extra-index-url", "--find-links", "--pip-args", "--config", "--trusted-host"
    ):
        return ask("takes packages from elsewhere")
    if call.flag("-i", "-f") or call.unsure or not call.inside:
        return ask("takes packages from elsewhere")
    sources = call.operands("oP")
    if not all(call.ground.inside(call.path(source)) for source in sources):
        return ask("works outside of the workspace")
    output = call.value("o", "output-file")
    return (call.changed([output]) if output and output != "-" else None) or BUILDS


def inventory(call: Call) -> Opinion:
    """ansible-inventory: an inventory may be a program, so only files that cannot be started."""
    places = [call.value("i", "inventory")]
    plain = all(place and re.search(r"\.(?:ya?ml|ini)$|hosts$", place) for place in places)
    near = all(place and call.ground.inside(call.path(place)) for place in places)
    return (
        LOOKS if plain and near and not call.flag("--vault-password-file", "--output") else ask(RUNS_PROJECT)
    )


RULES: dict[str, Rule] = (
    dict.fromkeys(
        words(
            "actionlint vale typos alex write-good proselint pylama refurb pyroma "
            "check-manifest interrogate deptry lint-imports import-linter ty rumdl dotenv-linter "
            "kubeconform kubeval kube-linter checkov tfsec cfn-lint gitlint swagger-cli gitleaks "
            "cmake-format cmake-lint reuse editorconfig-checker lizard radon xenon"
        ),
        checks,
    )
    | dict.fromkeys(("clj", "clojure"), clojure)
    | {
        "lein": _LEIN,
        "rebar3": _REBAR,
        "crystal": _CRYSTAL,
        "nim": nim,
        "buf": _BUF,
        "openapi-generator": _OPENAPI,
        "openapi-generator-cli": _OPENAPI,
        "gleam": _ELM_LIKE,
        "nix": nix,
        "ansible-inventory": inventory,
        "alembic": alembic,
        "flask": flask,
        "hugo": _HUGO,
        **dict.fromkeys(("mdbook", "zola"), _SITES),
        "jekyll": jekyll,
        "wasm-pack": _WASM_PACK,
        "direnv": _DIRENV,
        "act": act,
        "pip-audit": audits,
        "pg_isready": lambda call: LOOKS,
        "pip-compile": compiles_requirements,
    }
)
