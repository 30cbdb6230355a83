"""The verdict on a shell command by its effects: the strictest verdict on its programs and files.

Inside a closed boundary (a sandbox that confines files and network) everything is allowed, except effects
that the boundary cannot stop and undo cannot restore. Without a boundary only a short list of effects is
allowed. Whatever is not understood needs permission.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from agent.core.event_data import VerdictKind, VerdictPart
from agent.safety import rules
from agent.safety.effects import ProgramEffects, effects_of
from agent.safety.hardline import forbidden
from agent.safety.places import Places, absolute, cached_paths, current, joined
from agent.safety.programs.table import EffectName, Table, programs
from agent.safety.reader.expansion import Command, Reading
from agent.safety.reader.script import read
from agent.safety.reader.tree import UNKNOWN, literal, words
from agent.safety.rules import SEVERITY, UndoCoverage, Verdict
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage
from agent.safety.scope import Scope, mark_text
from agent.workspace.checkpoints.git_settings import may_go, passes
from agent.workspace.git import common_folder, git_folder
from tools.kit.files import read_bytes
from tools.kit.lazy_pattern import lazy_pattern

_MAX_BYTES = 1_000_000
_MAX_MODULES = 200
_HEADER = lazy_pattern(r'\s*\[\s*([\w-]+)[\w.-]*(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')
_ENTRY = lazy_pattern(r"\s*([A-Za-z][\w-]*)\s*(?:=\s*(.*))?")
_PLAIN = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1", "cat"})
_OF_GIT = lazy_pattern(r'"?git[ -]lfs\b')
_RUNNING = {
    "core": ("fsmonitor", "hookspath", "pager"),
    "diff": ("external", "command", "textconv"),
    "filter": ("clean", "smudge", "process"),
    "include": ("path",),
    "includeif": ("path",),
    "gpg": ("program", "defaultkeycommand"),
    "remote": ("uploadpack", "vcs"),
}


def names_programs(folder: str) -> bool:
    """Return whether git, when reading in `folder`, would run programs that the repository configures.

    True in doubt, False outside of a repository. Blocking, but never waits for pipes. Computed once per
    decision.
    """
    return current().once((names_programs, folder), lambda: _names_programs(folder))


def _names_programs(folder: str) -> bool:
    git = _repository(Path(folder))
    if git is None:
        return False
    common = common_folder(git)
    if common == git and _leads_elsewhere(git):
        return True
    if os.path.lexists(common / "hooks" / "post-index-change"):
        return True
    files = [common / "config", git / "config.worktree", *_modules(common)]
    return any(file_names_programs(file) for file in files)


def _leads_elsewhere(git: Path) -> bool:
    """Return whether git would read settings from outside of the folder `git`; True in doubt."""
    try:
        line = os.fsdecode(read_bytes(git / "commondir", _MAX_BYTES)[0]).strip()
        return (git / line).resolve() != git.resolve()
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RuntimeError):
        return True


def _repository(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        if os.path.lexists(place / ".git"):
            return git_folder(place)
        if all(os.path.lexists(place / name) for name in ("HEAD", "objects", "refs")):
            return place
    return None


def _modules(common: Path) -> Iterator[Path]:
    """Yield the settings files of submodules, at most 200, which git also reads when it shows their state."""
    return islice((common / "modules").rglob("config"), _MAX_MODULES)


def file_names_programs(file: Path) -> bool:
    """Return whether a git settings file names programs that even reading would run; True in doubt."""
    try:
        text = read_bytes(file.resolve(), _MAX_BYTES)[0].decode("utf-8", "replace").lstrip("\ufeff")
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RuntimeError):
        return True
    section = ""
    for line in text.lower().split("\n"):
        if line.lstrip().startswith("["):
            header = _HEADER.match(line)
            if header is None:
                return True
            section, line = header[1], line[header.end() :]
        if (entry := _ENTRY.match(line)) and _runs(section, entry[1], (entry[2] or "").strip()):
            return True
    return False


def _runs(section: str, key: str, value: str) -> bool:
    if section == "pager" or key in _RUNNING.get(section, ()):
        return value not in _PLAIN and not (section == "filter" and _OF_GIT.match(value))
    return section == "remote" and key == "url" and value.lstrip('"').startswith("ext::")


_BYTES = 200_000
_STEPS = 200_000
"""The interval in SQLite instructions after which a query is aborted."""
_SVN_SENDS = ("commit", "ci", "import", "lock", "unlock")
_SVN_VALUED = ("-m", "--message", "-F", "--file", "-r", "--revision", "--encoding", "--with-revprop")
_OFF = frozenset({"0", "off", "no", "false", "pullonly"})


@dataclass(frozen=True, slots=True)
class CommitReach:
    """The effects of a commit beyond its repository."""

    stays: bool
    """True if no other machine is contacted."""
    runs: bool = False
    """True if settings of the repository name programs to run."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """The remotes that a repository sends commits to, and its hooks, as found in its settings."""

    sends: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


class _DoubtError(Exception):
    """Raised if something needed for the decision cannot be determined."""


def commit_reach(
    program: str,
    arguments: Sequence[str],
    folder: Path,
    home: Path,
    inside: Callable[[str], bool],
    is_quiet: Callable[[str], bool],
) -> CommitReach:
    """Return the effects of a commit by `program` in `folder`; in doubt, that it contacts other machines.

    `inside` returns whether a path is in the workspace, `is_quiet` whether a command line sends nothing.
    Blocking, but never waits for pipes.
    """
    try:
        if any(word.startswith(("--config", "-R", "--repo", "--cwd")) for word in arguments):
            raise _DoubtError
        facts = _READERS[program](folder, home, arguments)
    except (KeyError, _DoubtError, OSError, ValueError, RuntimeError, sqlite3.Error):
        return CommitReach(False)
    stays = all(_is_here(place, inside) for place in facts.sends) and all(map(is_quiet, facts.hooks))
    return CommitReach(stays, bool(facts.hooks))


def _is_here(place: str, inside: Callable[[str], bool]) -> bool:
    if "://" in place:
        scheme, _, rest = place.partition("://")
        place = unquote(rest.removeprefix("localhost")) if scheme == "file" else ""
    return place.startswith("/") and inside(place)


def _above(folder: Path, *names: str) -> Path:
    """Return the nearest entry with one of these names, in a folder or its parents. Raises `_DoubtError`."""
    for place in (folder, *folder.parents):
        for name in names:
            if os.path.lexists(place / name):
                return place / name
    raise _DoubtError


def _text(path: Path) -> str:
    """Return the content of a file; empty if it is missing. Raises `OSError` if it is unreadable."""
    try:
        return read_bytes(path, _BYTES)[0].decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _mercurial(folder: Path, home: Path, _: Sequence[str]) -> _Facts:
    settings = (_above(folder, ".hg") / "hgrc", home / ".hgrc", home / ".config/hg/hgrc")
    hooks = [value for path in settings for section, _, value in _lines(_text(path)) if section == "hooks"]
    return _Facts(hooks=tuple(hooks))


def hooks_of_mercurial(file: Path) -> bool:
    """Return whether Mercurial settings hold more than the user's name and paths; True in doubt. Blocking."""
    try:
        return any(
            (section, key) != ("ui", "username") and section != "paths"
            for section, key, _ in _lines(_text(file))
        )
    except (_DoubtError, OSError, ValueError):
        return True


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (section, key, value) of a settings file, with continued values joined. Raises `_DoubtError`."""
    section = ""
    for line in re.sub(r"\n[ \t]+(?=\S)", " ", text).splitlines():
        if line.startswith("%include"):
            raise _DoubtError
        if header := re.match(r"\[([^\]]+)\]", line):
            section = header[1].strip()
        elif entry := re.match(r"([^#;=\s][^=]*)=(.*)", line):
            if section == "alias" and entry[1].strip() in ("commit", "ci"):
                raise _DoubtError
            if value := entry[2].strip():
                yield section, entry[1].strip(), value


def _subversion(folder: Path, _: Path, arguments: Sequence[str]) -> _Facts:
    pairs = pairwise(arguments)
    words = [word for option, word in pairs if word[:1] != "-" and option not in _SVN_VALUED]
    if arguments[0] not in _SVN_SENDS and not any("://" in word for word in words):
        return _Facts()  # it changes the working copy only
    roots = [word for word in words if "://" in word]
    folders = {folder, *(folder / word for word in words if "://" not in word and (folder / word).is_dir())}
    for each in folders if not roots else ():
        roots += [row[0] for row in _rows(_above(each, ".svn") / "wc.db", "SELECT root FROM repository")]
    if not roots:
        raise _DoubtError
    return _Facts(tuple(roots), tuple(text for root in roots for text in _scripts(root)))


def _scripts(root: str) -> Iterator[str]:
    """Yield the texts of the hook scripts of the Subversion repository at an address."""
    place = Path(unquote(root.partition("://")[2]))
    hooks = next((each / "hooks" for each in (place, *place.parents) if (each / "db").is_dir()), None)
    for script in sorted(hooks.iterdir()) if hooks is not None and hooks.is_dir() else ():
        if script.suffix != ".tmpl" and os.access(script, os.X_OK):
            yield _text(script.resolve())


def _darcs(folder: Path, home: Path, _: Sequence[str]) -> _Facts:
    texts = _text(_above(folder, "_darcs") / "prefs" / "defaults") + "\n" + _text(home / ".darcs/defaults")
    found = re.findall(r"^\s*\S+\s+(?:--)?(?:pre|post)hook[\s=]+(.+)$", texts, re.MULTILINE)
    return _Facts(hooks=tuple(found))


def _fossil(folder: Path, home: Path, _: Sequence[str]) -> _Facts:
    checkout = _above(folder, ".fslckout", "_FOSSIL_")
    named = _rows(checkout, "SELECT value FROM vvar WHERE name = 'repository'")
    file = checkout.parent / named[0][0]
    wanted = "name GLOB '*sync*' OR name = 'hooks'"
    settings = _pairs(file, f"SELECT name, value FROM config WHERE {wanted}")
    everywhere: dict[str, str] = {}
    for each in filter(Path.exists, (home / ".fossil", home / ".config/fossil.db")):
        everywhere |= _pairs(each, "SELECT name, value FROM global_config WHERE name = 'autosync'")
    hooks = tuple(str(each["cmd"]) for each in json.loads(settings.get("hooks") or "[]"))
    if settings.get("autosync", everywhere.get("autosync", "on")).lower() in _OFF:
        return _Facts(hooks=hooks)
    remotes = (value for name, value in settings.items() if name == "last-sync-url" or ":" in name)
    return _Facts(tuple(filter(None, remotes)), hooks)


def _bazaar(folder: Path, home: Path, arguments: Sequence[str]) -> _Facts:
    branch = _above(folder, ".bzr") / "branch"
    if place := _text(branch / "location").strip():
        return _Facts((place,))
    own = {key: value for _, key, value in _lines(_text(branch / "branch.conf"))}
    known = (".config/breezy/breezy.conf", ".config/breezy/locations.conf", ".bazaar/bazaar.conf")
    texts = [own, *({key: value for _, key, value in _lines(_text(home / each))} for each in known)]
    if any(key.startswith("post_commit") for each in texts for key in each):
        raise _DoubtError
    is_bound = own.get("bound", "").lower() == "true" and "--local" not in arguments
    return _Facts((own.get("bound_location", ""),) if is_bound else ())


def _jujutsu(*_: object) -> _Facts:
    return _Facts()


def _pairs(file: Path, question: str) -> dict[str, str]:
    return {row[0]: row[1] for row in _rows(file, question)}


def _rows(file: Path, question: str) -> list[tuple[str, ...]]:
    """Return the rows of a database query as texts. Raises `sqlite3.Error` or `_DoubtError`."""
    if not file.is_file():
        raise _DoubtError
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=0.2)) as database:
        database.set_progress_handler(lambda: 1, _STEPS)
        with suppress(AttributeError):
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _BYTES)
        return [tuple(map(str, row)) for row in _few(database.execute(question))]


def _few(rows: Iterable[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    for number, row in enumerate(rows):
        if number > 200:
            raise _DoubtError
        yield row


_READERS: dict[str, Callable[[Path, Path, Sequence[str]], _Facts]] = {
    **dict.fromkeys(("hg", "chg"), _mercurial),
    "svn": _subversion,
    "darcs": _darcs,
    "fossil": _fossil,
    **dict.fromkeys(("bzr", "brz"), _bazaar),
    "jj": _jujutsu,
}


MOST_JUDGED = 120
"""The number of judged programs in one command; further ones are only checked against the hardline."""
LONGEST_PART = 400
"""The number of characters shown of a part of a command; the whole part is judged."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rule for one class of effects."""

    passes_by: Literal["always", "boundary", "undo", "never"]
    """The condition for allowing it without asking: none, a closed boundary, undo of `.git`; or never."""
    reason: str
    """The reason for asking, as a clause for the user."""


