"""Compilers, linters and test runners: plain work as long as they stay in the workspace."""

from __future__ import annotations

import re

from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, ask, fine
from agent.safety.commands.ground import TEMPORARY
from agent.safety.shell.marks import UNKNOWN, words

BUILDS = fine("builds or tests the project")
OUTWARD = re.compile(
    r".*(?:deploy|publish|release|upload|push|install|destroy|prod(?:uction)?$|migrate|rollback"
    r"|provision|drop|nuke|wipe|seed"
    r"|distclean|purge|db:(?:reset|setup|truncat|schema:load|structure:load|fixtures)).*",
    re.IGNORECASE,
)

CHECKERS = words(
    "pytest py.test tox nox ruff black isort flake8 pylint mypy pyright basedpyright pyflakes "
    "pycodestyle pydocstyle "
    "bandit vulture autopep8 autoflake pyupgrade yapf "
    " coverage tsc eslint prettier jest vitest mocha ava biome oxlint "
    "stylelint karma c8 nyc "
    "gcc g++ cc c++ clang clang++ ld as javac kotlinc scalac rustc rustfmt gofmt goimports "
    "golangci-lint staticcheck "
    "clang-format clang-tidy cppcheck ctest meson ninja ant checkstyle ktlint detekt swiftformat swiftlint "
    "rspec rubocop standardrb phpunit phpcs phpcbf php-cs-fixer phpstan psalm "
    " pint ghc ocamlc dune protoc thrift "
    "esbuild rollup webpack parcel swc tsup svelte-check turbo nx gulp grunt "
    "doxygen sphinx-build mkdocs jsdoc typedoc pdflatex xelatex latexmk pandoc dot plantuml ansible-lint "
    "tflint behave hypothesis bats shfmt sqlfluff taplo dprint deadcode knip depcheck "
    "sass vue-tsc cspell markdownlint-cli2 publint attw size-limit madge depcruise tailwindcss commitlint "
    "tsd "
    "pest pyproject-build "
    "simple-phpunit oxfmt swift-format codespell "
    "valgrind gprof gcov lcov genhtml luacheck stylua busted elm hlint ormolu hlint"
)
"""Compilers, test runners and linters."""

# Options that load code or run a program from elsewhere, or write elsewhere.
_COMPILER_RUNS = words(
    "-wrapper -fplugin -specs --specs -Xclang -Xlinker -fpass-plugin -fprofile-generate --ld-path -load"
)
_RUNNER_OPTIONS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++"), _COMPILER_RUNS),
    "ld": words("-plugin --plugin"),
    "ghc": words("-e -F -pgmF -pgmP -pgmL -pgmc -pgmlc -fplugin"),
    "javac": words("-processorpath --processor-path -processor"),
    "pandoc": words("--filter -F --lua-filter -L --pdf-engine"),
    "pdflatex": words("-shell-escape --shell-escape"),
    "xelatex": words("-shell-escape --shell-escape"),
    "latexmk": words("-shell-escape -e -pdflatex -latex"),
    "protoc": words("--plugin"),
    "rustc": words("-Clinker"),
    "pylint": words("--init-hook"),
    "ctest": words("-S -SP --script --script-new-process --build-and-test --test-command"),
    "rubocop": words("-r --require --plugin"),
    "pytest": words("--pyargs -c --config-file"),
    "py.test": words("--pyargs -c --config-file"),
}
_PROGRAM_OPTIONS = re.compile(
    r"-B.+|-J.*|-Wl,.*plugin.*|-fuse-ld=.*/.*|-fplugin.*|-Zcodegen.*|linker=.*|-Clinker.*|-pgm.*|@.+"
)
"""Options that name a program, a plugin or a file of more options, with their value glued to them."""
_GLUED = words("gcc g++ cc c++ clang clang++ ld javac rustc ghc")


_OUTSIDE_VALUE = re.compile(r"--?[\w.-]+=(?=[/~]|\.\.)(?!/usr/|/dev/|/opt/homebrew/)(.*)")


def _settings_outside(call: Call) -> bool:
    """Whether an option names a file or folder outside, which may hold settings or code."""
    return any(
        not (call.ground.inside(path) or call.ground.private(path) or _is_output(match[0], path))
        for argument in call.arguments
        if (match := _OUTSIDE_VALUE.fullmatch(argument)) and (path := call.path(match[1]))
    )


