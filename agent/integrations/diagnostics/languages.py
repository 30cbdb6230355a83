"""The languages that diagnostics are known for, and their servers, as data."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKind:
    """One language server that may be installed."""

    command: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    """What it is started with, in its own terms."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that lead what it writes into its own folder, which stands for `{folder}`."""
    settle: float = 0.15
    """Seconds without a further message after which what it published counts as complete."""
    publishes_too: bool = False
    """Whether it says more unasked than where it is asked for what it finds."""
    silent_when_same: bool = False
    """Whether it says nothing when an edit changed nothing for it."""

    @property
    def name(self) -> str:
        return Path(self.command[0]).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A language with its servers, best first."""

    name: str
    files: Mapping[str, str]
    """Endings of its files, each with what the protocol calls their language."""
    servers: tuple[ServerKind, ...]


LANGUAGES: tuple[Language, ...] = (
    Language(
        name="python",
        files={".py": "python", ".pyi": "python"},
        servers=(
            ServerKind(command=("pyright-langserver", "--stdio")),
            ServerKind(command=("pylsp",), settle=0.3),
            ServerKind(command=("ruff", "server"), env={"RUFF_CACHE_DIR": "{folder}/cache/ruff"}),
        ),
    ),
    Language(
        name="typescript",
        files={
            ".ts": "typescript",
            ".mts": "typescript",
            ".cts": "typescript",
            ".tsx": "typescriptreact",
            ".js": "javascript",
            ".mjs": "javascript",
            ".cjs": "javascript",
            ".jsx": "javascriptreact",
        },
        # It publishes syntax, then meaning, then suggestions.
        servers=(ServerKind(command=("typescript-language-server", "--stdio"), settle=0.5),),
    ),
    Language(
        name="go",
        files={".go": "go"},
        servers=(
            ServerKind(
                command=("gopls",),
                options={"pullDiagnostics": True},
                env={"GOCACHE": "{folder}/cache/go", "GOFLAGS": "-mod=mod"},
                silent_when_same=True,
            ),
        ),
    ),
    Language(
        name="rust",
        files={".rs": "rust"},
        servers=(
            ServerKind(
                command=("rust-analyzer",),
                options={"cargo": {"targetDir": True}},
                env={"CARGO_TARGET_DIR": "{folder}/cache/target", "CARGO_NET_OFFLINE": "true"},
                publishes_too=True,
                silent_when_same=True,
            ),
        ),
    ),
    Language(
        name="cpp",
        files={
            ".c": "c",
            ".h": "c",
            ".cc": "cpp",
            ".cpp": "cpp",
            ".cxx": "cpp",
            ".hh": "cpp",
            ".hpp": "cpp",
            ".hxx": "cpp",
        },
        servers=(ServerKind(command=("clangd", "--background-index=false")),),
    ),
)

_BY_ENDING = {ending: each for each in LANGUAGES for ending in each.files}


def language_of(path: Path) -> Language | None:
    """The language of a file, by its ending."""
    return _BY_ENDING.get(path.suffix.lower())


def installed(
    language: Language, commands: Mapping[str, str], find: Callable[[str], str | None]
) -> ServerKind | None:
    """The server to use: that of the settings, else the first that is there, with its program in full.

    `find` gives the path of a program, None for one that is not installed.
    """
    own = commands.get(language.name)
    if own is None:
        kinds = language.servers
    elif not (words := shlex.split(own)):
        return None
    else:
        known = next((each for each in language.servers if each.name == Path(words[0]).name), None)
        kinds = (_with(known or ServerKind(command=("",)), tuple(words)),)
    for kind in kinds:
        if (program := find(kind.command[0])) is not None:
            return _with(kind, (program, *kind.command[1:]))
    return None


def _with(kind: ServerKind, command: tuple[str, ...]) -> ServerKind:
    from dataclasses import replace

    return replace(kind, command=command)
