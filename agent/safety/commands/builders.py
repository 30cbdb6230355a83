"""Building, testing and checking: plain work inside the workspace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from agent.safety.commands import declared, maven_settings, node_tools
from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, Rule, ask, fine, runs
from agent.safety.commands.checkers import BUILDS, CHECKERS, OUTWARD, check
from agent.safety.commands.declared import INSTALLS
from agent.safety.commands.environment import variable
from agent.safety.commands.frameworks import ARTISAN
from agent.safety.commands.verbs import Verbs
from agent.safety.shell.marks import UNKNOWN, literal, words


def make(call: Call) -> Opinion:
    """make: targets that build or test. Variables that name programs, and makefiles from elsewhere, ask."""
    clustered = any(re.fullmatch(r"-[a-zA-Z]+[fCEI].*", option) for option in call.options())
    if (
        clustered
        or call.flag("--eval", "-E", "-I", "--include-dir", "-f-")
        or (call.value("f", "file", "makefile") or "").startswith(("-", "/dev/", UNKNOWN))
    ):
        return ask("runs a makefile that is not known here")
    places = [call.value("C", "directory"), call.value("f", "file", "makefile")]
    cwd = call.cwd
    dry = call.flag("-n", "--dry-run", "--just-print", "--recon")
    stage = next((a.partition("=")[2] for a in call.arguments if a.startswith("DESTDIR=")), "")
    staged = stage.startswith("/") and call.ground.below(stage)
    for place in places:
        if place and not call.ground.inside(call.path(place)):
            return ask("works outside of the workspace")
    if not call.ground.inside(cwd):
        return ask("works outside of the workspace")
    for operand in call.operands("CfIjlo"):
        name, equals, value = operand.partition("=")
        if UNKNOWN in operand:
            return ask("makes a target that is not known here")
        if equals and (opinion := variable(name, [value], call.ground.inside)):
            return opinion
        if equals and (
            re.fullmatch(r"SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKE|PATH|BASH_ENV|LD_PRELOAD", name)
            or re.search(r"[$`(;|&]", value)
        ):
            return ask("sets a variable of the makefile that may run a program")
        if dry:
            continue
        if not equals and OUTWARD.fullmatch(operand) and not (operand == "install" and staged):
            return ask(f"makes {literal(operand)}, which may reach beyond the workspace")
    return BUILDS


def task(call: Call) -> Opinion:
    """just, task, rake, gradle, mvn: named tasks of the project."""
    if call.flag(*_OTHER_TASKS):
        return ask("runs tasks from another file")
    if call.flag(*_ELSEWHERE.get(call.name, ())):
        return ask("runs tasks from another file")
    if call.name == "rake" and any(map(_RAKE_RUNS.match, call.options())):
        return ask("runs a program of Ruby given as text")
    if call.name == "task" and call.operands()[:1] in (["execute"], ["exec"]):
        return ask("runs another program")
    if call.name in _MAVEN and maven_settings.speaks_against(call):
        return ask("takes settings that were not read")
    if any(_JVM_SETTINGS.match(a) for a in call.arguments) or (
        call.name == "sbt"
        and any(re.search(r"\b(?:eval|set|session|run\w*|console)\b", a) for a in call.arguments)
    ):
        return ask("loads or runs other code")
    if call.name in _MAVEN and any(map(_FOREIGN_GOAL.fullmatch, call.operands())):
        return ask("runs a plugin that the project does not name")
    place = call.value("p", "project-dir", "include-build")
    if not call.inside or (place and not call.ground.inside(call.path(place))):
        return ask("works outside of the workspace")
    for operand in call.operands():
        name, equals, value = operand.partition("=")
        if call.name == "configure" and equals and (opinion := variable(name, [value], call.ground.inside)):
            return opinion
        if UNKNOWN in operand:
            return ask("runs a task that is not known here")
        if call.name in _JVM and _RUNS_ITSELF.fullmatch(operand):
            return _runs(call, [word for word in call.arguments if word != operand])
        if _STARTS_PROGRAM.fullmatch(operand):
            return ask(RUNS_PROJECT)
        if OUTWARD.fullmatch(operand) and operand != "install" and not _VARIANT.fullmatch(operand):
            return ask(f"runs {literal(operand)}, which may reach beyond the workspace")
    return BUILDS


_OTHER_TASKS = words(
    "-f --file -b --build-file -I --init-script --justfile -c --command --eval -e --execute "
    "--override_repository --run_under --workspace_status_command --embed_label --script_path "
    "--shell_executable --bazelrc --host_jvm_args --gradle-user-home --sbt-jar --sbt-boot -lib"
)
_RAKE_RUNS = re.compile(r"-[ABGNPXmnqstvx]*[eEpfrRI]")
_MAVEN = words("mvn mvnw mvnd")
_FOREIGN_GOAL = re.compile(
    r"(?!org\.(?:apache\.maven\.plugins|codehaus\.mojo|springframework\.boot|jacoco|owasp|openrewrite\.maven)"
    r":)[\w-]+(?:\.[\w-]+)+:[\w.-]+(?::[\w.-]+)?:[\w-]+"
)
"""A goal of a plugin by its full coordinates, of a publisher that is not known."""
_JVM = _MAVEN | words("gradle gradlew")
_VARIANT = re.compile(
    r"(?::?[\w-]+:)*(?:assemble|bundle|compile|lint|test|check|build)[A-Za-z]*Release(?:Kotlin|UnitTest)?"
)
"""Building the variant of an Android application that is called release; it is released by another task."""
_RUNS_ITSELF = re.compile(
    r"(?::?[\w-]+:)*(?:run|bootRun|quarkusDev)"
    r"|(?:spring-boot|jetty|quarkus):(?:run|dev)"
)
_ELSEWHERE: dict[str, frozenset[str]] = {
    "task": words("-t --taskfile -d --dir -g --global"),
    "just": words("-d --working-directory --dotenv-path --shell -g --global-justfile"),
    "rake": words("-r --require -R --rakelibdir --libdir -g --system --execute-print --execute-continue"),
    "invoke": words("-r --search-root --config"),
    "inv": words("-r --search-root --config"),
    "mage": words("-d -w -goos"),
    **dict.fromkeys(("gradle", "gradlew"), words("-g")),
}
_JVM_SETTINGS = re.compile(
    r"-[DP](?:maven\.(?:ext|multi|home)|org\.gradle\.(?:jvmargs|java)|exec\.|argLine|jvm|.*agent|sbt\.)"
)
_STARTS_PROGRAM = re.compile(
    r"(?::?[\w-]+:)*(?:run|bootRun|exec|java|antrun)(?:@\w+)?|exec:.*|.*exec-maven.*"
)


def go(call: Call) -> Opinion:
    if call.flag("-toolexec", "-exec", "-vettool", "-ldflags=-extld", "-C", "--exec", "-modfile", "-overlay"):
        return ask("runs another program")
    operands = call.operands()
    if any(re.search(r"(?:^|\s)-extld", argument) for argument in call.arguments):
        return ask("runs another program")
    if operands[:1] == ["run"]:
        remote = any(re.match(r"[\w-]+\.[a-z]+/|.*@", operand) for operand in operands[1:])
        if remote or not all(_is_near(call, operand) for operand in operands[1:]):
            return ask("fetches and runs a program")
        return _runs(call, operands[2:])
    if operands == ["clean"] and all(o in ("-testcache", "-cache", "-n", "-x") for o in call.options()):
        return BUILDS
    if operands[:1] == ["env"] and call.flag("-w", "-u"):
        return ask("changes settings of Go")
    output = call.value("o")
    return (call.changed([output]) if output else None) or _GO(call)


_GO = Verbs(
    harmless=r"build|test|vet|fmt|generate|list|doc|version|env|mod (?:init|tidy|verify|graph|why|download"
    r"|vendor)"
    r"|fix|tool$|tool (?:cover|nm|pprof|objdump|dist list)|help|work sync|bug|telemetry",
    reason="builds or tests the project",
    effects=(("install|get", INSTALLS),),
    inside=True,
)


def _is_near(call: Call, operand: str) -> bool:
    """Whether an operand names no place outside of the workspace."""
    return not operand.startswith(("/", "..", "~", UNKNOWN)) or call.ground.inside(call.path(operand))


RUN = fine("builds and runs the project")


def _runs(call: Call, given: Sequence[str]) -> Opinion:
    """What `cargo run` and its like start is what `cargo test` starts as well: the code of the project.

    Words that speak of more than that ask.
    """
    if any(OUTWARD.fullmatch(word) for word in given) or call.unsure:
        return ask(RUNS_PROJECT)
    return RUN if call.inside else ask("works outside of the workspace")


_TOOLCHAIN = re.compile(r"\+(?:stable|beta|nightly(?:-\d{4}-\d\d-\d\d)?|1\.\d{1,3}(?:\.\d+)?)")
"""A toolchain by its name: they all come from the same place, and one that is missing is not fetched."""


def cargo(call: Call) -> Opinion:
    if call.flag("--config", "-Z", "--manifest-path", "-C"):
        path = call.value("", "manifest-path")
        if path is None or not call.ground.inside(call.path(path)):
            return ask("takes settings or a project from elsewhere")
    if call.arguments and _TOOLCHAIN.fullmatch(call.arguments[0]):
        return cargo(replace(call, arguments=tuple(call.arguments[1:])))
    arguments = tuple(a for a in call.arguments if not a.startswith("+"))
    operands = [a for a in arguments if not a.startswith("-")]
    if operands == ["install"] and call.flag("--list"):
        return fine("only lists packages")
    if operands[:1] in (["run"], ["r"]):
        return _runs(call, operands[1:]) if len(arguments) == len(call.arguments) else ask(RUNS_PROJECT)
    if operands[:2] == ["update"] and call.flag("--dry-run"):
        return fine("only lists packages")
    if operands[:1] in (["new"], ["init"]) and call.inside and len(operands) <= 2 and not call.unsure:
        return call.changed(operands[1:]) or fine("makes a new project")
    if operands[:1] == ["rustc"] and not any(re.match(r"-C|-Z|--codegen|.*linker", a) for a in arguments):
        return BUILDS if call.inside else ask("works outside of the workspace")
    return _CARGO(call) if len(arguments) == len(call.arguments) else ask("uses another toolchain")


_CARGO = Verbs(
    harmless=r"build|b|test|t|check|c|clippy|fmt|doc|d|bench|tree|metadata|clean|nextest (?:run|list)"
    r"|version|help|search|outdated|udeps|bloat|pkgid"
    r"|llvm-lines|asm|modules|geiger|hack (?:check|test|build|clippy)|msrv"
    r"|insta (?:test|pending-snapshots|show)|fuzz (?:build|list|check)"
    r"|semver-checks|sort|spellcheck|hakari"
    r"|update|locate-project|verify-project|audit|deny|machete|llvm-cov|expand"
    r"|read-manifest|generate-lockfile",
    reason="builds or tests the project",
    effects=(
        ("install|uninstall|add|remove|rm|fetch|vendor", INSTALLS),
        ("publish|yank|login|logout|owner", "publishes, or uses the account at the registry"),
    ),
    inside=True,
)

DENO = Verbs(
    harmless=r"test|check|fmt|lint|info|doc|types|bench|task(?: [\w:.-]+)?",
    reason="builds or tests the project",
    effects=(
        ("run|eval|repl|serve|x", "runs a program"),
        ("install|add|remove|upgrade|uninstall|publish|deploy", INSTALLS),
    ),
    dangerous=words("--allow-all -A --allow-run"),
    bare=False,
    inside=True,
)


def deno(call: Call) -> Opinion:
    """deno: without rights of its own a program of the project may run like others."""
    file = call.arguments[1] if call.arguments[:1] == ("run",) and len(call.arguments) > 1 else ""
    plain = file and "://" not in file and not file.startswith("-") and UNKNOWN not in file
    if plain and call.ground.inside(call.path(file)):
        return runs(file, "deno", call.arguments[2:])
    if call.arguments[:1] == ("task",) and any(map(OUTWARD.fullmatch, call.arguments[1:])):
        return ask("runs a task that may reach beyond the workspace")
    return DENO(call)


DOTNET = Verbs(
    harmless=r"build|test|format|clean|--info|list|--list-sdks|msbuild|sln list"
    r"|pack|sln \S+ list|help|restore"
    r"|ef (?:migrations (?:list|script|has-pending-model-changes)|dbcontext (?:info|list))",
    reason="builds or tests the project",
    effects=(
        ("run|watch|exec", RUNS_PROJECT),
        ("tool|add|remove|nuget|new|publish|workload", INSTALLS),
    ),
    inside=True,
)


_REFERENCES = re.compile(
    r"(?:add|remove|list) [\w./-]+ reference [\w./ -]+|sln (?:[\w./-]+\.slnx? )?(?:add|remove) [\w./ -]+"
    r"|reference (?:add|remove) [\w./ -]+|ef migrations add \w+(?: (?:-[pso]|--project|--startup-project"
    r"|--output-dir|--context) [\w./-]+)*"
)
"""Projects that refer to each other, and steps of a database that are only written down."""
_TEMPLATES = re.compile(
    r"console|classlib|web|webapi|mvc|razor|blazor\w*|worker|xunit|nunit|mstest|sln|gitignore|editorconfig"
    r"|globaljson|tool-manifest"
)


def dotnet(call: Call) -> Opinion:
    """Projects of the workspace, with properties that start nothing."""
    for argument in call.arguments:
        if re.match(
            r"[-/]{1,2}p(?:roperty)?:(?!(?:Configuration|Platform|Version|Nowarn|WarningLevel"
            r"|TreatWarningsAsErrors|CollectCoverage|CoverletOutputFormat)=)",
            argument,
            re.IGNORECASE,
        ):
            return ask("sets a property of the build that may run a program")
        is_file = re.search(r"\.(?:\w*proj|sln|slnx|dll|targets|props)$", argument) is not None
        if is_file and not call.ground.inside(call.path(argument)):
            return ask("works outside of the workspace")
    if call.arguments[:1] == ("run",):
        return _runs(call, call.operands()[1:])
    if call.arguments[:1] == ("restore",) and not all(map(_RESTORED.fullmatch, call.arguments[1:])):
        return ask(INSTALLS)
    if (output := call.value("o", "output")) and (opinion := call.changed([output])):
        return opinion
    near = call.inside and not any(word.startswith(("/", "..", "~")) for word in call.arguments)
    if near and _REFERENCES.fullmatch(" ".join(call.arguments)):
        return fine("changes the settings of a project")
    if call.arguments[:1] == ("new",) and _TEMPLATES.fullmatch(" ".join(call.arguments[1:2])):
        output = call.value("o", "output")
        own = call.inside and not call.unsure
        return (call.changed([output or "."]) if own else ask(INSTALLS)) or fine("makes a new project")
    if call.arguments[:1] == ("publish",) and all(map(_PUBLISHED.fullmatch, call.arguments[1:])):
        # What sends it elsewhere is a profile or a property.
        return DOTNET(replace(call, arguments=("build",)))
    return DOTNET(call)


_RESTORED = re.compile(
    r"(?!/)[\w][\w./-]*|--(?:no-cache|locked-mode|force|no-dependencies|nologo|verbosity)(?:=\w+)?|-v:?\w*|-r"
)
_PUBLISHED = re.compile(
    r"-c|-r|-f|-o|--(?:configuration|runtime|framework|output|self-contained|no-self-contained|no-restore"
    r"|no-build|sc|nologo)(?:[= ][\w./-]+)?|-c:\w+|Release|Debug|true|false|(?!/)[\w][\w./-]*"
)


SWIFT = Verbs(
    harmless=r"build|test|format|package (?:describe|show-dependencies|resolve|dump-package|update|clean)",
    reason="builds or tests the project",
    effects=(("run", RUNS_PROJECT), ("-|repl", "runs a program")),
    bare=False,
    inside=True,
)
MIX = Verbs(
    harmless=r"test|compile|format|credo|dialyzer|help|deps$|deps\.tree|clean|phx\.routes|xref|docs"
    r"|(?:phx|phoenix)\.gen\.\w+|ecto\.gen\.migration",
    reason="builds or tests the project",
    effects=(
        (r"deps\.\w+|archive\.\w+|local\.\w+", INSTALLS),
        (
            r"run|phx\.(?!server|routes|gen)\S*|ecto\.(?!gen\.migration)\S*|release|hex.*",
            "may reach beyond the workspace",
        ),
    ),
    inside=True,
)
ZIG = Verbs(
    harmless=r"build|test|fmt|build-exe|build-lib|build-obj|cc|c\+\+|version|env|ast-check",
    reason="builds or tests the project",
    effects=(("run|build run", RUNS_PROJECT), ("fetch", INSTALLS)),
    inside=True,
)
FLUTTER = Verbs(
    harmless=r"analyze|test|format|build|doctor|devices|clean|compile",
    reason="builds or tests the project",
    effects=(("pub|upgrade|run|create", INSTALLS),),
    inside=True,
)
BUNDLE = Verbs(
    harmless=r"exec (?:rspec|rubocop|standardrb|minitest|"
    r"rake (?:test|spec|lint)|rails (?:test|routes|stats|notes|about|db:migrate:status|db:version))|list"
    r"|show|check|outdated|info|platform",
    reason="builds or tests the project",
    effects=(("install|update|add|remove|config|lock", INSTALLS),),
    bare=False,
    inside=True,
)


def bundle(call: Call) -> Opinion:
    """`bundle exec` is judged by what it starts, where that is known to build, test or list."""
    given = call.arguments[1:]
    if call.arguments[:1] == ("exec",) and given and given[0] in ("rake", "jekyll", "rails"):
        from agent.safety.commands.toolchains import RULES as TOOLCHAINS

        rule = RULES.get(given[0]) or TOOLCHAINS[given[0]]
        return rule(replace(call, name=given[0], word=given[0], arguments=tuple(given[1:])))
    return BUNDLE(call)


RAILS = Verbs(
    harmless=r"test|routes|stats|notes|about|(?:generate|g) (?:model|controller|migration|scaffold|job|mailer"
    r"|resource|channel|helper)|zeitwerk:check|-T|db:migrate:status|db:version|middleware|initializers|about",
    reason="builds or tests the project",
    effects=(
        (
            r"db:(?!migrate:status$|version$).*|runner|console|c|server|s|generate|g|destroy|d|new",
            "may reach beyond the workspace",
        ),
    ),
    inside=True,
)
COMPOSER = Verbs(
    harmless=r"show|validate|outdated|test|lint|check|licenses|dump-autoload|run-script (?:test|lint)"
    r"|diagnose|audit|config (?:platform|minimum-stability|prefer-stable|--list)",
    reason="builds or tests the project",
    effects=(("install|update|require|remove|global|create-project|exec", INSTALLS),),
    dangerous=words("--global -g --working-dir -d"),
    inside=True,
)
PRE_COMMIT = Verbs(
    harmless="run|validate-config|validate-manifest",
    reason="builds or tests the project",
    effects=(
        ("install|autoupdate|uninstall|try-repo|install-hooks", "installs hooks that run by themselves"),
    ),
    inside=True,
)
TRACE = Verbs(
    harmless="stat|report|list|annotate",
    reason="measures the project",
    effects=((r"stat .+|record .*|trace .*|bench .*", RUNS_PROJECT),),
    bare=False,
)


def _running(rule: Rule, *starts: str) -> Rule:
    """The rule, unless the subcommand builds and runs the project."""

    def judged(call: Call) -> Opinion:
        said = call.operands()
        for start in starts:
            steps = start.split()
            if said[: len(steps)] == steps and not call.flag("--package-path", "--project", "-C"):
                return _runs(call, said[len(steps) :])
        return rule(call)

    return judged


_TABLE: tuple[tuple[str, Rule], ...] = (
    ("make gmake bmake", make),
    ("just task rake gradle gradlew mvn mvnw mvnd sbt bazel bazelisk buck2 invoke inv mage configure", task),
    ("go", go),
    ("cargo", cargo),
    ("deno", deno),
    ("dotnet", dotnet),
    ("swift", _running(SWIFT, "run")),
    ("mix", _running(MIX, "phx.server")),
    ("zig", _running(ZIG, "build run")),
    ("flutter dart", FLUTTER),
    ("bundle", bundle),
    ("rails", RAILS),
    ("composer", COMPOSER),
    ("artisan", ARTISAN),
    ("pre-commit prek", PRE_COMMIT),
    ("perf", TRACE),
)


_VERSIONED = words("gcc g++ clang clang++ clang-format clang-tidy")


def _by_version(name: str) -> Rule:
    return lambda call: check(replace(call, name=name, word=name))


RULES: dict[str, Rule] = dict.fromkeys(CHECKERS, check) | {
    f"{name}-{number}": _by_version(name) for name in _VERSIONED for number in range(4, 30)
}
RULES |= {
    name: declared.first(rule) if name in (*declared.MANAGERS, "go") else rule
    for names, rule in (*_TABLE, *node_tools.TABLE)
    for name in names.split()
}
