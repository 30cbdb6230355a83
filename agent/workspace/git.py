"""The only way to run git: for reading, and without running anything that a repository configures.

The configuration of a repository can name programs: a file system monitor, hooks, filters, diff and merge
drivers, or more files to include. So git never sees it. Each call gets a temporary git folder with links to
the objects and references of the repository. Hermes writes its configuration, which has only harmless
settings of the repository.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from agent.errors import HermesError
from tools.kit.children import kill_child, start_child
from tools.kit.files import read_bytes
from tools.kit.private_folders import PrivateFolder
from tools.kit.threads import in_thread
from tools.text.safe_text import clean

_MAX_BYTES = 4_096
_HEADS = "refs/heads/"
_SHORT_HASH = 7
_IN_TABLES = "ref: refs/heads/.invalid"
"""The content of `HEAD` in every repository that stores refs in tables."""
_TABLE_BYTES = 20_000_000


def top_folder(folder: Path) -> Path | None:
    """Return the nearest folder with a `.git`, from `folder` upwards; None outside of a repository."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)


def git_folder(top: Path) -> Path | None:
    """Return the git folder of the work tree `top`.

    This is the folder `.git`, or the target of the file `.git` in a linked work tree.
    """
    dot_git = top / ".git"
    # Unlike `Path.is_dir`, this does not raise if a link leads into a folder without access.
    if os.path.isdir(dot_git):  # noqa: PTH112
        return dot_git
    line = _line(dot_git)
    if line is None or not line.startswith("gitdir:"):
        return None
    return _existing(top / line.removeprefix("gitdir:").strip())


def common_folder(git: Path) -> Path:
    """Return the folder with the data shared by all work trees of a repository, such as `info/exclude`.

    Only the git folder of a linked work tree may name it. In any other, an attacker could have added a
    `commondir` file to make git read other settings.
    """
    if git.parent.name != "worktrees":
        return git
    line = _line(git / "commondir")
    common = _existing(git / line) if line else None
    return common if common is not None and common == _existing(git.parent.parent) else git


@dataclass(frozen=True, slots=True)
class Checkout:
    """The checked-out branch or, if there is none, the beginning of the commit's hash."""

    name: str
    detached: bool = False


def checkout(root: Path) -> Checkout | None:
    """Return what is checked out in the repository that contains `root`, for display; None outside of one.

    Runs nothing and never raises.
    """
    top = top_folder(root)
    git = git_folder(top) if top is not None else None
    head = _head(git) if git is not None else None
    if not head:
        return None
    if head.startswith("ref:"):
        name = _display(head.removeprefix("ref:").strip().removeprefix(_HEADS))
        return Checkout(name) if name else None
    is_hash = len(head) in (40, 64) and all(character in "0123456789abcdef" for character in head)
    return Checkout(head[:_SHORT_HASH], detached=True) if is_hash else None


def branch(root: Path) -> str | None:
    """Return the name of the checked-out branch or commit; None outside of a repository."""
    found = checkout(root)
    return found.name if found is not None else None


def _head(git: Path) -> str | None:
    head = _line(git / "HEAD")
    if head != _IN_TABLES:
        return head
    from agent.workspace.checkpoints.git_refs import HEAD, Refs
    from agent.workspace.checkpoints.units import TOP

    def read(path: str) -> bytes | None:
        try:
            return read_bytes(git / path, _TABLE_BYTES)[0]
        except (OSError, ValueError):
            return None

    return Refs(read).value(TOP, HEAD)


def _line(file: Path) -> str | None:
    """Return the first line of a small regular file; None if it cannot be read."""
    try:
        data, _ = read_bytes(file, _MAX_BYTES)
    except (OSError, ValueError, RuntimeError):
        return None
    return os.fsdecode(data).split("\n", 1)[0].strip()


def _existing(folder: Path) -> Path | None:
    try:
        resolved = folder.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    return resolved if os.path.isdir(resolved) else None  # noqa: PTH112


def _display(name: str) -> str:
    return clean(name).replace("\n", " ").replace("\t", " ")


__all__ = ["GitError", "GitResult", "branch", "run_git"]

MAX_OUTPUT = 20_000_000
"""The limit of output in bytes; more is an error."""

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/opt/local/bin"

_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
_COMMANDS = {
    **dict.fromkeys(("diff", "log", "show"), _NO_PROGRAMS),
    "status": ("--ignore-submodules=all",),
    **dict.fromkeys(
        ("cat-file", "for-each-ref", "ls-files", "ls-tree", "merge-base", "rev-list", "rev-parse"), ()
    ),
}
"""The allowed commands. Submodules are excluded, because git would read their configuration."""

