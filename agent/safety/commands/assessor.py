"""The verdict on a shell command: each part of it judged, the strictest part decides."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent.safety import rules
from agent.safety.commands import (
    builders,
    cmake,
    connections,
    databases,
    declared,
    endless,
    environments,
    files,
    git,
    git_remotes,
    interpreters,
    media,
    network,
    programs,
    project_environments,
    readers,
    scaffolds,
    scraps,
    scripts,
    servers,
    services,
    small_tools,
    streams,
    system,
    tabular,
    toolchains,
    utilities,
    wrappers,
)
from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, Rule, ask, fine, runs
from agent.safety.commands.checkers import BUILDS
from agent.safety.commands.environment import variable
from agent.safety.commands.ground import Ground
from agent.safety.commands.known_packages import ADDS
from agent.safety.commands.planting import Planting
from agent.safety.commands.secrets import is_secret_variable
from agent.safety.confinement import Confinement
from agent.safety.hardline import TANGLED, examined
from agent.safety.look import current, one_look
from agent.safety.places import Places, absolute, joined
from agent.safety.shell import marks
from agent.safety.shell.marks import GLOBS, UNKNOWN, literal
from agent.safety.shell.recording import Recording, record
from agent.safety.shell.wrappers import WRAPPERS
from agent.safety.verdict import SEVERITY, Part, Verdict, VerdictKind

RULES: dict[str, Rule] = (
    readers.RULES
    | streams.RULES
    | files.RULES
    | system.RULES
    | builders.RULES
    | project_environments.RULES
    | cmake.RULES
    | utilities.RULES
    | small_tools.RULES
    | media.RULES
    | tabular.RULES
    | toolchains.RULES
    | environments.RULES
    | servers.RULES
    | services.RULES
    | databases.RULES
    | network.RULES
    | git.RULES
    | interpreters.RULES
    | wrappers.RULES
)

RULES |= {name: scaffolds.first(RULES.get(name)) for name in scaffolds.NAMES}

LONGEST_PART = 400
"""Characters of a part's text that are shown; the judgement is about all of it."""

_KEEPING = frozenset({"chmod", "mkdir", "rmdir", "sh", "bash", "dash", *readers.RULES, *WRAPPERS})
"""Programs that leave the contents of files as they are; what wrappers start is judged by itself."""
_PROGRAM = fine("runs a program of the project that nothing speaks against")
_SCRIPT = fine("runs a script of the project that was read")
_RUN_CODE = frozenset(
    {BUILDS.reason, builders.RUN.reason, declared.INSTALLED.reason, ADDS.reason}
    | {_PROGRAM.reason, _SCRIPT.reason}
)
"""Reasons to let something pass that runs code of the project."""
_LEAVES = frozenset(
    {files.LISTED.reason, git_remotes.READS.reason, environments.CHOOSES, environments.CONDA_CHOOSES}
)
"""Reasons to let something pass that changes no file which runs."""
_READABLE = frozenset({RUNS_PROJECT, wrappers.SOURCES})
"""Reasons to ask about files of the project that may be read first."""
_FETCHES = frozenset({git_remotes.CLONES.reason, files.UNPACKS.reason})
"""Reasons to let something pass that brings files along."""
_CHANGE_NAMED = marks.words("rm sed touch mkdir cp mv gcc g++ cc c++ clang clang++ javac rustc")
"""Programs that change no other files than those they are given."""
_FILE_NAMES = re.compile(r"[\w-]+\.\w+")
_SEARCHED = frozenset({"PYTHONPATH", "NODE_PATH", "PATH"})
"""Variables that say where programs find their parts; what stands there is not read."""
_NOT_KNOWN = "is not known to be harmless"
DEEPEST_SCRIPT = 2
"""Scripts of the project that start each other and are read."""

