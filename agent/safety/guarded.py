"""Guarded files: files that make programs run later. Changing them needs permission in every mode.

A start-up file, a Git hook or a CI workflow runs programs later without asking. So these files, and Hermes's
own protections, are recognised by name, whether they exist yet or not. Every spelling counts that a file
system may accept: `.GIT`, `.git.`, `.g‌it`, `GIT~1`.

Paths may be marked text of the shell reader, in which marker characters stand for unknown parts (see
`agent.safety.reader.tree`); symbolic links are followed.
"""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from agent.safety.places import LONGEST_PATH, PathCache, absolute, current, parts
from agent.safety.reader.tree import GLOBS, UNKNOWN, literal, pattern, words
from tools.kit.lazy_pattern import lazy_pattern
from tools.secret_places import STORES, STORES_ANYWHERE, rows
from tools.services.actions import Action, ChangeSettings, DeletePath, WritePath

_EDITOR = "settings of an editor, which can run programs"
_SHELL = "a start-up file of the shell or the session"
_CI = "what a CI service runs"
_HOOKS = "what a package manager or a Git hook runs"
_TOOL = "a start-up file of a program"
_GIT_SETTINGS = "settings of Git, which can run programs"
_KEYS = "keys and logins"
_AGENT = "settings of an agent, which can run programs"
_PYTHON = "what Python runs whenever it starts"

_BY_PLACE = {
    _EDITOR: words(
        ".vscode .vscode-server .idea .fleet .zed .vs .theia .cursor .windsurf .sublime-project .helix "
        ".devcontainer .devcontainer.json .exrc .vimrc .gvimrc .nvimrc .nvim.lua .lvimrc .vim .ideavimrc "
        ".emacs .emacs.d .spacemacs .doom.d .dir-locals.el .dir-locals-2.el .nanorc .kakrc"
    ),
    _SHELL: words(
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_functions .bash_completion "
        ".profile .login .logout .cshrc .tcshrc .kshrc .mkshrc .shrc .ashrc .envrc .direnv .direnvrc "
        ".zshrc .zshenv .zprofile .zlogin .zlogout .zsh .oh-my-zsh .zpreztorc .p10k.zsh .inputrc "
        ".xinitrc .xprofile .xsession .xsessionrc .xresources .pam_environment .xonshrc .crontab crontab "
        ".screenrc .tmux.conf"
    ),
    _CI: words(
        ".gitlab-ci.yml .gitlab-ci.yaml .gitlab-ci jenkinsfile .circleci .travis.yml .drone.yml "
        ".woodpecker .woodpecker.yml .woodpecker.yaml azure-pipelines.yml azure-pipelines.yaml "
        ".azure-pipelines .azuredevops bitbucket-pipelines.yml appveyor.yml .appveyor.yml .buildkite "
        ".teamcity .semaphore wercker.yml .cirrus.yml .cirrus.star codemagic.yaml bamboo-specs .build.yml "
        ".builds .tekton cloudbuild.yaml cloudbuild.yml buildspec.yml .cm .codefresh"
    ),
    _HOOKS: words(
        ".npmrc .yarnrc .yarnrc.yml .yarn .pnpmfile.cjs .pnpmfile.js pnpmfile.js bunfig.toml .husky "
        ".githooks .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml lefthook.yml "
        ".lefthook.yml lefthook-local.yml .overcommit.yml pip.conf .pydistutils.cfg .pypirc .condarc .gemrc "
        ".mvn .sbtopts .jvmopts .bazelrc .bazeliskrc nuget.config .mise.toml mise.toml .mise .rtx.toml "
        ".simple-git-hooks.json simple-git-hooks.json .simple-git-hooks.cjs"
    ),
    _TOOL: words(
        ".curlrc .wgetrc .gdbinit .lldbinit .pdbrc .pdbrc.py .pythonrc .pythonrc.py .pythonstartup .irbrc "
        ".pryrc .psqlrc .sqliterc .my.cnf .mylogin.cnf .rprofile .renviron .ghci .ripgreprc .lessfilter "
        ".lesskey .mailcap .forward .procmailrc .erlang .iex.exs .octaverc .perldb .guile .sbclrc "
        ".sudo_as_admin_successful .hgrc .ackrc .ctags.d"
    ),
    _GIT_SETTINGS: words(".gitconfig .gitmodules .git-credentials .gittemplate"),
    _KEYS: words(
        ".ssh .gnupg .netrc .aws .kube .docker .azure .password-store authorized_keys authorized_keys2 "
        ".rhosts .shosts"
    ),
    _AGENT: words(".claude .claude.json .mcp.json .codex .gemini .aider.conf.yml .continue .opencode .kiro"),
    _PYTHON: words("sitecustomize.py usercustomize.py"),
}

