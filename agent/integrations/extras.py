"""Adding and removing optional extras: the environment of this program, and the command that changes it.

Packages are named one by one (`pip install 'discord.py>=2.7'`), because no package index has this program. In
a checkout, packages that `constraints` pins are installed with their pinned hashes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, distributions, requires
from importlib.util import find_spec
from pathlib import Path

from agent.errors import ConfigError
from tools.extras import EXTRAS, is_installed

NAME = "hermes-tui"
ROOT = Path(__file__).resolve().parents[2]
_NAMED = re.compile(r"[A-Za-z0-9._-]+")
_PINS = "--requirement"
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)")


@dataclass(frozen=True, slots=True)
class ExtraState:
    """One extra, and whether it is installed."""

    name: str
    installed: bool
    brings: str
    size: int
    """The number of bytes to download if none of its packages is installed yet."""


@dataclass(frozen=True, slots=True)
class ExtrasChange:
    """A command that changes the environment; empty if there is nothing to do."""

    command: tuple[str, ...] = ()
    obstacle: str = ""
    """Why this program cannot run the command itself, although the user can."""

    @property
    def line(self) -> str:
        """The command as it is typed in a shell."""
        return shlex.join(self.command)

    def clear(self) -> None:
        """Remove the file with pinned versions, unless the user is to run the command."""
        if _PINS in self.command and not self.obstacle:
            Path(self.command[self.command.index(_PINS) + 1]).unlink(missing_ok=True)


def states() -> list[ExtraState]:
    """Return every extra with its state, in the order of the table."""
    return [
        ExtraState(name, is_installed(name), each.brings, each.size * 1_000_000)
        for name, each in EXTRAS.items()
    ]


def check_names(names: Iterable[str]) -> list[str]:
    """Return the names of extras in their correct spelling.

    Raises `ConfigError` with a suggestion for an unknown one.
    """
    from difflib import get_close_matches

    found: list[str] = []
    for name in names:
        plain = name.strip().lower()
        if plain not in EXTRAS:
            near = get_close_matches(plain, EXTRAS, n=1, cutoff=0.6)
            guess = f" Did you mean {near[0]}?" if near else ""
            raise ConfigError(f"There is no extra {name[:40]!r}.{guess} There are {', '.join(EXTRAS)}.")
        found.append(plain)
    return list(dict.fromkeys(found))


def adding(names: Sequence[str]) -> ExtrasChange:
    """Return the command that adds extras. May write a file with pinned versions. Raises `ConfigError`."""
    wanted = [name for name in names if not is_installed(name)]
    specs = [spec for name in wanted for spec, _ in _requirements(name)]
    if not specs:
        return ExtrasChange()
    if (Path(sys.prefix) / "pipx_metadata.json").exists() and (pipx := shutil.which("pipx")):
        return ExtrasChange((pipx, "inject", NAME, *specs))
    return _change(("install", *_pin_arguments(wanted, specs)))


def removing(names: Sequence[str]) -> ExtrasChange:
    """Return the command that removes the packages of these extras. Raises `ConfigError`.

    Packages that other installed packages need are kept.
    """
    kept = {name for _, name in _requirements("")}
    for other in EXTRAS:
        if other not in names and is_installed(other):
            kept |= {name for _, name in _requirements(other)}
    own = {name for each in names for _, name in _requirements(each)} - kept
    while needed := _needed_beside(own) & own:
        own -= needed
    gone = sorted(filter(_is_there, own))
    if not gone:
        return ExtrasChange()
    if (Path(sys.prefix) / "pipx_metadata.json").exists() and (pipx := shutil.which("pipx")):
        return ExtrasChange((pipx, "uninject", NAME, *gone))
    return _change(("uninstall", *gone))


def _change(order: tuple[str, ...]) -> ExtrasChange:
    """Return the command for pip, or for uv if pip is missing, and any obstacle to running it.

    `order` is the subcommand, such as `install`, with its arguments. Raises `ConfigError`.
    """
    if find_spec("pip") is not None:
        yes = ("--yes",) if order[0] == "uninstall" else ()
        command = (sys.executable, "-m", "pip", order[0], "--disable-pip-version-check", *yes, *order[1:])
    elif uv := shutil.which("uv"):
        command = (uv, "pip", order[0], "--python", sys.executable, *order[1:])
    else:
        raise ConfigError(
            f"There is neither pip nor uv to change {sys.prefix} with; install uv, and try again."
        )
    place = sysconfig.get_path("purelib")
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        return ExtrasChange(
            (*command, "--break-system-packages"), f"the Python in {sys.prefix} belongs to the system"
        )
    if not os.access(place, os.W_OK):
        return ExtrasChange(("sudo", *command), f"{place} cannot be written")
    return ExtrasChange(command)


def _requirements(extra: str) -> list[tuple[str, str]]:
    """Return the requirements of an extra, each as its full text and its package name.

    An empty `extra` means the program itself. Raises `ConfigError` if the program is not installed.
    """
    try:
        listed = requires(NAME) or []
    except PackageNotFoundError:
        raise ConfigError("Hermes is not installed; install it first, for example with `make run`.") from None
    found: list[tuple[str, str]] = []
    for each in listed:
        spec, _, condition = each.partition(";")
        of = _EXTRA.search(condition)
        if (of[1] if of else "") == extra and (name := _NAMED.match(spec)):
            found.append((spec.strip(), canonical(name[0])))
    return found


def _needed_beside(names: set[str]) -> set[str]:
    """Return the packages that installed packages need, ignoring those in `names` and this program."""
    listed = [
        each
        for package in distributions()
        if canonical(package.name) not in names | {NAME}
        for each in package.requires or ()
        if not _EXTRA.search(each)
    ]
    return {canonical(name[0]) for each in listed if (name := _NAMED.match(each))}


def canonical(name: str) -> str:
    """Return a package name in the normalized form that package indexes compare. Pure."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_there(name: str) -> bool:
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False


def _pin_arguments(extras: Sequence[str], specs: Sequence[str]) -> tuple[str, ...]:
    """Return install arguments with the hashes that this checkout pins; outside a checkout, just `specs`."""
    blocks: dict[str, str] = {}
    for pins in (ROOT / "constraints" / name for name in ("local.txt", "dev.txt")):
        text = pins.read_text() if pins.is_file() else ""
        blocks |= {
            canonical(block.split("==")[0]): block
            for block in re.split(r"\n(?=[A-Za-z0-9])", text)
            if "==" in block
        }
    roots = {name for each in extras for _, name in _requirements(each)}
    if not roots <= blocks.keys():
        return tuple(specs)
    needed = set(roots)
    parents = {name: _parents(block) for name, block in blocks.items()}
    while more := {name for name, via in parents.items() if name not in needed and via & needed}:
        needed |= more
    handle, path = tempfile.mkstemp(prefix="hermes-extras-", suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write("\n".join(blocks[name] for name in sorted(needed)) + "\n")
    return ("--require-hashes", _PINS, path)


def _parents(block: str) -> set[str]:
    """Return the packages that need the one in `block`, according to the comment below it. Pure."""
    said = re.findall(r"^\s+#\s+(?:via\s+)?([A-Za-z0-9._-]+)", block, re.MULTILINE)
    return {canonical(name) for name in said if name != "via"}
