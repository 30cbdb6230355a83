"""The changes to git's settings that run nothing, by key and value, as listed in `git_settings.yaml`.

Every other setting is unknown, or it names a program, a helper, a filter, another file to read or another
remote. The user is asked about it by key.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from agent.workspace.checkpoints.git_index import Index
from agent.workspace.git import common_folder
from tools.kit.files import read_bytes
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.umask import person_umask

Settings = Mapping[str, tuple[str, ...]]
"""All values by key; the first and the last part of a key are in lower case."""

SETTINGS_FILE = Path(__file__).with_name("git_settings.yaml")
_PLAIN = lazy_pattern(
    r'\s*(\[[\w.-]+(\s+"[^"\\\x00-\x1f]*")?\]|[A-Za-z][\w-]*(\s*=\s*[^"\\;#\x00-\x08\x0b-\x1f]*)?)?\s*'
)
_SECONDS = 10.0
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin",
    "LC_ALL": "C",
    "HOME": "/nonexistent",
}
_ENVIRONMENT |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


def passes(key: str, value: str, remotes: Iterable[str] | None = None) -> bool:
    """Return whether a setting is known to run nothing.

    `remotes` are the names of remotes with an address; None accepts any name.
    """
    plain = normal(key)
    section, _, rest = plain.partition(".")
    for pattern, name, test in _patterns().get(section, ()):
        if pattern.fullmatch(rest) is None:
            continue
        if name == "REMOTE":
            return value == "." or (remotes is None and _is_name(value)) or value in (remotes or ())
        return test.fullmatch(value) is not None
    return False


def may_go(key: str) -> bool:
    """Return whether a setting may be removed without asking, whatever its value."""
    section, _, rest = normal(key).partition(".")
    return section != "remote" and any(each[0].fullmatch(rest) for each in _patterns().get(section, ()))


@cache
def known_commands() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Return commands that set known keys, as words with the options last, and for each the keys it sets."""
    rows = _table()["commands"].items()
    return {tuple(words.split()): tuple(str(keys).split(", ")) for words, keys in rows}


def normal(key: str) -> str:
    """Return a key as git lists it: in lower case, except for the middle part."""
    section, _, rest = key.partition(".")
    middle, dot, last = rest.rpartition(".")
    return f"{section.lower()}.{middle}{dot}{last.lower()}"


def keys_to_ask(before: Settings, after: Settings, had: Mapping[str, str]) -> list[str]:
    """Return the changed keys that the user must be asked about, in order.

    `had` are the addresses of remotes before the session, by name. A changed address is never accepted
    without asking.
    """
    remotes = {key[7:-4] for key in after if key.startswith("remote.") and key.endswith(".url")}
    found: list[str] = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key, ()), after.get(key, ())
        if old == new:
            continue
        if not new:
            is_whole = key.startswith("remote.") and key[7:].rpartition(".")[0] not in remotes
            fine = is_whole or key.startswith("branch.") or all(passes(key, value) for value in old)
        else:
            fine = all(value in old or passes(key, value, remotes) for value in new)
        if fine and new and key.startswith("remote.") and key.endswith(".url"):
            known = had.get(key[7:-4])
            fine = _is_name(key[7:-4]) and len(new) == 1 and (known == new[0] or (not old and known is None))
        if not fine:
            found.append(key)
    return found


def all_settings(file: Path) -> Settings:
    """Return all settings in a git file, without includes. Raises `OSError` if git cannot read it."""
    found: dict[str, list[str]] = {}
    output = _git("config", "--file", str(file), "--no-includes", "--null", "--list")
    for item in output.decode("utf-8", "surrogateescape").split("\0"):
        if item:
            key, _, value = item.partition("\n")
            found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def take_over(file: Path, key: str, old: Sequence[str], new: Sequence[str]) -> None:
    """Replace the values `old` of a key in a file with `new`. Raises `OSError` if git fails."""
    if old:
        _git("config", "--file", str(file), "--unset-all", key)
    for value in new:
        _git("config", "--file", str(file), "--add", key, value)


def is_plain(text: bytes, known: bytes) -> bool:
    """Return whether every program reads the settings in `text` as git does. Lines in `known` are not
    checked.
    """
    lines = set(known.splitlines())
    fresh = (line for line in text.splitlines() if line not in lines)
    return all(_PLAIN.fullmatch(line.decode("utf-8", "replace")) is not None for line in fresh)