_REFUSED = (
    "--output",
    "--recurse-submodules",
    "--submodule",
    "--ignore-submodules",
    "--ext-diff",
    "--textconv",
)

_OVERRIDES = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.attributesFile=/dev/null"),
    *(
        "core.excludesFile=/dev/null",
        "core.untrackedCache=false",
        "core.sshCommand=false",
        "gpg.program=false",
    ),
    *("diff.external=", "log.showSignature=false", "protocol.allow=never", "submodule.recurse=false"),
    *("credential.helper=", "core.quotePath=false", "diff.autoRefreshIndex=false", "core.commitGraph=false"),
)

_SETTINGS = (
    *("core.repositoryformatversion", "core.filemode", "core.symlinks", "core.ignorecase"),
    *(
        "core.precomposeunicode",
        "core.autocrlf",
        "core.eol",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
    ),
    *("extensions.objectformat", "extensions.refstorage"),
)
"""Settings of a repository that describe how to read it and cannot run anything."""

_PROMPT = 0.5
"""Seconds after which a pipe is searched for that git may be waiting for."""
_READ_BY_GIT = frozenset({".gitattributes", ".gitignore", ".mailmap", ".gitmodules"})
_MOST_FOLDERS = 20_000
"""The number of folders that are searched for such a pipe."""

_HEAD_BYTES, _SETTINGS_BYTES = 4_096, 1_000_000

_OWN = (
    "index",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
    "BISECT_LOG",
)
_SHARED = ("objects", "refs", "packed-refs", "logs", "info", "shallow", "reftable")


class GitError(HermesError):
    """Raised if git cannot be run or gives no usable answer."""


@dataclass(frozen=True, slots=True)
class GitResult:
    """The answer of git. `code` is its exit code; `error` is clean text."""

    code: int
    output: bytes
    error: str


async def run_git(
    root: Path,
    *arguments: str,
    seconds: float = 10.0,
    input: bytes = b"",
    limit: int = 0,
    git: Path | None = None,
) -> GitResult:
    """Run git in the repository that contains `root`, as in `run_git(root, "status", "--porcelain=v2",
    "-z")`.

    It runs in the top folder of the work tree, and takes paths in arguments literally. `input` is its
    standard input. If `git`, the git folder of another repository, is given, objects are read from there.

    Raises `GitError` if git or the repository is missing, for a command that does more than read, and if the
    answer takes more than `seconds` or has more than `limit` bytes (0: `MAX_OUTPUT`).
    """
    command = _checked(arguments)
    program, top, private = await asyncio.to_thread(_prepared, root, git)
    folder = private.path
    try:
        place = git or git_folder(top) or top
        values = await _settings(program, folder, common_folder(place), seconds)
        if git is not None:
            values.pop("extensions.refstorage", None)
        await asyncio.to_thread(_link, folder, place, values)
        overrides = [part for override in _OVERRIDES for part in ("-c", override)]
        places = (f"--git-dir={folder / 'git'}", f"--work-tree={top}", "--no-pager", "--literal-pathspecs")
        whole = [program, *overrides, *places, *command]
        return await _run(whole, top, folder, seconds, input, limit)
    finally:
        await asyncio.to_thread(private.remove)


async def merge_texts(ours: bytes, base: bytes, theirs: bytes, seconds: float = 10.0) -> bytes:
    """Return git's merge of two versions of a text, with conflicts marked. Raises `GitError`."""
    program = shutil.which("git", path=SYSTEM_PATH)
    if program is None:
        raise GitError("Git is not installed.")
    private = await asyncio.to_thread(PrivateFolder, "git")
    folder = private.path
    try:
        names = ("ours", "base", "theirs")
        for name, text in zip(names, (ours, base, theirs), strict=True):
            await asyncio.to_thread((folder / name).write_bytes, text)
        return (await _run([program, "merge-file", "-p", *names], folder, folder, seconds)).output
    finally:
        await asyncio.to_thread(private.remove)


def _checked(arguments: tuple[str, ...]) -> list[str]:
    """Return the command with protective options. Raises `GitError` for a command that may not be run."""
    name = arguments[0] if arguments else ""
    if name not in _COMMANDS:
        raise GitError(f"git {clean(name)} is not run here, because it does more than read.")
    options = arguments[1 : arguments.index("--") if "--" in arguments else None]
    for option in options:
        # Git accepts every unique prefix of an option.
        word = option.split("=", 1)[0]
        if len(word) > 3 and any(
            refused.startswith(word) or word.startswith(refused) for refused in _REFUSED
        ):
            raise GitError(f"git {name} {clean(option)} is not run here, because it does more than read.")
    return [name, *_COMMANDS[name], *arguments[1:]]