POLICIES: dict[EffectName, Policy] = {
    "looks": Policy("always", "only looks"),
    "edits": Policy("always", "changes files of the workspace, which undo brings back"),
    "code": Policy("boundary", "runs code that is not read"),
    "network": Policy("boundary", "reaches the network"),
    "history": Policy("undo", "loses what git keeps, and undo does not bring back"),
    "machine": Policy("boundary", "acts on the machine, beyond files of the workspace"),
    "publishes": Policy("never", "sends something to another machine, which cannot be taken back"),
    "lost": Policy("never", "loses what nothing brings back"),
}
"""The rule for each class of effects, whichever tool causes it."""

_PLAIN_VARIABLES = lazy_pattern(
    r"[a-z_][a-z0-9_]*|DEBUG|VERBOSE|CI|TZ|LANG|LC_\w+|TERM|COLUMNS|LINES|\w*COLOR\w*|NODE_ENV|RAILS_ENV|RACK_ENV"
    r"|APP_ENV|FLASK_(?:ENV|DEBUG)|RUST_(?:LOG|BACKTRACE)|LOG_LEVEL|PORT|HOST|PYTHON(?:UNBUFFERED|HASHSEED"
    r"|DONTWRITEBYTECODE)|SOURCE_DATE_EPOCH|[A-Z]{1,3}|FOO|BAR|BAZ|NAME|VERSION|COUNT|FILES?|DIRS?|ROOT|OUT(?:PUT)?"
)
_POISON = lazy_pattern(
    r"PATH|IFS|ENV|BASH_\w+|PROMPT_COMMAND|PS4|SHELL\w*|HOME|PWD|CDPATH|EDITOR|VISUAL|PAGER|BROWSER|CC|CXX|LD|AR"
    r"|(?:LD|DYLD|GIT|PYTHON|NODE|NPM|PERL5?|RUBY|JAVA|JDK|MAVEN|GRADLE|GO|CARGO|RUSTC?|XDG|SSH|GPG|GCC|CMAKE|MAKE"
    r"|LESS|MAN|TAR|ZIP|RSYNC|PIP|UV|POETRY|DOCKER|KUBE\w*|AWS|HTTPS?|ALL|NO)_?\w*",
)
_ONLY_NAMES = words(
    "echo printf ls stat test [ basename dirname realpath readlink which type file git find cd rm mkdir touch"
    " command sleep export"
)
"""Programs that do not read the contents of files named in their arguments."""
_GIT_KEY = lazy_pattern(r"[a-z][\w-]*\.(?:.*\.)?[a-z][\w-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Assessment:
    """The verdict on a command."""

    verdict: Verdict
    is_read_only: bool
    """True if the command certainly changes nothing and contacts no other machine."""
    hosts: frozenset[str] = frozenset()
    """The hosts that the command names and that need permission."""


class Assessor:
    """A judge of shell commands for one session.

    `scratch` is a folder that only this session writes to, `own` Hermes's home folder (default: `.hermes` in
    the user's home). `coverage` is the protection by the boundary, `undo` the files that checkpoints can
    restore.
    """

    def __init__(
        self,
        places: Places,
        workspace: Path,
        scratch: Path | None = None,
        own: Path | None = None,
        coverage: BoundaryCoverage = NO_COVERAGE,
        undo: UndoCoverage | None = None,
    ) -> None:
        self._places = places
        self._closed = coverage.is_closed
        self._undo = undo or UndoCoverage()
        inside = coverage.level != "none"
        self._scope = Scope(places, workspace, scratch, own, self._undo, own_tmp=inside)
        self._own = None if own is None else own / "programs"

    def assess(self, command: str, cwd: Path) -> Assessment:
        """Return the verdict on running `command` in `cwd`, with its reasons.

        Never raises: if an error occurs, the command needs permission. Its work is limited.
        """
        with cached_paths():
            reading = read(command, str(cwd), self._places.home)
            judge = _Judge(self._scope, self._closed, self._undo, programs(self._own))
            try:
                judge.assess(reading)
            except Exception as error:
                # A bug in Hermes must not let a command pass.
                judge.add(command, "ask", f"could not be judged ({type(error).__name__})")
            return Assessment(
                judge.verdict(), judge.is_read_only and reading.is_known, frozenset(judge.hosts)
            )


class _Judge:
    """A collector of findings about every program and file of one command."""

    def __init__(self, scope: Scope, closed: bool, undo: UndoCoverage, table: Table) -> None:
        self._scope = scope
        self._closed = closed
        self._undo = undo
        self._table = table
        self._parts: dict[tuple[str, VerdictKind, str, bool], None] = {}
        self.is_read_only = True
        self.hosts: set[str] = set()

    def verdict(self) -> Verdict:
        parts = tuple([VerdictPart(*said) for said in self._parts])
        kinds: set[VerdictKind] = {kind for _, kind, _, _ in self._parts}
        kind: VerdictKind = max(kinds, key=SEVERITY.index) if kinds else "allow"
        reasons = dict.fromkeys([said[2] for said in self._parts if said[1] == kind and said[2]])
        return Verdict(kind, tuple(reasons), parts)

    def add(self, text: str, kind: VerdictKind, reason: str, *, network: bool = False) -> None:
        told = literal(text)
        if len(told) > LONGEST_PART:
            told = f"{told[: LONGEST_PART // 2]} … {told[-LONGEST_PART // 2 :]}"
        self._parts[told, kind, reason, network] = None

    def assess(self, reading: Reading) -> None:
        """Judge all commands, reads and writes of the parsed text, and collect the findings."""
        for text, reason in forbidden(reading, self._scope.places):
            self.add(text, "hardline", reason)
        for command in reading.commands[:MOST_JUDGED]:
            self._command(command)
        if len(reading.commands) > MOST_JUDGED:
            self.is_read_only = False
            if not self._closed:
                self.add("", "ask", "starts more programs than are looked at")
        if reason := _fills_disk(reading):
            self.is_read_only = False
            self.add("", "ask", reason)
        for path, cwds in reading.writes:
            places = [joined(cwd, path) for cwd in cwds]
            if not all(place.startswith("/dev/") for place in places):
                self.is_read_only = False
            self._file(
                f"> {path}",
                filter(None, map(self._write_reason, places)),
                network=path.startswith("/dev/tcp"),
            )
        for path, cwds in reading.reads:
            if path.startswith(("/dev/tcp/", "/dev/udp/")):
                self.is_read_only = False
                self.add(f"< {path}", "ask", "opens a network connection", network=True)
            self._file(f"< {path}", filter(None, (self._scope.read(joined(cwd, path)) for cwd in cwds)))
        if self._closed:
            return
        for clause in reading.doubts:
            self.add("", "ask", clause)
        for name in reading.assigned:
            if _poisons(name):
                self.add(
                    name, "ask", f"sets {name.removeprefix('export ')}, which may change what programs do"
                )

    def _file(self, text: str, reasons: object, *, network: bool = False) -> None:
        for reason in reasons:  # type: ignore[attr-defined]
            self.add(text, "ask", str(reason), network=network)

    def _command(self, command: Command) -> None:
        found = effects_of(command, self._table)
        self.hosts.update(host for host in found.hosts if host != UNKNOWN and not rules.is_known(host))
        self.is_read_only &= found.effect == "looks" and not (found.writes or found.deletes)
        text = f"{command.word} {' '.join(command.arguments)}".rstrip()
        wants = found.effect == "network" or bool(found.hosts)
        reasons: dict[str, None] = {}
        for cwd in command.cwds:
            reasons.update(dict.fromkeys(self._reasons(command, found, cwd)))
        for reason in reasons:
            self.add(text, "ask", reason, network=wants)
        if not reasons:
            self.add(text, "allow", POLICIES[found.effect].reason if found.known else "", network=wants)

    def _reasons(self, command: Command, found: ProgramEffects, cwd: str) -> list[str]:
        """Return the reasons why a command needs permission when it runs in `cwd`; empty if it needs none."""
        reasons = [*self._by_effect(command, found, cwd), *self._of_files(command, found, cwd)]
        foreign = [host for host in found.hosts if not rules.is_known(host)]
        if UNKNOWN in foreign and self._closed:
            foreign.remove(UNKNOWN)
        if foreign and found.effect != "publishes":
            named = ", ".join(
                dict.fromkeys("a host that is not known" if host == UNKNOWN else host for host in foreign)
            )
            reasons = [reason for reason in reasons if reason != POLICIES["network"].reason]
            reasons.append(f"reaches the network: {named} is not on the list of hosts")
        if found.sends and not (found.hosts and all(map(rules.is_local, found.hosts))):
            reasons.append(POLICIES["publishes"].reason)
        return reasons

    def _by_effect(self, command: Command, found: ProgramEffects, cwd: str) -> list[str]:
        policy = POLICIES[found.effect]
        effect = found.effect
        if effect == "network" and found.hosts and not found.sends and all(map(rules.is_listed, found.hosts)):
            return []  # a page of documentation or of packages: reading it reveals nothing
        if command.name == "git" and effect == "history" and "config" in command.arguments[:3]:
            return self._git_setting(command)
        if effect == "publishes" and found.local:
            where = Path(absolute(joined(cwd, ".")))
            reach = commit_reach(
                command.name,
                command.arguments,
                where,
                Path(self._scope.places.home),
                self._scope.inside,
                self._is_quiet,
            )
            if reach.stays:
                policy = POLICIES["history"]
            if reach.stays and reach.runs and not self._closed:
                return ["works in a repository whose settings name programs to run"]
        if policy.passes_by == "boundary" and not self._closed:
            if not found.known:
                return [f"is not known to be harmless: {mark_text(command.name)}"]
            return [policy.reason]
        if policy.passes_by == "undo" and not (self._undo.git and self._scope.keeps_git(cwd)):
            return [policy.reason]
        if policy.passes_by == "never" and not (found.effect == "lost" and found.deletes and self._closed):
            return [policy.reason]
        if not self._closed:
            return self._without_boundary(command, found, cwd)
        return []

    def _is_quiet(self, text: str) -> bool:
        """Return whether a command line certainly sends nothing over the network."""
        effects = [
            effects_of(each, self._table) for each in read(text, "/", self._scope.places.home).commands
        ]
        return bool(effects) and all(
            each.known and each.effect not in ("network", "publishes") for each in effects
        )

    def _without_boundary(self, command: Command, found: ProgramEffects, cwd: str) -> list[str]:
        if found.notes:
            return ["keeps files of its own in the home folder"]
        if command.name == "ln" and not all(self._scope.inside(joined(cwd, path)) for path in found.reads):
            return ["makes a link that leads outside of the workspace"]
        if command.name in ("cp", "mv", "rsync") and any(
            path.startswith(("/", "..")) and not self._scope.inside(joined(cwd, path)) for path in found.reads
        ):
            return ["brings files from outside of the workspace"]
        if command.name == "git" and (folder := git_folder_option(command)):
            cwd = joined(cwd, folder)
            if not self._scope.inside(cwd):
                return ["works outside of the workspace"]
        if (
            found.effect == "edits"
            and command.name != "git"
            and any(UNKNOWN in word for word in command.arguments)
        ):
            return ["changes what is not known here"]
        if found.unsure:
            return ["is given something that is not known here"]
        if found.effect == "edits" and not self._scope.inside(cwd) and not (found.writes or found.deletes):
            return ["works outside of the workspace"]
        if found.recursive and any(
            self._scope.holds_home(joined(cwd, path)) for path in found.reads or (".",)
        ):
            return ["searches folders in which keys lie"]
        if command.name == "git" and names_programs(absolute(joined(cwd, "."))):
            return ["works in a repository whose settings name programs to run"]
        return []

    def _git_setting(self, command: Command) -> list[str]:
        said = command.arguments[command.arguments.index("config") :]
        operands = [word for word in said if not word.startswith("-")][1:]
        operands = operands[1:] if operands[:1] in (["set"], ["get"], ["unset"]) else operands
        if not self._closed and operands and UNKNOWN in operands[0]:
            return ["sets something that is not known here"]
        if len(operands) <= 1 and not {"--unset", "--edit", "-e"} & set(command.arguments):
            return []
        if {"--global", "--system"} & set(command.arguments) or not operands:
            return ["changes settings of git for every repository"]
        key = operands[0]
        value = operands[1] if len(operands) > 1 else ""
        if {"--unset", "--unset-all", "unset"} & set(command.arguments) and not value and may_go(key):
            return []
        plain = _GIT_KEY.fullmatch(key) is not None and passes(key, value)
        return (
            [] if plain else [f"sets git-config({mark_text(key)}), which may run a program or send elsewhere"]
        )

    def _of_files(self, command: Command, found: ProgramEffects, cwd: str) -> list[str]:
        reasons: list[str | None] = [self._write_reason(joined(cwd, path)) for path in found.writes]
        reasons += [self._deleted(joined(cwd, path), found.recursive) for path in found.deletes]
        reasons += [
            self._scope.read(joined(cwd, path)) for path in dict.fromkeys(_readable_files(command, found))
        ]
        if command.name == "git" and found.effect not in ("looks", "publishes"):
            read = _read_by_git(command.arguments)
            reasons += [
                self._write_reason(joined(cwd, word))
                for word in command.arguments
                if word.startswith(("/", "../")) and word not in read
            ]
        return [reason for reason in reasons if reason]

    def _write_reason(self, path: str) -> str | None:
        if UNKNOWN in path and not path.startswith("/dev/"):
            return None if self._closed else "writes to a place that is not known here"
        return self._scope.write(path)

    def _deleted(self, path: str, recursive: bool) -> str | None:
        if UNKNOWN in path and self._closed:
            return None
        return self._scope.delete(path, recursive=recursive)


def _readable_files(command: Command, found: ProgramEffects) -> list[str]:
    """Return the arguments of a command that may be files whose contents it reads."""
    if command.name == "git":
        shows = {
            "show",
            "diff",
            "cat-file",
            "blame",
            "grep",
            "archive",
            "log",
            "commit",
            "tag",
            "add",
            "stash",
        }
        words = [word.rpartition(":")[2] for word in command.arguments if shows & set(command.arguments[:3])]
        return [
            word
            for word in words
            if word and not word.startswith("-") and UNKNOWN not in word and "\n" not in word
        ]
    if command.name in _ONLY_NAMES:
        return list(found.reads)
    if command.name == "openssl" and command.arguments[:1] in (("x509",), ("verify",), ("crl",), ("req",)):
        return [
            word for word in command.arguments if re.search(r"\.(?:key|p12|pfx)$", word)
        ]  # others are public
    # Writing is asked about separately.
    without = {*found.texts, *found.writes, *found.deletes}
    return [*found.reads, *(word for word in _files(command.arguments) if word not in without)]


_GIT_READS = words("fetch pull ls-remote apply am")


def _read_by_git(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments that git only reads, such as the path of a remote or a patch; may return all."""
    verb = arguments[:2]
    if verb in (("remote", "add"), ("remote", "set-url")) or _GIT_READS.intersection(verb[:1]):
        return arguments
    if verb[:1] == ("clone",) or verb == ("submodule", "add"):
        places = [word for word in arguments if word.startswith(("/", "../")) or ":" in word]
        # The word after the source is the target.
        return places[:1]
    return ()


def git_folder_option(command: Command) -> str:
    """Return the folder given by `git -C`; empty if the option is not given."""
    arguments = command.arguments
    return next((after for option, after in pairwise(arguments) if option == "-C"), "")


_ENDLESS = frozenset({"/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"})


def _fills_disk(reading: Reading) -> str | None:
    """Return a reason if the command writes an endless source to a file; otherwise None."""
    given = [*(word for c in reading.commands for word in c.arguments), *(path for path, _ in reading.reads)]
    endless = _ENDLESS & {word.rpartition("=")[2] for word in given} or any(
        c.name == "yes" or (c.name == "seq" and "inf" in c.arguments) for c in reading.commands
    )
    names = {command.name for command in reading.commands}
    if not endless or "head" in names or any(word.startswith(("count=", "-c", "-s")) for word in given):
        return None
    lands = (
        any(not path.startswith("/dev/") for path, _ in reading.writes) or {"dd", "cp", "tee", "gzip"} & names
    )
    return "never ends, into a file" if lands else None


def _files(arguments: Sequence[str]) -> list[str]:
    """Return arguments that may be files to read: operands, and text after `=` or `@`."""
    found: list[str] = []
    for word in arguments:
        if len(word) > 4_096 or "\n" in word:
            continue
        if not word.startswith("-"):
            found.append(word.removeprefix("@"))
        for sign in ("=@", "=", "@"):
            if sign in word and (rest := word.partition(sign)[2]):
                found.append(rest)
                break
    return [
        word for word in found if word and not any(mark in word for mark in (UNKNOWN,)) and "://" not in word
    ]


def _poisons(assigned: str) -> bool:
    """Return whether setting this variable may change the behaviour of programs."""
    name = assigned.removeprefix("export ")
    if name != assigned:
        return _PLAIN_VARIABLES.fullmatch(name) is None
    return _POISON.fullmatch(name) is not None