def _is_output(option: str, path: str) -> bool:
    """Whether an option says where results go, in a folder for temporary files."""
    names = r"--?(?!-?(?:rootdir|conf))[\w.-]*(?:out|xml|log|report|cache|basetemp|prefix|dir|cov)[\w.-]*="
    return re.match(names, option) is not None and path.startswith(tuple(f"{place}/" for place in TEMPORARY))


def _covered(call: Call) -> Opinion:
    """coverage, c8 and nyc run what follows them: tests are plain work."""
    rest = call.operands() if call.name != "coverage" else call.operands()[1:]
    if call.name == "coverage" and call.operands()[:1] != ["run"]:
        return BUILDS
    started = (rest or [""])[0]
    module = call.value("m", "module") if call.name == "coverage" else None
    if started in CHECKERS or module in ("pytest", "unittest") or started in ("npm", "report", "npx"):
        return BUILDS
    return ask(RUNS_PROJECT)


_HARMLESS_INI = re.compile(
    r"(?:log_\w+|junit_\w+|console_output_style|xfail_strict|markers|filterwarnings|asyncio_\w+|timeout\w*"
    r"|testpaths|norecursedirs|verbosity_\w+|truncation_\w+|faulthandler_\w+|cache_dir|empty_parameter_set_mark"
    r"|addopts)=(?![^=]*-[pco])[^$`/]*"
)


def _overrides(call: Call) -> bool:
    """Whether an option sets more than how tests are chosen and shown."""
    given = iter(call.arguments)
    for argument in given:
        if argument == "-o" or (argument.startswith("--ov") and "=" not in argument):
            text = next(given, "")
        elif argument.startswith("--ov"):
            text = argument.partition("=")[2]
        elif re.match(r"-o.", argument):
            text = argument[2:]
        else:
            continue
        if not _HARMLESS_INI.fullmatch(text):
            return True
    return False


_STARTERS = words("coverage c8 nyc valgrind gprof")
"""Programs whose operands are the command line of another."""
_TYPESETTERS = words("pdflatex xelatex lualatex latexmk")
_RUNNERS = words("ninja ant meson gulp grunt nx turbo dune tox nox")


def check(call: Call) -> Opinion:
    """A compiler, linter or test runner: what it reads and what it writes lies in the workspace."""
    if call.tells("--version", "-V", "--help") and (
        call.name not in _STARTERS or call.arguments[0].startswith("-")
    ):
        return fine("only looks")
    if call.flag(*_RUNNER_OPTIONS.get(call.name, ())):
        return ask("runs another program")
    if call.name in _GLUED and any(_PROGRAM_OPTIONS.fullmatch(argument) for argument in call.arguments):
        return ask("runs another program")
    if call.name in _RUNNERS:
        if any(OUTWARD.fullmatch(operand) for operand in call.operands()):
            return ask("runs a task that may reach beyond the workspace")
        if call.operands()[:1] == ["exec"]:
            return ask(RUNS_PROJECT)
    if call.name in ("coverage", "c8", "nyc") and (opinion := _covered(call)):
        return opinion
    if call.name in _TYPESETTERS and any("write18" in a or a.startswith("\\") for a in call.arguments):
        return ask("runs a text of TeX, which may start programs")
    if call.name == "pandoc" and any("://" in argument for argument in call.arguments):
        return ask("reaches the network")
    if any(re.match(r"@(?:/|~|\.)", argument) for argument in call.arguments):
        return ask("takes options from a file")
    if call.name not in _GLUED and _settings_outside(call):
        return ask("takes settings or code from outside of the workspace")
    if (call.value("", "config") or "").lstrip().startswith("{"):
        return ask("is given settings as text, which may name programs")
    if not (call.inside or call.ground.private(call.cwd)):
        return ask("works outside of the workspace")
    if any(UNKNOWN in argument and argument.startswith("-") for argument in call.arguments):
        return ask("is given options that are not known here")
    if call.name in ("pytest", "py.test") and _overrides(call):
        return ask("sets what the tests load or run")
    plugin = call.value("p") if call.name in ("pytest", "py.test") else None
    if plugin and not plugin.startswith(("no:", "xdist", "cov")):
        return ask("loads a plugin into the tests")
    for operand in call.operands():
        path = call.path(operand)
        if operand.startswith(("/", "..")) and not (call.ground.inside(path) or call.ground.private(path)):
            return ask("works outside of the workspace")
    for option in (
        "o",
        "output",
        "outdir",
        "out-dir",
        "outfile",
        "outDir",
        "junitxml",
        "basetemp",
        "rootdir",
        "log-file",
    ):
        if (path := call.value("o" if option == "o" else "", option)) and (opinion := call.changed([path])):
            return opinion
    return BUILDS