_SYSTEM_FOLDERS = marks.words(
    "/bin /usr/bin /usr/local/bin /sbin /usr/sbin /usr/local/sbin /opt/homebrew/bin /snap/bin"
)
_PROJECT_TOOLS = re.compile(
    r"(?:.*/)?(?:\.?venv[\w.-]*|env|node_modules/\.bin|vendor/bin|\.tox/[\w.-]+/bin)(?:/bin)?"
)
_PROJECT_RUNNERS = frozenset({"gradlew", "mvnw", "configure"})
_BIN_STUBS = frozenset({"rails", "rake", "rspec", "phpunit", "pest"})
"""Programs that frameworks put into `bin` or `vendor/bin` of a project under their own name."""
_ALIASES = {"gradlew": "gradle", "mvnw": "mvn"}


class Assessor:
    """Judges commands of one session.

    `scratch` is a folder only this session writes to, `own` the folder of Hermes
    (default: `.hermes` in the home folder). `confinement` is what the operating system keeps
    commands from.
    """

    def __init__(
        self,
        places: Places,
        workspace: Path,
        scratch: Path | None = None,
        own: Path | None = None,
        confinement: Confinement = "none",
    ) -> None:
        self._places = places
        self._confinement: Confinement = confinement
        self._ground = Ground(places, workspace, scratch, own, confined=confinement != "none")

    def assess(self, command: str, cwd: Path) -> Verdict:
        """What speaks for and against running `command` in `cwd`: allow, ask or hardline.

        Never raises. Takes time in proportion to the length of the command.
        """
        with one_look():
            return self._assessed(command, cwd)

    def _assessed(self, command: str, cwd: Path) -> Verdict:
        recording = record(command, str(cwd), self._places.home)
        judge = _Judge(self._ground.afresh(), _is_cleared(recording, self._places), self._confinement)
        if recording.tangled:
            judge.add(recording.text, "hardline", TANGLED)
            return judge.verdict()
        for event in recording.events:
            try:
                event.show(judge)
            except Exception as error:
                # A fault in a rule must not let a command pass.
                judge.add(recording.text, "ask", f"could not be judged ({type(error).__name__})")
        if recording.fault:
            judge.add(recording.text, "ask", f"could not be judged ({recording.fault})")
        if endless.loops_forever(recording.text):
            judge.add(recording.text, "ask", "goes on without end or pause")
        return judge.verdict()


def _is_cleared(recording: Recording, places: Places) -> bool:
    """Whether the hardline has looked at everything in the recording and forbids nothing."""
    try:
        return not examined(recording, places).forbidden
    except Exception:
        return False  # the fault shows again at the command it is about


