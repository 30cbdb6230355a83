"""Facts about the machine that learnings need: folders, read-only programs, changed dependencies."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.knowledge.learnings.calls import CallForm, CallPlace, call_form, names
from agent.knowledge.learnings.failures import Failure
from agent.knowledge.learnings.learning import Learning
from agent.knowledge.learnings.what_worked import MadeCall

LARGEST = 20_000_000
"""The size in bytes up to which a lock file is read; of a larger one only the size counts."""
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
    """Return stamps (values that change with a file) of a program's dependencies in the project at `root`.

    `program` has no version, `names` are the names by which it was called. `search` is the search path, None
    if commands do not run on this machine. Reads files.
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
    """Return the name of a dependency whose stamp no longer matches; empty if all match. Reads files."""
    for name, before in depends.items():
        if _now(name, root) != before:
            return name.removeprefix(_PROGRAM)
    return ""


def restamped(depends: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return the current stamps of the same dependencies. Reads files."""
    return {name: _now(name, root) for name in depends}


def of_any_project(depends: Mapping[str, str]) -> dict[str, str]:
    """Return the stamps that apply to every project; that of a lock file applies to one."""
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
    """Return the stamp of a program file: link target, size and modification time."""
    try:
        real = path.resolve()
        seen = real.stat()
    except (OSError, RuntimeError):
        return _MISSING
    return f"{real} {seen.st_size} {seen.st_mtime_ns}"


@dataclass(frozen=True, slots=True)
class LearningEnvironment:
    """The folders and programs on which an agent's learnings depend."""

    workspace: Path
    root: Path
    """The root of its project, where lock files are."""
    cwd: Callable[[], Path]
    """The folder of the next command."""
    search: str | None
    """The search path of commands; None if they do not run on this machine."""

    def stamps(self, form: CallForm) -> dict[str, str]:
        """Return stamps of a call's dependencies. Reads files."""
        if form.command is None:
            return {}
        main = form.command.main
        return stamps(main.kin, (main.program,), self.root, self.search)

    def changed(self, depends: Mapping[str, str]) -> str:
        """Return the name of a dependency whose stamp no longer matches; empty if all match. Reads files."""
        known = {name: each for name, each in depends.items() if self.search is not None or ":" not in name}
        return changed(known, self.root)

    def restamped(self, depends: Mapping[str, str]) -> dict[str, str]:
        """Return the current stamps of the same dependencies. Reads files."""
        return restamped(depends, self.root)

    def only_looks(self, form: CallForm) -> bool:
        """Return whether a call only reads. Parses the command, which takes a moment."""
        if form.command is None:
            return False
        from agent.safety.effects import deed
        from agent.safety.programs.table import programs
        from agent.safety.reader.script import read

        workspace, home = str(self.workspace), str(Path.home())
        reading = read(form.shown, workspace, home)
        if reading.writes or any(name.startswith("export ") for name in reading.assigned):
            return False
        table = programs()
        return bool(reading.commands) and all(
            deed(command, table).effect == "looks" for command in reading.commands
        )

    def call_of(self, learning: Learning) -> MadeCall | None:
        """Return the call that a learning is about; None if it is unknown."""
        pattern = learning.evidence.get("failed") or learning.pattern
        name = "command" if learning.tool == "terminal" else ""
        if not name or not learning.program:
            return None
        workspace = str(self.workspace)
        form = call_form(learning.tool, {name: pattern}, CallPlace(workspace, workspace))
        line = learning.evidence.get("error") or learning.error
        return MadeCall(form, Failure(learning.error_type, line, learning.error))