ANYWHERE: dict[str, str] = {name: place for place, names in _BY_PLACE.items() for name in names}
"""Names that are guarded in any folder, with everything inside if they are folders."""

NESTED: tuple[tuple[tuple[str, ...], str], ...] = (
    ((".git", "hooks"), "Git's own folder, whose hooks and settings run programs"),
    ((".git", "config"), "Git's own folder, whose hooks and settings run programs"),
    ((".github", "workflows"), _CI),
    ((".github", "actions"), _CI),
    ((".gitea", "workflows"), _CI),
    ((".gitea", "actions"), _CI),
    ((".forgejo", "workflows"), _CI),
    ((".forgejo", "actions"), _CI),
    ((".gitlab", "ci"), _CI),
    ((".vscode", "tasks.json"), _EDITOR),
    ((".vscode", "settings.json"), _EDITOR),
    ((".vscode", "launch.json"), _EDITOR),
    ((".ssh", "authorized_keys"), _KEYS),
    ((".ssh", "config"), _KEYS),
    ((".cargo", "config"), _HOOKS),
    ((".cargo", "config.toml"), _HOOKS),
    ((".cargo", "credentials.toml"), _HOOKS),
    ((".cargo", "bin"), _HOOKS),
    ((".cargo", "env"), _SHELL),
    ((".bundle", "config"), _HOOKS),
    ((".gradle", "init.gradle"), _HOOKS),
    ((".gradle", "init.gradle.kts"), _HOOKS),
    ((".gradle", "init.d"), _HOOKS),
    ((".m2", "settings.xml"), _HOOKS),
    ((".pip", "pip.conf"), _HOOKS),
    ((".hg", "hgrc"), _HOOKS),
    ((".hg", "hgrc-not-shared"), _HOOKS),
    (("_darcs", "prefs", "defaults"), _HOOKS),
    (("_darcs", "prefs", "prefs"), _HOOKS),
    ((".jj", "repo", "config.toml"), _HOOKS),
    ((".composer", "config.json"), _HOOKS),
    ((".config", "fish"), _SHELL),
    ((".config", "autostart"), _SHELL),
    ((".config", "systemd"), _SHELL),
    ((".config", "git"), _GIT_SETTINGS),
    ((".config", "pip"), _HOOKS),
    ((".local", "bin"), _SHELL),
)
"""Sequences of names guarded in any folder. One of them may be unknown, as in `$D/hooks/pre-commit`."""

GIT_HARMLESS = frozenset(
    {
        ("info", "exclude"),
        ("commit_editmsg",),
        ("merge_msg",),
        ("squash_msg",),
        ("description",),
        ("index.lock",),
        ("head.lock",),
        ("config.lock",),
    }
)
"""Files in `.git` that may be written: texts, and locks left by a dead process."""

HOME_OPEN: tuple[tuple[str, ...], ...] = (
    ("bin",),
    ("library", "launchagents"),
    ("library", "launchdaemons"),
    ("library", "preferences"),
    ("library", "application support"),
    ("go", "bin"),
    (".local", "bin"),
    (".local", "share", "applications"),
    (".local", "share", "systemd"),
    (".local", "share", "dbus-1"),
    (".local", "share", "nautilus", "scripts"),
    (".config", "autostart"),
    (".config", "systemd"),
    (".config", "environment.d"),
    (".config", "fish"),
    (".config", "nushell"),
    (".config", "powershell"),
    (".config", "git"),
    (".config", "nvim"),
    (".config", "vim"),
    (".config", "emacs"),
    (".config", "helix"),
    (".config", "zed"),
    (".config", "direnv"),
    (".config", "code"),
)
"""Paths in the home folder that are guarded even if the workspace is inside them."""