def _prepared(root: Path, git: Path | None) -> tuple[str, Path, PrivateFolder]:
    """Return the path of git, the top folder of the work tree, and a private folder for this call."""
    program = shutil.which("git", path=SYSTEM_PATH)
    if program is None:
        raise GitError("Git is not installed.")
    top = root if git is not None else top_folder(root.resolve())
    if top is None or (git is None and git_folder(top) is None):
        raise GitError("The folder is in no git repository.")
    return program, top, PrivateFolder("git")


async def _settings(program: str, folder: Path, common: Path, seconds: float) -> dict[str, str]:
    """Return the harmless settings of the repository. Included files are not read."""
    copy = folder / "settings"
    try:
        # Git would wait forever if the file were a pipe.
        copy.write_bytes(await asyncio.to_thread(_read_settings, common))
    except OSError:
        return {}
    command = [program, "config", "--file", str(copy), "--no-includes", "--null", "--list"]
    result = await _run(command, folder, folder, seconds)
    pairs = (item.partition("\n") for item in os.fsdecode(result.output).split("\0"))
    return {name: value for name, _, value in pairs if name in _SETTINGS and value.isalnum()}


def _read_settings(common: Path) -> bytes:
    return read_bytes((common / "config").resolve(), _SETTINGS_BYTES)[0]


def _link(folder: Path, git: Path, values: dict[str, str]) -> None:
    """Create the temporary git folder for the call."""
    made = folder / "git"
    made.mkdir(mode=0o700)
    lines = []
    for name, value in values.items():
        section, _, key = name.partition(".")
        lines.append(f"[{section}]\n\t{key} = {value}\n")
    (made / "config").write_text("".join(lines), "utf-8")
    common = common_folder(git)
    own = (git / name for name in (*_OWN, *(path.name for path in git.glob("sharedindex.*"))))
    for place in (*own, *(common / name for name in _SHARED)):
        if os.path.lexists(place):
            (made / place.name).symlink_to(place)
    for name in ("objects", "refs"):
        (made / name).mkdir(exist_ok=True)
    try:
        (made / "HEAD").write_bytes(read_bytes(git.resolve() / "HEAD", _HEAD_BYTES)[0])
    except OSError as error:
        raise GitError("The git repository cannot be read; check the rights on its .git folder.") from error


async def _run(
    command: list[str],
    inside: Path,
    home: Path,
    seconds: float,
    input: bytes = b"",
    limit: int = 0,
) -> GitResult:
    async with _child(command, inside, home) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        answering = asyncio.gather(
            _limited(child.stdout, limit), _limited(child.stderr), _feed(child.stdin, input)
        )
        search = asyncio.create_task(_pipe_in_the_way(inside))
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({answering, search}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() and (pipe := search.result()):
                    raise GitError(f"Git would wait for ever for {clean(pipe)}, which is no file; remove it.")
                output, error, _ = await answering
                code = await child.wait()
        except TimeoutError:
            raise GitError(f"Git did not answer within {seconds:g} seconds.") from None
        finally:
            answering.cancel()
            search.cancel()
    return GitResult(code, output, clean(error.decode("utf-8", "replace")).strip())


async def _pipe_in_the_way(top: Path) -> str:
    """Return a pipe below `top` that git reads as a file; empty if the first folders contain none."""
    await asyncio.sleep(_PROMPT)
    return await in_thread(partial(_find_pipe, top))


def _find_pipe(top: Path, stop: threading.Event) -> str:
    for folder, below, names in islice(os.walk(top), _MOST_FOLDERS):
        if stop.is_set():
            break
        below[:] = [name for name in below if name != ".git"]
        for name in _READ_BY_GIT.intersection(names):
            if (path := Path(folder, name)).is_fifo():
                return str(path.relative_to(top))
    return ""


@asynccontextmanager
async def _child(command: list[str], inside: Path, home: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program in a new process group inside this block; then kill all processes of the group."""
    try:
        child = await start_child(
            command,
            cwd=inside,
            env=git_environment(home),
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except (OSError, ValueError) as error:
        raise GitError("Git cannot be started.") from error
    try:
        yield child
    finally:
        await kill_child(child)


async def _feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    try:
        stream.write(data)
        await stream.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass
    stream.close()


async def _limited(stream: asyncio.StreamReader, limit: int = 0) -> bytes:
    limit = limit or MAX_OUTPUT
    pieces: list[bytes] = []
    size = 0
    while piece := await stream.read(65_536):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise GitError(f"Git answered with more than {limit:,} bytes; ask for less.")
    return b"".join(pieces)


def git_environment(home: Path) -> dict[str, str]:
    """Return an environment in which git does not read the user's settings or ask questions."""
    return {
        "PATH": SYSTEM_PATH,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
    }
