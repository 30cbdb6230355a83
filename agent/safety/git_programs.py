"""Detection of programs that git would run in a repository even when reading, without running git."""

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
from urllib.parse import unquote

from agent.safety.places import current
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

    Blocking, never waits; in doubt True, outside of a repository False. Computed once per decision.
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
    """Return whether git would read settings from outside of the repository."""
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
    """Yield the settings files of submodules, which git also reads when it shows their state."""
    return islice((common / "modules").rglob("config"), _MAX_MODULES)


def file_names_programs(file: Path) -> bool:
    """Return whether git settings name programs that even reading would run; in doubt True. Blocking."""
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
"""The limit of SQLite instructions for one query."""
_SVN_SENDS = ("commit", "ci", "import", "lock", "unlock")
_SVN_VALUED = ("-m", "--message", "-F", "--file", "-r", "--revision", "--encoding", "--with-revprop")
_OFF = frozenset({"0", "off", "no", "false", "pullonly"})


@dataclass(frozen=True, slots=True)
class CommitReach:
    """The effects of a commit outside of its repository."""

    stays: bool
    """Whether no other machine is contacted."""
    runs: bool = False
    """Whether settings of the repository name programs to run."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """The remotes that a repository sends to, and its hooks, from its settings."""

    sends: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


class _DoubtError(Exception):
    """A file needed for the decision could not be read."""


def commit_reach(
    program: str,
    arguments: Sequence[str],
    folder: Path,
    home: Path,
    inside: Callable[[str], bool],
    is_quiet: Callable[[str], bool],
) -> CommitReach:
    """Return the effects of a commit by `program` in `folder`; in doubt it sends data to other machines.

    `inside` tells whether a path is in the workspace, `is_quiet` whether a command line sends nothing.
    Blocking, never waits.
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
    """Return the nearest entry with one of these names, in a folder or its parents."""
    for place in (folder, *folder.parents):
        for name in names:
            if os.path.lexists(place / name):
                return place / name
    raise _DoubtError


def _text(path: Path) -> str:
    """Return the content of a file; empty if it is missing."""
    try:
        return read_bytes(path, _BYTES)[0].decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _mercurial(folder: Path, home: Path, _: Sequence[str]) -> _Facts:
    settings = (_above(folder, ".hg") / "hgrc", home / ".hgrc", home / ".config/hg/hgrc")
    hooks = [value for path in settings for section, _, value in _lines(_text(path)) if section == "hooks"]
    return _Facts(hooks=tuple(hooks))


def hooks_of_mercurial(file: Path) -> bool:
    """Return whether Mercurial settings contain more than paths of repositories; in doubt True. Blocking."""
    try:
        return any(
            (section, key) != ("ui", "username") and section != "paths"
            for section, key, _ in _lines(_text(file))
        )
    except (_DoubtError, OSError, ValueError):
        return True


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield section, key and value of settings, with continued values joined."""
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
    """Yield the hook scripts of the Subversion repository at an address."""
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
    """Return the rows that a database query gives, as texts. Raises `sqlite3.Error`."""
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