HOME_STORES = tuple(tuple(row.lower().rstrip("*").split("/")) for row in rows(STORES_ANYWHERE + STORES))
"""Paths of keys and logins below the home folder."""

HOME_FREE: tuple[tuple[str, ...], ...] = (
    (".cache",),
    (".local", "share"),
    (".local", "state"),
    (".trash",),
    (".npm", "_cacache"),
    (".m2", "repository"),
    (".gradle", "caches"),
    (".cargo", "registry"),
    (".cargo", "git"),
)
"""Hidden folders in the home folder that hold data and caches; they are not guarded."""

SYSTEM: tuple[tuple[str, ...], ...] = (
    ("etc",),
    ("usr",),
    ("bin",),
    ("sbin",),
    ("lib",),
    ("lib32",),
    ("lib64",),
    ("boot",),
    ("sys",),
    ("opt",),
    ("nix",),
    ("proc", "sys"),
    ("run", "systemd"),
    ("var", "spool", "cron"),
    ("var", "spool", "at"),
    ("private", "etc"),
    ("library",),
    ("system",),
    ("applications",),
)
"""Folders of the system, guarded unless the workspace or the home folder is inside them."""

START_UP = (
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".gitconfig",
    ".ssh/authorized_keys",
    ".ssh/config",
    ".config/fish/config.fish",
    ".config/git/config",
    ".vimrc",
    ".netrc",
)
"""Files below the home folder that are recognised when a hard link gives them another name."""

SHORT_NAMES = {
    "git~1": ".git",
    "gitmod~1": ".gitmodules",
    "vscode~1": ".vscode",
    "github~1": ".github",
    "hermes~1": ".hermes",
    "ssh~1": ".ssh",
}
"""Short (8.3) names by which Windows file systems know guarded names."""


_MARK = lazy_pattern(f"[{''.join(GLOBS)}{UNKNOWN}]")
is_open = _MARK.search
"""A function that returns a match if a marked text may stand for other texts, otherwise None."""
_ENDING = lazy_pattern(r"[*?…]+\.\w+")
_NESTED_NAMES = frozenset(name for start, _ in NESTED for name in start)
_KNOWN = frozenset({".git", ".hermes", *ANYWHERE}) | _NESTED_NAMES
_BARE = frozenset({"hooks", "config", "head"})
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_TABLES = (*SYSTEM, *HOME_OPEN, *HOME_FREE, *HOME_STORES, *GIT_HARMLESS)
_TELLING = _KNOWN | _BARE | _PACKAGES | {"scratch", *(name for start in _TABLES for name in start)}
"""Every name in any of the tables."""
_SYSTEM = {start[0]: [each for each in SYSTEM if each[0] == start[0]] for start in SYSTEM}
_STORES = {start[0]: [each for each in HOME_STORES if each[0] == start[0]] for start in HOME_STORES}
_OWN = "Hermes' own settings and guard rails"
_PROJECT = "settings of Hermes that come with the project"
_GIT = "Git's own folder, whose hooks and settings run programs"
_SVN = "a repository of Subversion, whose hooks run programs"
_TICK = 2_000_000_000
_LINKED = "another name of a start-up file"


def guarded_reason(
    action: Action, workspace: Path, home: Path | None = None, *, own: Path | None = None
) -> str | None:
    """Return why `action` needs permission in every mode, as a clause for the user; None if it does not.

    Only writing and deleting files and changing settings are judged. `home` is the user's home folder, `own`
    Hermes's home folder (default: `.hermes` in `home`).
    """
    home = home or Path.home()
    match action:
        case WritePath():
            place = guarded_place(str(action.path), workspace, home, own=own)
            return f"changes {place}" if place else None
        case DeletePath():
            place = guarded_place(str(action.path), workspace, home, own=own, whole=True)
            return f"deletes {place}" if place else None
        case ChangeSettings():
            return f"changes {_OWN}"
        case _:
            return None


