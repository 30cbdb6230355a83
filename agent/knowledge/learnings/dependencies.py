"""Dependencies of a learning: the lock files of its project and the program itself, as cheap stamps.

No program is started to ask for its version: a program that was updated is another file.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from agent.knowledge.learnings.commands import names

LARGEST = 20_000_000
"""Bytes of a lock file that is read; of a larger one only the size counts."""
_FAMILIES: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (
        names("python pip pytest uv poetry pdm hatch tox nox pipenv ruff mypy pyright django flask"),
        ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt", "pylock.toml"),
    ),
    (
        names("node npm npx yarn pnpm bun tsc eslint jest vitest vite next webpack deno"),
        ("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock"),
    ),
    (names("cargo rustc rustup"), ("Cargo.lock", "rust-toolchain.toml")),
    (names("go"), ("go.sum",)),
    (names("ruby bundle rails rake rspec gem"), ("Gemfile.lock",)),
    (names("php composer phpunit artisan"), ("composer.lock",)),
    (names("gradle gradlew mvn mvnw java"), ("gradle.lockfile", "pom.xml")),
    (names("mix elixir iex"), ("mix.lock",)),
    (names("terraform tofu"), (".terraform.lock.hcl",)),
    (names("nix nix-shell"), ("flake.lock",)),
)
_MISSING = "missing"
_PROGRAM = "program:"


def stamps(program: str, names: tuple[str, ...], root: Path, search: str | None) -> dict[str, str]:
    """Stamps of what a program depends on in the project at `root`. Reads files.

    `program` is without its version, `names` are the forms it was called by; `search` is the search path,
    None where commands do not run on this machine.
    """
    found = {
        name: stamp
        for family, files in _FAMILIES
        if program in family
        for name in files
        if (stamp := _stamp(root / name)) != _MISSING
    }
    if search is not None:
        for name in names:
            if name and "/" not in name and (where := shutil.which(name, path=search)) is not None:
                found[f"{_PROGRAM}{where}"] = _program_stamp(Path(where))
    return found


def changed(depends: Mapping[str, str], root: Path) -> str:
    """Which of these stamps is no longer true; empty if all are. Reads files."""
    for name, before in depends.items():
        if _now(name, root) != before:
            return name.removeprefix(_PROGRAM)
    return ""


def restamped(depends: Mapping[str, str], root: Path) -> dict[str, str]:
    """The same names with the stamps of now. Reads files."""
    return {name: _now(name, root) for name in depends}


def of_any_project(depends: Mapping[str, str]) -> dict[str, str]:
    """Those that are the same in each project: a lock file is that of one."""
    return {name: stamp for name, stamp in depends.items() if name.startswith(_PROGRAM)}


def _now(name: str, root: Path) -> str:
    if name.startswith(_PROGRAM):
        return _program_stamp(Path(name.removeprefix(_PROGRAM)))
    return _stamp(root / name)


def _stamp(path: Path) -> str:
    try:
        if not path.is_file():
            return _MISSING
        size = path.stat().st_size
        return f"size {size}" if size > LARGEST else hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except OSError:
        return _MISSING


def _program_stamp(path: Path) -> str:
    """A program as a file: what it leads to, its size and when it was written."""
    try:
        real = path.resolve()
        seen = real.stat()
    except (OSError, RuntimeError):
        return _MISSING
    return f"{real} {seen.st_size} {seen.st_mtime_ns}"