class _Judge:
    """Collects what is said of every command line, every file and every variable.

    Names of files that were given to a program, or written to, are kept: what they hold is not known
    any more. `_built` are those of them that a compiler made.

    `cleared` means that nothing in it is forbidden, so that the hardline need not be asked again.
    """

    def __init__(self, ground: Ground, cleared: bool, confinement: Confinement, depth: int = 0) -> None:
        self._confinement: Confinement = confinement
        self._depth = depth
        self._acted = False
        self._ground = ground
        self._cleared = cleared
        self._parts: dict[tuple[str, VerdictKind, str, bool], None] = {}
        self._named: set[str] = set()
        self._built: set[str] = set()
        self._made: set[str] = set()
        self._after_build = False
        self._fetched = False
        """Whether a repository was fetched whole, with all that building it runs."""
        self._planting = Planting(self._asks_inside)
        self._held: dict[str, tuple[str, ...]] = {}
        """What the shell itself wrote to files, as long as nothing else may have changed them."""
        self._inputs: tuple[str, ...] = ()
        self._stream = endless.Stream()

    def verdict(self) -> Verdict:
        parts = tuple([Part(*said) for said in self._parts])
        kinds: set[VerdictKind] = {kind for _, kind, _, _ in self._parts}
        kind: VerdictKind = max(kinds, key=SEVERITY.index) if kinds else "allow"
        reasons = dict.fromkeys([said[2] for said in self._parts if said[1] == kind and said[2]])
        return Verdict(kind, tuple(reasons), parts)

    def add(self, text: str, kind: VerdictKind, reason: str, *, network: bool = False) -> None:
        shown = literal(text)
        if len(shown) > LONGEST_PART:
            shown = f"{shown[: LONGEST_PART // 2]} … {shown[-LONGEST_PART // 2 :]}"
        self._parts[shown, kind, reason, network] = None

    def command(
        self,
        name: str,
        arguments: Sequence[str],
        cwds: Sequence[str],
        *,
        word: str = "",
        stdin: Sequence[str] | None = None,
    ) -> None:
        text = f"{word or name} {_shown(arguments)}" if arguments else word or name
        # The shell opens the files of a command right before it starts it.
        inputs, self._inputs = self._inputs, ()
        if self._stream.command(name, arguments, inputs):
            self.add(text, "ask", endless.FILLS_DISK)
        for cwd in cwds:
            call = Call(
                name,
                arguments,
                cwd,
                self._ground.places,
                self._ground,
                word or name,
                stdin,
                inputs,
                self._named,
                self._made,
                self._held,
            )
            if not self._cleared and (loss := rules.forbidden(call)):
                self.add(text, "hardline", f"it would {loss}")
                continue
            opinion = _judged(call)
            if opinion.runs is not None or opinion.reason in _READABLE:
                opinion = self._followed(call, opinion)
            if opinion.reason in _RUN_CODE:
                opinion = self._unless_planted(call, opinion)
            self._fetched |= opinion.reason in _FETCHES
            if opinion.kind == "allow" and name not in WRAPPERS:
                self._planting.command(call)
            self._after_build |= opinion.reason == BUILDS.reason
            self.add(text, opinion.kind, opinion.reason, network=connections.wants(call))
            if opinion.reason not in _LEAVES and name not in _KEEPING:
                self._changes(call, opinion)

    def _changes(self, call: Call, opinion: Opinion) -> None:
        """A program may have changed files, whose names it was given."""
        self._acted = True
        self._forget(call, opinion)
        made = programs.compiled(call) if opinion.kind == "allow" else ""
        named = {argument.rpartition("/")[2].rpartition("=")[2] for argument in call.arguments}
        self._named |= named
        if self._made and call.name in scraps.MOVERS:
            self._made = {path for path in self._made if path.rpartition("/")[2] not in named}
        if made and scraps.is_new(new := joined(call.cwd, call.value("o") or made)):
            self._made.add(new)
        if self._built or made:
            self._built = (self._built - named) | ({made} if made else set())

    def _followed(self, call: Call, opinion: Opinion) -> Opinion:
        """The opinion on a script of the project, once it is read; as it is for everything else."""
        # What ran before may have changed the script without naming it, as `git checkout` does.
        changed = self._acted and self._confinement != "closed"
        made = self._after_build or bool(self._built)
        if not (_is_text(opinion) or opinion.reason in _READABLE) or self._depth >= DEEPEST_SCRIPT:
            return opinion
        known = self._is_read_here(call, opinion)
        if changed and not made and not known:
            return opinion
        if _is_text(opinion) or (changed and not known) or (text := scripts.text(call)) is None:
            kept = opinion.runs is not None and programs.passes(
                call,
                opinion.runs,
                self._confinement,
                acted=self._acted,
                built=self._built,
                after_build=self._after_build,
            )
            return replace(_PROGRAM, runs=opinion.runs) if kept else opinion
        self._acted = True  # a script may change the next one
        verdict = self._judged_inside(text, call.cwd)
        if verdict is None:
            return opinion
        if verdict.kind == "hardline":
            for reason in verdict.reasons:
                self.add(call.word, "hardline", reason)
        return _SCRIPT if verdict.kind == "allow" else opinion

    def _judged_inside(self, script: str, cwd: str) -> Verdict | None:
        """The verdict on a shell text that something here starts; None when it cannot be followed."""
        recording = record(script, cwd, self._ground.places.home)
        if recording.tangled or recording.fault:
            return None
        inner = _Judge(self._ground, False, self._confinement, self._depth + 1)
        inner._held, inner._named = dict(self._held), set(self._named)
        recording.show(inner)
        return inner.verdict()

    def _asks_inside(self, script: str, cwd: str) -> bool:
        """Whether a line of a build that this text has written asks for what a person would want to see.

        Programs that are not known may be tools of the project; what it holds is looked at elsewhere.
        """
        verdict = self._judged_inside(script, cwd) if self._depth < DEEPEST_SCRIPT else None
        if verdict is None:
            return True
        for part in verdict.parts:
            if part.kind == "hardline":
                self.add(script, "hardline", part.reason)
            elif part.kind == "ask" and not part.reason.startswith((_NOT_KNOWN, RUNS_PROJECT)):
                return True
        return verdict.kind == "hardline"

    def _unless_planted(self, call: Call, opinion: Opinion) -> Opinion:
        """The opinion on running code of the project, unless the same text brought something there."""
        if opinion.runs is not None and self._is_read_here(call, opinion):
            return opinion
        if self._planting.speaks_against_running(call.cwd):
            return ask("runs what the same command writes")
        return ask("runs what the same command fetched") if self._fetched else opinion

    def _is_read_here(self, call: Call, opinion: Opinion) -> bool:
        """Whether this very text says what the program is, or what the file that holds it holds."""
        if _is_text(opinion) or not self._held:
            return _is_text(opinion)
        words = [opinion.runs.path] if opinion.runs is not None else [call.word, *call.arguments[:2]]
        return any(absolute(call.path(word)) in self._held for word in words)

    def _forget(self, call: Call, opinion: Opinion) -> None:
        """What files hold is not known any more, once a program may have changed them."""
        if not self._held and opinion.runs is None:
            return
        names = {argument.rpartition("/")[2] for argument in call.arguments}
        plain = call.name in _CHANGE_NAMED and not call.has("rRat", "recursive", "archive")
        if opinion.runs is not None and opinion.runs.text is not None:
            names = set(_FILE_NAMES.findall(opinion.runs.text))
            self._named |= names
            plain = True  # it was read
        if not self._held or opinion.reason == interpreters.COMPUTES.reason:
            return
        self._held = {
            path: texts
            for path, texts in self._held.items()
            if plain and path.rpartition("/")[2] not in names
        }

    def written(self, path: str, cwds: Sequence[str], texts: Sequence[str] | None = None) -> None:
        self._named.add(path.rpartition("/")[2])
        self._built.discard(path.rpartition("/")[2])
        self._planting.written(path, texts)
        if self._stream.written(path):
            self.add(f"> {path}", "ask", endless.FILLS_DISK)
        for cwd in cwds:
            full = joined(cwd, path)
            self._hold(absolute(full), texts)
            if scraps.is_new(full):
                self._made.add(full)
            if not self._cleared and (loss := self._ground.places.wreck(full)):
                self.add(f"> {path}", "hardline", f"it would overwrite {loss}")
            elif reason := self._ground.write(full):
                self.add(f"> {path}", "ask", reason, network=connections.opens(full))
            elif full.isascii() and not current().missing(full) and os.path.isdir(full):  # noqa: PTH112
                # No shell writes to a folder: it stands for the files that a search finds in it.
                self.add(f"> {path}", "ask", "overwrites files whose names are not known here")
            else:
                self.add(f"> {path}", "allow", "writes inside the workspace")

    def _hold(self, path: str, texts: Sequence[str] | None) -> None:
        if texts is None or not path.isascii():
            self._held.pop(path, None)
        else:
            # A branch that is not taken writes nothing, so what stood there before counts as well.
            self._held[path] = (*self._held.get(path, ()), *texts)

    def unsettled(self, path: str, cwds: Sequence[str]) -> None:
        for cwd in cwds:
            full = absolute(joined(cwd, path))
            if full in self._held and not current().missing(full):
                before = scripts.held_there(full)
                self._hold(full, None if before is None else (before,))

    def read(self, path: str, cwds: Sequence[str]) -> None:
        self._inputs = (path,)
        for cwd in cwds:
            full = joined(cwd, path)
            if not self._cleared and self._ground.places.hides(full):
                self.add(f"< {path}", "hardline", "it would read Hermes' keys or stored conversations")
            elif reason := self._ground.read(full):
                self.add(f"< {path}", "ask", reason)
            elif connections.opens(full):
                self.add(f"< {path}", "ask", "opens a network connection", network=True)

    def assigned(self, name: str, values: Sequence[str | tuple[str, ...]]) -> None:
        if opinion := variable(name, values, self._ground.inside):
            self.add(f"{name}=", opinion.kind, opinion.reason)
        elif name == "PATH":
            return  # programs of installations, which come from elsewhere
        if name in _SEARCHED:
            self._acted = True

    def consulted(self, name: str) -> None:
        if is_secret_variable(name):
            self.add(f"${name}", "ask", f"uses a secret of the environment ({name})")

    def foreign(self, name: str) -> None:
        """The rule for the interpreter has judged the program."""

    def bomb(self, name: str) -> None:
        self.add(name, "hardline", f"it is a fork bomb: {literal(name)} starts itself without end")

    def doubt(self, sentence: str) -> None:
        self.add("", "ask", sentence)


