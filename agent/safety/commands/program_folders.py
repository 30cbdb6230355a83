"""Folders in which programs are found: those that installations fill, and the tools of the project."""

from __future__ import annotations

import re

from agent.safety.shell.marks import UNKNOWN

_PROGRAMS = re.compile(
    r"(?:/home/[\w.-]+|/root|/Users/[\w.-]+)/(?:\.local|\.cargo|\.bun|\.deno|\.dotnet/tools|go|\.go|\.pyenv|\.rbenv"
    r"|\.volta|\.poetry|\.yarn|\.npm-global|\.rye|\.asdf|\.foundry|\.ghcup|\.cabal|\.composer/vendor"
    r"|\.pub-cache|\.krew|\.sdkman/candidates/\w+/current|\.nvm/versions/node/v[\d.]+|\.fly|\.config/composer/vendor"
    r"|\.pyenv/versions/[\w.]+|(?:mini|ana)conda3|\.nix-profile)/(?:bin|shims|shared)"
    r"|(?:/home/[\w.-]+|/root|/Users/[\w.-]+)/(?:\.dotnet|\.asdf/shims|\.pyenv/shims|\.yarn/bin|\.dotnet/tools)"
    r"|/(?:usr/|usr/local/|opt/homebrew/|snap/)?s?bin|/usr/local/(?:go|cuda(?:-[\d.]+)?|node)/bin"
    r"|/opt/(?:[\w.-]+/)+bin|/usr/lib/(?:jvm|postgresql|llvm-\d+|go[\d.-]*|node_modules|ccache)(?:/[\w.-]+)*(?:/bin)?"
    r"|/nix/var/nix/profiles/default/bin|/home/linuxbrew/\.linuxbrew/s?bin"
)
_OF_PROJECT = re.compile(
    r"(?:\./|.*/)?(?:node_modules/\.bin|\.?venv[\w.-]*/bin|vendor/bin|\.tox/[\w.-]+/bin)"
)


def is_place_of_programs(path: str, inside: bool) -> bool:
    """Whether a folder in `PATH` is one that an installation or the tools of the project fill."""
    if UNKNOWN in path or ".." in path.split("/"):
        return False
    return _OF_PROJECT.fullmatch(path) is not None if inside else _PROGRAMS.fullmatch(path) is not None