def guarded_place(
    path: str, workspace: Path, home: Path, *, own: Path | None = None, whole: bool = False
) -> str | None:
    """Return a description of the guarded file at a marked absolute path; None if it is not guarded.

    The description is a noun phrase such as `a start-up file of the shell`. `whole` also includes everything
    below the path: for deleting, moving, or copying a folder. Pass the path of the resulting file, not its
    folder: `cp -r autostart ~/.config` writes `~/.config/autostart`.
    """
    return guard(workspace, home, own).leads_to(path, whole=whole)


def known_name(path: str, *, whole: bool = False) -> str | None:
    """Return a description of the file at a relative path if it is guarded in any folder; otherwise None.

    Only the names in `path` count (`.vscode/tasks.json`, `lib/.envrc`). The disk is not read. `whole` means
    the same as in `guarded_place`.
    """
    names = parts(f"/{path}")
    return _by_name(names, tuple(map(_plain, names)), whole)


def led_to(root: Path) -> dict[str, str]:
    """Return the targets of guarded names in a folder that are links (`.envrc -> x`), with descriptions of
    the names.

    Checks the names in the folder itself, and those in `.git`, `.github` and the like.
    """
    try:
        top = os.path.realpath(root)
        changed = os.stat(top).st_mtime_ns  # noqa: PTH116 - as cheap as it gets
        is_fresh = changed > time.time_ns() - _TICK
        names = (_guarded_names.__wrapped__ if is_fresh else _guarded_names)(top, changed)
    except (OSError, ValueError):
        return {}
    led = {os.path.realpath(f"{top}/{name}"): (name, place) for name, place in names}
    return {
        real: place
        for real, (name, place) in led.items()
        if real != f"{top}/{name}" and not f"{top}/".startswith(f"{real}/")
    }


@lru_cache(maxsize=64)
def _guarded_names(folder: str, _changed: int) -> tuple[tuple[str, str], ...]:
    """Return guarded names in a folder that may be links, with their descriptions.

    The result is cached until the folder's modification time changes. Raises `OSError`.
    """
    with os.scandir(folder) as entries:
        names = {each.name: each.is_symlink() for each in entries}
    if names.get(".git"):
        del names[".git"]  # A repository elsewhere is covered separately.
    links = [(name, known_name(name)) for name, is_link in names.items() if is_link]
    nested = [("/".join(row), place) for row, place in NESTED if row[0] in names]
    return (*((name, place) for name, place in links if place), *nested)


@lru_cache(maxsize=32)
def guard(workspace: Path, home: Path, own: Path | None = None) -> GuardedPlaces:
    """Return the guarded files of one user and workspace, for a caller that checks many paths. Cached."""
    return GuardedPlaces(workspace, home, own or home / ".hermes")


class _Answers:
    """Results that are cached during one decision."""

    def __init__(self) -> None:
        self.paths: dict[tuple[str, bool], str | None] = {}
        self.below: dict[tuple[str, bool], str | None] = {}
        """Results that hold for all names without special meaning in one folder."""