def _is_text(opinion: Opinion) -> bool:
    return opinion.runs is not None and opinion.runs.text is not None


_MARK = frozenset({UNKNOWN, *GLOBS})


def _judged(call: Call) -> Opinion:
    # Marks are no ASCII characters.
    if not call.name or not (call.word.isascii() or _MARK.isdisjoint(call.word)):
        return ask("which program runs is not known here")
    if "/" in call.word and (opinion := _by_path(call)) is not None:
        return opinion
    rule = RULES.get(call.name) or RULES.get(_ALIASES.get(call.name, ""))
    if rule is None and "/" not in call.word and call.arguments in _TELLS:
        return fine("only tells its version")
    return rule(call) if rule is not None else ask(f"{_NOT_KNOWN}: {call.name}")


def _by_path(call: Call) -> Opinion | None:
    """What is said of a program that is called by its path; None when it counts by its name."""
    if any(map(str.isspace, call.word)):
        return ask("runs a program with blanks in its name")
    path = absolute(call.path(call.word))
    folder = path.rpartition("/")[0]
    if folder in _SYSTEM_FOLDERS:
        return None
    if not call.ground.inside(folder):
        return ask("runs a program from outside of the workspace")
    if _PROJECT_TOOLS.fullmatch(folder) or call.name in _PROJECT_RUNNERS:
        return None
    if call.name in _BIN_STUBS and folder.endswith("/bin"):
        return None
    return runs(call.word, "", call.arguments)


_TELLS = (("--version",), ("-version",), ("--help",))
_IN_NEED_OF_QUOTES = re.compile(r"[\s'\"\\$`;&|<>()*?\[\]#~]").search
_IS_UNUSUAL = re.compile(r"[^\w./:=@%+,!^{} -]", re.ASCII).search


def _shown(arguments: Sequence[str]) -> str:
    """Arguments as they would be typed."""
    joined_up = " ".join(arguments)
    if joined_up.count(" ") == len(arguments) - 1 and "" not in arguments and _IS_UNUSUAL(joined_up) is None:
        return joined_up
    return " ".join(map(_quoted, arguments))


def _quoted(argument: str) -> str:
    text = literal(argument)
    return text if text and not _IN_NEED_OF_QUOTES(text) else "'" + text.replace("'", "'\\''") + "'"
