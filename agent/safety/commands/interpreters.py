"""Interpreters of other languages: programs given as text, as modules and as files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agent.safety.commands import (
    node_code,
    perl_code,
    python_code,
    python_files,
    servers,
    services,
    small_code,
    toolchains,
)
from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, Rule, ask, fine, runs, runs_text
from agent.safety.commands.checkers import BUILDS, CHECKERS, check
from agent.safety.commands.frameworks import ARTISAN, manage
from agent.safety.places import absolute
from agent.safety.shell.marks import UNKNOWN, literal, words

LOOKS = fine("only looks")
COMPUTES = fine("only computes and prints")
OUTSIDE = "runs a program from outside of the workspace"

_BUILD_MODULES = words(
    "pytest unittest compileall build doctest py_compile mypy ruff black isort flake8 pylint pyright "
    "coverage tox nox json.tool "
    "tabnanny tokenize ast dis this calendar platform sysconfig site bandit vulture pyflakes "
    "pycodestyle pydocstyle yapf autopep8 sphinx mkdocs behave nose nose2 ty"
)


def python(call: Call) -> Opinion:
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument in ("--version", "-V", "-VV", "--help", "-h"):
            return LOOKS
        if argument in ("-W", "-X"):
            arguments[:1] = []
        elif match := re.fullmatch(r"-([bBdEIOPqsSuvxi]*)c(.*)", argument, re.DOTALL):
            return _python_text(match[2] or (arguments[0] if arguments else ""), call, arguments[1:])
        elif match := re.fullmatch(r"-([bBdEIOPqsSuvx]*)m(.*)", argument):
            module = match[2] or (arguments.pop(0) if arguments else "")
            return _module(call, module, arguments)
        elif re.fullmatch(r"-[bBdEIOPqsSuvx]+|-X\S+|-W\S+", argument):
            pass
        elif argument == "-":
            return _python_input(call)
        elif argument.startswith("-") or UNKNOWN in argument:
            return ask("runs a Python program that is not known here")
        else:
            return _file(call, argument, arguments)
    return _python_input(call)


def ipython(call: Call) -> Opinion:
    """ipython: a text is judged as Python is; anything else opens a console."""
    if call.arguments in (("--version",), ("-V",), ("--help",)):
        return LOOKS
    text = call.arguments[:1] == ("-c",) and len(call.arguments) == 2
    return _python_text(call.arguments[1], call, []) if text else ask("opens a console")


def _python_input(call: Call) -> Opinion:
    reason = "runs a Python program from its input"
    if call.stdin is None or not call.stdin:
        return ask(reason)
    opinions = [_python_program(text, call, [], reason) for text in call.stdin]
    return next(filter(None, opinions), opinions[0])


def _python_text(code: str, call: Call, rest: list[str]) -> Opinion:
    return _python_program(code, call, rest, "runs a Python program given as text")


def _python_program(code: str, call: Call, rest: list[str], reason: str) -> Opinion:
    if UNKNOWN in code or not python_code.is_harmless(literal(code)):
        return runs_text(code, "python", reason, rest)
    if python_files.stands_in_for_library(call.named):
        return ask(reason)
    for package in python_code.packages(literal(code)):
        path = Path(call.path(package))
        if path.exists() or path.with_suffix(".py").exists() or f"{package}.py" in call.named:
            return runs_text(code, "python", reason, rest)
    return call.revealed([argument for argument in rest if not argument.startswith("-")]) or COMPUTES


def _module(call: Call, module: str, rest: list[str]) -> Opinion:
    inner = replace(call, arguments=tuple(rest), name=module)
    if module in ("pip", "pip3"):
        return services.RULES["pip"](inner)
    if module in ("venv", "virtualenv"):
        return call.changed([a for a in rest if not a.startswith("-")]) or fine("makes a Python environment")
    if module == "http.server":
        return _serves(inner)
    if module in ("pdb", "cProfile", "timeit") and inner.arguments in (("--help",), ("-h",)):
        return LOOKS
    if module == "timeit":
        codes = [
            a for a in rest if not re.fullmatch(r"-[nrpvu]+\d*|-s|--setup|\d+|--\w+(?:=\w+)?|[mun]?sec", a)
        ]
        code = "\n".join(codes)  # they share their names
        harmless = UNKNOWN not in code and python_code.is_harmless(literal(code))
        return COMPUTES if harmless else ask("runs a Python program given as text")
    if module in ("cProfile", "profile") and (script := _profiled(rest)):
        return _file(replace(call, name="python"), script[0], script[1:])
    if module in ("flask", "alembic", "uvicorn", "gunicorn", "hypercorn"):
        return (toolchains.RULES | servers.RULES)[module](inner)
    if module == "cProfile" and (inner_module := _after_profile(rest)) is not None:
        return _module(call, inner_module[0], inner_module[1:])
    if module == "json.tool":
        operands = inner.operands()
        return call.revealed(operands[:1]) or call.changed(operands[1:2]) or COMPUTES
    if module in _BUILD_MODULES:
        return check(inner)
    if not call.inside:
        return ask(OUTSIDE)
    if module == "pydoc" and rest and all(each.partition(".")[0] in sys.stdlib_module_names for each in rest):
        return LOOKS
    file = _module_file(call, module)
    return ask(RUNS_PROJECT) if file is None else runs(file, "python", rest)


def _module_file(call: Call, module: str) -> str | None:
    """The file of the project that `python -m` runs; None when there is none."""
    if not re.fullmatch(r"\w+(?:\.\w+)*", module):
        return None
    place = module.replace(".", "/")
    files = (f"{place}/__main__.py", f"{place}.py")
    found = next((file for file in files if Path(call.path(file)).is_file()), None)
    return files[1] if found is None and _OF_PROJECT.match(module) else found


_OF_PROJECT = re.compile(
    r"(?:src|app|apps|scripts?|tools?|backend|server|benchmarks?|examples?|tests?|utils?|lib)\."
)
"""Folders of projects: a module below one of them is none that was installed."""


def _serves(call: Call) -> Opinion:
    """http.server: showing files of the workspace to this machine only."""
    place = call.value("b", "bind")
    folder = call.value("d", "directory") or "."
    local = place in ("127.0.0.1", "localhost", "::1") and not call.has("", "cgi")
    if not local or not call.ground.inside(call.path(folder)) or call.unsure:
        return ask("opens files to the network")
    return fine("shows files of the workspace to this machine")


def _after_profile(rest: list[str]) -> list[str] | None:
    """The module and its arguments behind `cProfile -s cumtime -m`; None when it runs something else."""
    at = 0
    while at + 1 < len(rest) and rest[at] == "-s":
        at += 2
    return rest[at + 1 :] if rest[at : at + 1] == ["-m"] and len(rest) > at + 1 else None


def _profiled(rest: list[str]) -> list[str]:
    """The script and its arguments behind `cProfile -s cumtime`; empty when it runs something else."""
    at = 0
    while at + 1 < len(rest) and rest[at] == "-s":
        at += 2
    plain = at < len(rest) and re.fullmatch(r"[\w./]+\.py", rest[at])
    return rest[at:] if plain else []


def _file(call: Call, path: str, given: Sequence[str] = ()) -> Opinion:
    full = call.path(path)
    name = path.rpartition("/")[2]
    if call.ground.inside(full) and name in ("manage.py", "artisan") and name not in call.named and given:
        rule = manage if name == "manage.py" else ARTISAN
        return rule(replace(call, name=name, word=name, arguments=tuple(given)))
    if call.ground.inside(full) and re.fullmatch(r"(?:\./)?vendor/bin/\w+", path) and name in CHECKERS:
        return check(replace(call, name=name, word=name, arguments=tuple(given)))
    if call.ground.inside(full):
        return runs(path, "python" if call.name.startswith(("python", "pypy")) else call.name, given)
    # What this very command wrote there is read.
    language = "node" if call.name == "node" else "python" if call.name.startswith(("python", "pypy")) else ""
    return runs(path, language, given) if language and absolute(full) in call.held else ask(OUTSIDE)


_NODE_FLAGS = re.compile(
    r"--(?:trace-warnings|no-warnings|enable-source-maps|trace-deprecation|trace-uncaught|expose-gc"
    r"|allow-natives-syntax|no-deprecation|throw-deprecation|experimental-(?:strip-types|transform-types"
    r"|vm-modules|json-modules|specifier-resolution=node|fetch|test-coverage|sqlite)"
    r"|(?:max-old-space-size|max-semi-space-size|stack-size|unhandled-rejections)=\w+)"
)
"""Options that load nothing."""
_NODE_TOOL = re.compile(r"(?:\./)?node_modules/(?:\.bin/([\w-]+)|([\w-]+)/bin/[\w./-]+)")


def node(call: Call) -> Opinion:
    """node, bun and their like."""
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument in ("--version", "-v", "--help", "-h"):
            return LOOKS
        if argument in ("--check", "-c"):
            return fine("checks a program without running it")
        if argument in ("-e", "--eval", "-p", "--print", "-pe", "-ep"):
            code = arguments[0] if arguments else ""
            harmless = UNKNOWN not in code and node_code.is_harmless(literal(code))
            reason = "runs a JavaScript program given as text"
            return COMPUTES if harmless else runs_text(code, "node", reason, arguments[1:])
        if re.fullmatch(r"--input-type=\w+", argument):
            continue
        if argument == "-":
            break
        if argument == "--test":
            return fine("builds or tests the project") if call.inside else ask(OUTSIDE)
        if _NODE_FLAGS.fullmatch(argument):
            continue
        if (tool := _NODE_TOOL.fullmatch(argument)) and (tool[1] or tool[2]) in CHECKERS:
            name = tool[1] or tool[2]
            return check(replace(call, name=name, word=name, arguments=tuple(arguments)))
        if argument.startswith("-") or UNKNOWN in argument:
            return ask("runs a JavaScript program with options that may load others")
        return _file(replace(call, name="node"), argument, arguments)
    reason = "runs a JavaScript program from its input"
    if call.stdin is None or len(call.stdin) != 1:
        return ask(reason)
    return runs_text(call.stdin[0], "node", reason, arguments)


def perl(call: Call) -> Opinion:
    """perl: programs that only compute, edit lines and print."""
    arguments = list(call.arguments)
    if arguments in (["-v"], ["--version"], ["-V"]):
        return LOOKS
    codes: list[str] = []
    in_place = False
    letters = ""
    files: list[str] = []
    while arguments:
        argument = arguments.pop(0)
        if argument.startswith("-"):
            letters += argument.partition("i")[0]
        if match := re.fullmatch(r"-[alnpw0]*(?:0?777)?[alnpw0]*(i(?:\.\w+)?)?[alnpw0]*[eE]", argument):
            in_place |= match[1] is not None
            codes.append(arguments.pop(0) if arguments else "")
        elif match := re.fullmatch(r"-[alnpw0]*(?:0?777)?[alnpw0]*(i(?:\.\w+)?)?", argument):
            in_place |= match[1] is not None
        elif re.fullmatch(r"-F[^\s@$]{1,5}", argument):
            pass
        elif argument in ("-c", "-wc", "-cw"):
            checked = arguments[0] if len(arguments) == 1 else ""
            if checked and UNKNOWN not in checked and call.ground.inside(call.path(checked)):
                return runs(checked, "perl")
            return ask("runs parts of a Perl program while it checks it")
        elif argument.startswith("-"):
            return ask(
                "runs a Perl program given as text" if "e" in argument.lower() else "runs a Perl program"
            )
        else:
            files.append(argument)
    if not codes:
        return (
            _file(call, files[0])
            if files and UNKNOWN not in files[0]
            else ask("runs a Perl program from its input")
        )
    if not all(UNKNOWN not in code and perl_code.is_harmless(literal(code)) for code in codes):
        return ask("runs a Perl program given as text")
    if any(re.match(r"\s*[|<>]|.*\|\s*$", literal(file)) for file in files):
        return ask("runs another program")
    if in_place and any(map(_EMPTIES.search, codes)):
        return ask("destroys the contents of files")
    if in_place and any("/" in a for a in call.arguments if re.match(r"-[alnpw0]*i", a)):
        return ask("keeps copies outside of the folder of the files")
    silent = "n" in letters and not any(re.search(r"\b(?:print|say)", literal(code)) for code in codes)
    if in_place and silent and "p" not in letters:
        return ask("destroys the contents of files")
    if in_place:
        return call.changed(files) or fine("changes files of the workspace")
    return call.revealed(files) or fine("edits text")


_EMPTIES = re.compile(r"\bs(\W)(?:\^?\.[*+]\$?)\1\1|\$_\s*=\s*(?:''|\"\"|undef)|\bundef\s*\(?\$_")
"""Code that leaves nothing of a line."""
_RUBY_TEXT = re.compile(
    r"(?:puts|print|p)\s+(?:RUBY_\w+|\$_(?:\s+(?:if|unless)\s+(?:\$_\s*=~\s*)?/[^/#`\\]*/i?)?"
    r"|[\d\s.+*/%()-]+|'[^'\\]*')\s*"
)


def _ruby_text(call: Call) -> tuple[Opinion, ...]:
    """The opinion on a one-line Ruby program that only prints; empty when it does more."""
    if not call.arguments or not re.fullmatch(r"-[nl]*e", call.arguments[0]) or len(call.arguments) < 2:
        return ()
    code, *files = call.arguments[1:]
    odd = any(file.startswith(("-", "|")) or UNKNOWN in file for file in files)
    if odd or UNKNOWN in code or not _RUBY_TEXT.fullmatch(literal(code)):
        return ()
    return (call.revealed(files) or COMPUTES,)


_SMALL = {"Ruby": small_code.RUBY, "PHP": small_code.PHP, "R": small_code.R}
_QUIET = re.compile(r"--(?:vanilla|no-save|no-restore|quiet|slave|silent|no-echo|no-init-file)|-q|-s")


def _small_program(language: str, call: Call) -> Opinion | None:
    """The opinion on texts of Ruby, PHP and R that only compute, read plain files or test; None otherwise."""
    known = _SMALL.get(language)
    if known is None or call.unsure:
        return None
    files: list[str] = []
    arguments = list(call.arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument == ("-r" if language == "PHP" else "-e") and arguments:
            code = literal(arguments.pop(0))
            places = small_code.works_on_package(code) if language == "R" else None
            if places is not None:
                near = all(call.ground.inside(call.path(place)) for place in places)
                return BUILDS if call.inside and near and not arguments else None
            read = small_code.files_read(code, known)
            if read is None:
                return None
            files += read
        elif not (_QUIET if language == "R" else small_code.REQUIRED).fullmatch(argument):
            return None
    return call.revealed(files) or COMPUTES


def r_tool(call: Call) -> Opinion:
    """R: `R CMD build` and `R CMD check` of a package in the workspace; else as Rscript."""
    if call.arguments[:1] != ("CMD",):
        return _other("R", "-e")(call)
    places = [word for word in call.arguments[2:] if not word.startswith("-")]
    plain = all(_R_OPTIONS.fullmatch(word) for word in call.arguments[2:] if word.startswith("-"))
    own = call.inside and bool(places) and all(call.ground.inside(call.path(place)) for place in places)
    builds = call.arguments[1:2] in (("build",), ("check",)) and plain and own and not call.unsure
    return BUILDS if builds else ask("runs or installs programs of R")


_R_OPTIONS = re.compile(
    r"--(?:no-manual|no-build-vignettes|no-vignettes|as-cran|no-tests|no-examples|no-codoc|compact-vignettes|md5)"
)
_PHP_VALUE = (
    r"(?:PHP_(?:VERSION|EOL|OS|OS_FAMILY|INT_MAX|INT_SIZE|MAJOR_VERSION|MINOR_VERSION|SAPI|BINARY)"
    r"|'[^'\\\\$]*'"
    r"|\"[^\"\\\\$]*\"|\"\\\\n\"|[\d.]+|[-+*/%.,\s]|phpversion\(\)|time\(\)|date\('[^'$]*'\)"
    r"|(?:extension_loaded|function_exists|class_exists|ini_get)\(['\"]\w+['\"]\))+"
)
_PRINTING = {
    "PHP": re.compile(rf"\s*(?:(?:echo|print)\b|var_dump\(){_PHP_VALUE}\)?;?\s*"),
    "R": re.compile(
        r"(?:sessionInfo\(\)|R\.version(?:\.string|\$\w+)?|(?:cat|print)\((?:R\.version\.string"
        r"|[\d\s.+*/:-]+|'[^'\\\\]*')\)"
        r"|packageVersion\(['\"][\w.]+['\"]\)|rownames\(installed\.packages\(\)\)|\.libPaths\(\)"
        r"|[\d\s.+*/-]+)"
    ),
}
"""Programs of one line that only print what the language knows of itself."""


def _java_class(call: Call) -> Opinion | None:
    """The opinion on `java -cp FOLDERS Class`, whose folders lie in the workspace; None for all else."""
    arguments = call.arguments
    if len(arguments) < 3 or arguments[0] not in ("-cp", "-classpath", "--class-path"):
        return None
    if UNKNOWN in arguments[1] or not re.fullmatch(r"\w+(?:\.\w+)*", arguments[2]):
        return None
    places = [place.removesuffix("*") or "." for place in arguments[1].split(":")]
    if not all(call.ground.inside(call.path(place)) for place in places):
        return ask(OUTSIDE)
    return runs(f"{places[0]}/{arguments[2].replace('.', '/')}.class", "java", arguments[3:])


_JAVA_LOADS = re.compile(
    r"-(?:javaagent|agentpath|agentlib)[:=]|-Xbootclasspath|--patch-module|-XX:(?:OnError|OnOutOfMemoryError|Flags)|@"
)
_PHP_SETTING = re.compile(
    r"(?:memory_limit|max_execution_time|display_errors|error_reporting|xdebug\.mode|opcache\.enable(?:_cli)?"
    r"|zend\.assertions|date\.timezone)=[\w-]*"
)


def _without_settings(call: Call) -> Call | None:
    """A call of PHP without settings that load nothing; None when there are none at its beginning."""
    given = call.arguments
    if len(given) > 2 and given[0] == "-d" and _PHP_SETTING.fullmatch(given[1]):
        return replace(call, arguments=tuple(given[2:]))
    if len(given) > 1 and given[0].startswith("-d") and _PHP_SETTING.fullmatch(given[0][2:]):
        return replace(call, arguments=tuple(given[1:]))
    return None


_CHECKS_ONLY = (("-l",), ("-c",), ("-wc",), ("-cw",), ("--syntax-check",))


def _other(language: str, *text_options: str) -> Callable[[Call], Opinion]:
    def rule(call: Call) -> Opinion:
        if call.arguments in (("--version",), ("-v",), ("-version",), ("-V",), ("--help",)):
            return LOOKS
        if call.name == "java" and any(map(_JAVA_LOADS.match, call.arguments)):
            return ask("loads code into the program it starts")
        if call.name == "java" and (opinion := _java_class(call)) is not None:
            return opinion
        if (
            call.arguments[:1] in _CHECKS_ONLY
            and language in ("PHP", "Ruby")
            and not call.flag(*text_options)
        ):
            operands = call.operands()
            return (
                fine("checks a program without running it")
                if operands
                else ask(f"runs a {language} program from its input")
            )
        settings = language == "PHP" and _without_settings(call)
        if settings:
            return rule(settings)
        if call.flag(*text_options) or any(
            re.match(rf"-[a-zA-Z]*{option[1:]}", a)
            for a in call.arguments
            for option in text_options
            if len(option) == 2
        ):
            if language == "Ruby" and (opinion := _ruby_text(call)):
                return opinion[0]
            if (small := _small_program(language, call)) is not None:
                return small
            if call.arguments[0] in ("-r", "-e") and len(call.arguments) == 2:
                expression = _PRINTING.get(language)
                if expression is not None and expression.fullmatch(literal(call.arguments[1])):
                    return COMPUTES
            return ask(f"runs a {language} program given as text")
        operands = call.operands()
        if language == "PHP" and call.arguments in (("-m",), ("-i",), ("--ini",)):
            return LOOKS
        if not operands or operands[0] in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
            return ask(f"runs a {language} program from its input")
        return (
            _file(call, operands[0], call.arguments[call.arguments.index(operands[0]) + 1 :])
            if UNKNOWN not in operands[0]
            else ask(f"runs a {language} program that is not known here")
        )

    return rule


RULES: dict[str, Rule] = (
    dict.fromkeys(("python", "python2", "python3", "pypy", "pypy3", "py"), python)
    | {f"python3.{minor}": python for minor in range(6, 20)}
    | dict.fromkeys(("node", "nodejs"), node)
    | {
        "perl": perl,
        "ruby": _other("Ruby", "-e", "-r"),
        "php": _other("PHP", "-r", "-B", "-R", "-E", "-a", "-S", "-d"),
        "lua": _other("Lua", "-e", "-l"),
        "luajit": _other("Lua", "-e", "-l"),
        "Rscript": _other("R", "-e"),
        "R": r_tool,
        "julia": _other("Julia", "-e", "-E"),
        "java": _other("Java", "-javaagent"),
        "tsx": _other("TypeScript", "-e", "-p"),
        "ts-node": _other("TypeScript", "-e", "-p"),
        "groovy": _other("Groovy", "-e"),
        "elixir": _other("Elixir", "-e"),
        "iex": lambda call: LOOKS if call.arguments in (("--version",), ("-v",)) else ask("opens a console"),
        "ipython": ipython,
        "ipython3": ipython,
        "erl": _other("Erlang", "-eval"),
        "guile": _other("Scheme", "-c"),
        "racket": _other("Racket", "-e"),
        "tclsh": _other("Tcl"),
        "expect": _other("Tcl", "-c"),
        "osascript": _other("AppleScript", "-e"),
        "pwsh": _other("PowerShell", "-c", "-Command", "-EncodedCommand", "-e"),
        "powershell": _other("PowerShell", "-c", "-Command", "-EncodedCommand", "-e"),
    }
)