class GuardedPlaces:
    """The tables of guarded names, completed with the folders of one user and workspace."""

    def __init__(self, workspace: Path, home: Path, own: Path) -> None:
        self._home = home
        self._workspace = workspace
        self._workspaces = _both(workspace)
        self._homes = _both(home)
        self._owns = _both(own)
        named = {name for path in (*self._workspaces, *self._homes, *self._owns) for name in path}
        self._significant = _TELLING | named | {name.casefold() for name in named}
        self.is_insignificant = lru_cache(maxsize=2_048)(self._is_insignificant)
        """A function that returns whether a name has no special meaning, so that paths can share a result."""

    def leads_to(self, path: str, *, whole: bool = False) -> str | None:
        """Return a description of the guarded file at a marked absolute path; see `guarded_place`."""
        look = current()
        answers = look.once(self, _Answers)
        key = (path, whole)
        if key in answers.paths:
            return answers.paths[key]
        told = None
        if absolute(path) == path and look.is_itself(path):
            folder, _, name = path.rpartition("/")
            if name and self.is_insignificant(name):
                if (folder, whole) not in answers.below:
                    answers.below[folder, whole] = self._answer(
                        path, self._significant_part(path), look, whole
                    )
                return answers.below[folder, whole]
            told = self._significant_part(path) if name else None
        found = answers.paths[key] = self._answer(path, told, look, whole)
        return found

    def reason(self, does: str, path: str, *, whole: bool = False) -> str | None:
        """Return the reason against an effect on a marked absolute path, such as `deletes a start-up file`,
        or `may delete a start-up file` if only a pattern in the path may match one; None if there is no
        reason.
        """
        place = self.leads_to(path, whole=whole)
        if place and is_open(path):
            known = ""
            for name in parts(path):
                found = [each for each in ANYWHERE if is_open(name) and _may_be(name, each)]
                there = (each for each in found if not current().missing(f"{known}/{each}"))
                known += f"/{next(there, 'x') if is_open(name) else name}"
            does = does if self.leads_to(known, whole=whole) else f"may {does.removesuffix('s')}"
        return place and f"{does} {place}"

    def _answer(self, path: str, told: str | None, look: PathCache, whole: bool) -> str | None:
        if told is None:
            return self._find(path, look, whole)
        return look.once((self, told, whole), lambda: self._find(path, look, whole))

    def _significant_part(self, path: str) -> str | None:
        """Return the path without trailing names that have no special meaning; None if it has none."""
        names = path.split("/")
        known = len(names)
        while known > 1 and self.is_insignificant(names[known - 1]):
            known -= 1
        return "/".join(names[:known]) if known < len(names) else None

    def _find(self, path: str, look: PathCache, whole: bool) -> str | None:
        if len(path) > LONGEST_PATH and not is_open(path):
            return None
        place = self._place(parts(path), whole)
        if place is None and "\\" in path:
            place = self._place(parts(path.replace("\\", "/")), whole)
        if place is None and (real := _on_disk(path, look)) != path:
            place = self._place(parts(real), whole)
        place = place or self._led_to(path, whole, look)
        return place or (None if whole else _other_name(path, self._home, look))

    def _led_to(self, path: str, whole: bool, look: PathCache) -> str | None:
        """Return the description of the guarded link in the workspace that leads to this path; None without
        one.
        """
        found = look.once((self, "led to"), lambda: led_to(self._workspace))
        if not found or is_open(path):
            return None
        names = parts(_on_disk(path, look))
        for real, place in found.items():
            target = parts(real)
            if _below(names, target) is not None or (whole and _below(target, names) is not None):
                return place
        return None

    def _is_insignificant(self, name: str) -> bool:
        if not _is_simple(name) or "\\" in name or name.startswith(".") or name in self._significant:
            return False
        plain = name.casefold()
        return plain not in self._significant and _by_ending((plain,), anywhere=True) is None

    def _place(self, names: tuple[str, ...], whole: bool) -> str | None:
        plain = tuple(map(_plain, names))
        return (
            self._own(names, whole)
            or _by_name(names, plain, whole)
            or self._in_home(names, plain, whole)
            or self._in_system(names, plain)
            or (None if _BARE.isdisjoint(plain) else _bare_repository(names))
        )

    def _own(self, names: tuple[str, ...], whole: bool) -> str | None:
        for own in self._owns:
            rest = _below(names, own)
            if rest is not None and rest[:1] != ("scratch",) and not self._in_copy(names, own):
                return _OWN
            if whole and _below(own, names) is not None:
                return _OWN
        return None

    def _in_copy(self, names: tuple[str, ...], own: tuple[str, ...]) -> bool:
        """Return whether the path is in a copy of the workspace made by Hermes."""
        copies = (*own, "copies")
        # Names with marks are not certainly inside it.
        return any(
            space[: len(copies)] == copies and names[: len(space)] == space for space in self._workspaces
        )

    def _in_home(self, names: tuple[str, ...], plain: tuple[str, ...], whole: bool) -> str | None:
        """Return a description of a guarded entry in the home folder; None for other paths, data, caches and
        the workspace.
        """
        for home in self._homes:
            rest = _below(names, home)
            if rest is None or not rest:
                continue
            below = plain[len(home) :]
            if any(_starts(below, start, whole) for start in HOME_OPEN):
                return "what the person's session starts or finds on its path"
            if any(_starts(below, start, whole) for start in _STORES.get(below[0], ())):
                return "keys and logins"
            if below[0].startswith(".") and not self._is_free(names, below, (*home, rest[0])):
                return "settings in the person's home folder"
        return None

    def _is_free(self, names: tuple[str, ...], below: tuple[str, ...], entry: tuple[str, ...]) -> bool:
        """Return whether a hidden entry of the home folder holds data or caches, Hermes's own files, or a
        workspace that contains the path.
        """
        if any(_starts(below, free, False) for free in HOME_FREE):
            return True
        if any(_below(own, entry) is not None for own in self._owns):
            return True  # checked as a file of Hermes
        inside = (space for space in self._workspaces if _below(space, entry) is not None)
        return any(_below(names, space) is not None for space in inside)

    def _in_system(self, names: tuple[str, ...], plain: tuple[str, ...]) -> str | None:
        for start in _SYSTEM.get(plain[0], ()) if plain else ():
            if plain[: len(start)] == start:
                inside = any(_below(names, space) is not None for space in (*self._workspaces, *self._homes))
                return None if inside else "files of the system"
        return None