def _git(*words: str) -> bytes:
    try:
        done = subprocess.run(
            ["git", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            umask=person_umask(),
            cwd="/",
            timeout=_SECONDS,
            check=True,
        )
    except subprocess.SubprocessError as error:
        raise OSError(f"git cannot read or write these settings: {error}") from error
    return done.stdout


def _is_name(text: str) -> bool:
    return re.fullmatch(r"\w[\w./-]{0,200}", text) is not None


@cache
def _table() -> dict[str, Any]:
    from tools.kit.yaml_text import load_table

    return cast("dict[str, Any]", load_table(SETTINGS_FILE))


def examples() -> Iterator[tuple[str, str, bool]]:
    """Yield each example in the table: key, value, and whether it passes."""
    for kind, pairs in _table()["examples"].items():
        yield from ((key, value, kind == "passes") for key, value in pairs)


@cache
def _patterns() -> dict[str, list[tuple[re.Pattern[str], str, re.Pattern[str]]]]:
    table = _table()
    found: dict[str, list[tuple[re.Pattern[str], str, re.Pattern[str]]]] = {}
    for keys, value in table["passes"].items():
        for key in (each.strip() for each in keys.split(",")):
            section, _, rest = key.partition(".")
            pattern = re.compile(r"[^\x00-\x1f]+".join(map(re.escape, rest.split("*"))))
            test = re.compile(table["address"] if value == "ADDRESS" else value)
            found.setdefault(section, []).append((pattern, value, test))
    return found


_CHANGERS = (b"autocrlf", b"eol", b"attributesfile", b"include", b"safecrlf", b"worktreeconfig")
_FILTERS = frozenset((b"text", b"eol", b"crlf", b"ident", b"filter", b"working-tree-encoding"))
"""Attributes that make git change bytes. `-text` and `binary` prevent that."""
_BLANKS = b" \t\r\n"
_ATTRIBUTES = ".gitattributes"
_SETTINGS_BYTES = 1_000_000


def bytes_are_gits(root: Path, index: Index, paths: Iterable[str]) -> bool:
    """Return whether git stores all files below `root` without changing bytes. `paths` are all paths there.

    Blocking; never raises. False in doubt, which only costs time.
    """
    if index.top is None or index.git is None:
        return False
    below = {path for names in (paths, index.files) for path in names if path.endswith(_ATTRIBUTES)}
    if not all(os.path.lexists(root / path) for path in below):
        return False  # git reads a missing file from the index
    above = [folder for folder in (root, *root.parents) if index.top in (folder, *folder.parents)]
    attributes = [
        *(folder / _ATTRIBUTES for folder in above),
        *(root / path for path in below),
        *_attribute_files(index.git),
    ]
    changing = any(_has(file, _filters) for file in attributes)
    return not changing and not any(_has(file, _changes_bytes) for file in _settings(index.git))


def _attribute_files(git: Path) -> list[Path]:
    return [
        *(folder / "info" / "attributes" for folder in (git, common_folder(git))),
        *(folder / "git" / "attributes" for folder in _personal()),
        Path("/etc/gitattributes"),
    ]


def _settings(git: Path) -> list[Path]:
    home = os.environ.get("HOME", "")
    return [
        common_folder(git) / "config",
        git / "config.worktree",
        *(folder / "git" / "config" for folder in _personal()),
        *([Path(home) / ".gitconfig"] if home else []),
        Path(os.environ.get("GIT_CONFIG_GLOBAL") or "/etc/gitconfig"),
        Path("/etc/gitconfig"),
    ]


def _personal() -> list[Path]:
    """Return the folders in which the user's git settings may be."""
    home = os.environ.get("HOME", "")
    places = (os.environ.get("XDG_CONFIG_HOME", ""), f"{home}/.config" if home else "")
    return [Path(place) for place in places if place]


def _has(file: Path, changes: Callable[[bytes], bool]) -> bool:
    """Return whether `changes` is true for a file's content; True if it is unreadable, False if missing."""
    try:
        return changes(read_bytes(file.resolve(), _SETTINGS_BYTES)[0].lower())
    except FileNotFoundError:
        return False
    except (OSError, RuntimeError):
        return True


def _changes_bytes(settings: bytes) -> bool:
    return any(word in settings for word in _CHANGERS)


def _filters(attributes: bytes) -> bool:
    """Return whether a line of an attributes file sets an attribute that makes git change bytes."""
    lines = (line.lstrip(_BLANKS) for line in attributes.split(b"\n"))
    # A quoted pattern is split at its spaces, so that at worst a part of it counts as an attribute.
    words = (word for line in lines if not line.startswith(b"#") for word in line.split()[1:])
    return any(word.partition(b"=")[0] in _FILTERS for word in words)