def _by_name(names: tuple[str, ...], plain: tuple[str, ...], whole: bool) -> str | None:
    """Return the description of a path that is guarded in any folder by its names; otherwise None."""
    if _KNOWN.isdisjoint(plain) and not _any_open(plain):
        return _by_ending(plain) if plain else None
    for at, name in enumerate(plain):
        marked = is_open(name)
        if name == ".git" or (marked and _may_be(name, ".git")):
            if plain[at + 1 :] not in GIT_HARMLESS:
                return _GIT
        elif place := ANYWHERE.get(name) or (_guess_name(name, names[:at]) if marked else None):
            return place
        elif name == ".hermes" and plain[at + 1 : at + 2] not in ((), ("scratch",), ("copies",)):
            return _PROJECT
        if place := _nested(plain[at : at + 3], whole):
            return place
    return _by_ending(plain) if plain else None


def _by_ending(plain: tuple[str, ...], *, anywhere: bool = False) -> str | None:
    """Return the description of a path guarded by prefix or extension; `anywhere` ignores its folder."""
    last = plain[-1]
    if last.endswith(".code-workspace"):
        return "settings of an editor, which can run programs"
    if last.endswith((".pth", ".egg-link")) and (anywhere or not _PACKAGES.isdisjoint(plain)):
        return "what Python runs whenever it starts"
    if last.startswith("jenkinsfile."):
        return "what a CI service runs"
    return None


def _nested(plain: tuple[str, ...], whole: bool) -> str | None:
    """Return the description of a path that is guarded by several names, as `.github/workflows` is, or None.

    One of the names may be unknown.
    """
    if _NESTED_NAMES.isdisjoint(plain[:2]):
        return None
    for start, place in NESTED:
        if len(plain) < len(start) and not (whole and len(start) == 2):
            continue
        pairs = list(zip(plain, start, strict=False))
        if any(name == known for name, known in pairs) and all(
            name == UNKNOWN or _may_be(name, known) for name, known in pairs
        ):
            return place
    return None


def _guess_name(name: str, above: Sequence[str]) -> str | None:
    """Return the description of a guarded file that a name with wildcards may match; None if there is none.

    A name that is only wildcards does not count. A name like `*.py` counts only if the folder has such a
    file.
    """
    text = literal(name)
    if not text.strip("*?[…."):
        return None
    found = [known for known in ANYWHERE if _may_be(name, known)]
    if found and _ENDING.fullmatch(text):
        folder = "/".join(("", *above))
        look = current()
        found = [] if is_open(folder) else [each for each in found if not look.missing(f"{folder}/{each}")]
    return ANYWHERE[found[0]] if found else None


def _may_be(name: str, known: str) -> bool:
    """Return whether a name equals the known one or may match it; a fully unknown name does not count."""
    if name == known:
        return True
    if name == UNKNOWN or not is_open(name):
        return False
    return pattern(name).fullmatch(known) is not None


def _is_simple(name: str) -> bool:
    """Return whether file systems can disagree about a name only in the case of its letters."""
    return name.isascii() and "~" not in name and name[-1:] not in (".", " ") and ":" not in name


@lru_cache(maxsize=2_048)
def _plain(name: str) -> str:
    """Return a name in the form that the most tolerant file system would use to compare it."""
    if _is_simple(name):
        return name.casefold()
    visible = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    folded = visible.partition(":")[0].rstrip(" .").casefold() or name
    return SHORT_NAMES.get(folded, folded)


def _on_disk(path: str, look: PathCache) -> str:
    """Return the path with links followed, as far as it has no marks for unknown parts."""
    known, rest = path, ""
    if not path.isascii() and (mark := _MARK.search(path)) is not None:
        at = path.rfind("/", 0, mark.start())
        known, rest = path[:at] or "/", path[at:]
    try:
        real = look.real(known)
    except (OSError, ValueError):
        return path
    return f"{real}{rest}" if real != known else path


def _bare_repository(names: tuple[str, ...]) -> str | None:
    """Return a description of `config`, `HEAD` or `hooks` in a bare Git repository; otherwise None.

    `hooks` in a Subversion repository counts too.
    """
    for at, name in enumerate(names):
        if name.casefold() not in ("hooks", "config", "head"):
            continue
        folder = "/" + "/".join(names[:at])
        if is_open(folder):
            return None
        if all(Path(folder, inner).is_dir() for inner in ("objects", "refs")):
            return _GIT
        if name.casefold() == "hooks" and all(
            Path(folder, each).is_dir() for each in ("db", "locks", "conf")
        ):
            return _SVN
    return None


def _other_name(path: str, home: Path, look: PathCache) -> str | None:
    """Return the description of a file that is a hard link to a start-up file in the home; otherwise None."""
    if is_open(path) or look.missing(path):
        return None
    try:
        status = os.stat(path)  # noqa: PTH116 - as cheap as it gets
    except (OSError, ValueError):
        return None
    if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return None
    for name in START_UP:
        try:
            if os.path.samestat(status, (home / name).stat()):
                return f"{_LINKED} (~/{name})"
        except OSError:
            continue
    return None


def _both(path: Path) -> tuple[tuple[str, ...], ...]:
    """Return the components of a folder's path, as written and with links followed."""
    return tuple(dict.fromkeys((parts(str(path)), parts(os.path.realpath(path)))))


def _below(names: Sequence[str], folder: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names below `folder`, empty for the folder itself; None if the path is outside of it."""
    if len(names) < len(folder):
        return None
    start = tuple(names[: len(folder)])
    if start == folder or (_any_open(start) and all(map(_may_be, start, folder))):
        return tuple(names[len(folder) :])
    return None


def _any_open(names: Sequence[str]) -> bool:
    """Return whether any of the names has a mark, so that it may stand for others. Marks are not ASCII."""
    return not "".join(names).isascii() and any(map(is_open, names))


def _starts(names: Sequence[str], start: Sequence[str], whole: bool) -> bool:
    """Return whether a path is `start` or below it; with `whole` also if it is above it."""
    shared = min(len(names), len(start))
    if len(names) < len(start) and not whole:
        return False
    if not _any_open(names[:shared]):
        return tuple(names[:shared]) == tuple(start[:shared])
    return all(map(_may_be, names[:shared], start[:shared]))
