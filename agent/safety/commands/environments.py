"""Which versions of languages and tools a shell uses: version managers, environments, `PATH`.

Choosing among what is installed changes this shell, or a file in the workspace that names a version.
Installing fetches programs, and asks.
"""

from __future__ import annotations

import re
from dataclasses import replace

from agent.safety.commands.call import Call, Opinion, Rule, fine
from agent.safety.commands.checkers import CHECKERS, check
from agent.safety.commands.declared import INSTALLS
from agent.safety.commands.interpreters import python
from agent.safety.commands.verbs import Verbs
from agent.safety.shell.marks import UNKNOWN, words

CHOOSES = "chooses an installed version"
CONDA_CHOOSES = "looks at environments, or chooses one"

_NVM = Verbs(
    harmless=r"use(?: [\w./*-]+)?|ls|list|current|version|which|ls-remote|alias$",
    reason=CHOOSES,
    otherwise=INSTALLS,
)
_VERSIONS = Verbs(
    harmless=r"current|versions?|list(?:-all)?|ls|ls-remote|which|where|whence|latest|show|help|info"
    r"|doctor"
    r"|plugins? (?:list|ls)"
    r"|(?:local|shell|use|set)(?: [\w.:@+-]+){0,2}|rehash|reshim|root|prefix|env|settings$"
    r"|tasks?(?: ls)?|default$|config$|outdated|bin-paths|registry|search"
    r"|commands|plugins? list-all|list-remote",
    reason=CHOOSES,
    effects=(
        (
            r"install\S*|uninstall|update\S*|upgrade\S*|plugins? (?:add|install|update|remove)|global|exec"
            r"|x|run|self-update|selfupdate|flush|prune|implode|(?:local|use|set).*://.*|trust|activate"
            r"|hook-env|fetch|pin",
            INSTALLS,
        ),
    ),
)
_CONDA = Verbs(
    harmless=r"list|info|env list|search|config --show|doctor|compare|activate(?: [\w.-]+)?|deactivate",
    reason=CONDA_CHOOSES,
    effects=(
        (
            r"install|create|remove|update|upgrade|uninstall|env (?:create|remove|update|config)|clean|run"
            r"|init|config",
            INSTALLS,
        ),
    ),
)
_CONDA_RUN = re.compile(
    r"run(?: (?:-n|--name|-p|--prefix) [\w./-]+| --(?:no-capture-output|live-stream)| -v)* (?=[\w./-])"
)


def conda(call: Call) -> Opinion:
    """conda: `conda run` is judged by what it starts, as `poetry run` is."""
    said = " ".join(call.arguments)
    match = _CONDA_RUN.match(said)
    if match is None or not call.inside:
        return _CONDA(call)
    rest = call.arguments[len(match[0].split()) :]
    inner = replace(call, name=rest[0], word=rest[0], arguments=tuple(rest[1:]))
    if rest[0] in CHECKERS:
        return check(inner)
    if rest[0] in ("python", "python3"):
        return python(inner)
    return _CONDA(call)


_LOADERS = re.compile(
    r"/(?:\.nvm/nvm\.sh|\.asdf/asdf\.sh|\.sdkman/bin/sdkman-init\.sh|\.cargo/env|\.rvm/scripts/rvm|\.deno/env"
    r"|\.nvm/bash_completion|\.ghcup/env|\.opam/opam-init/init\.sh|\.local/bin/env|\.rye/env|\.phpbrew/bashrc"
    r"|\.(?:nix-profile|local/state/nix/profile)/etc/profile\.d/nix\.sh"
    r"|(?:mini|ana|mini?forge|mamba)\w*3?/etc/profile\.d/conda\.sh)"
)


def loads_manager(call: Call, file: str) -> bool:
    """Whether a sourced file is the one by which a version manager in the home comes into a shell.

    It lies where its installation puts it, and nothing in the same command was given its name.
    """
    path = call.path(file)
    home = call.ground.places.home
    below_home = path.startswith(f"{home}/") and path[len(home) :]
    plain = UNKNOWN not in path and ".." not in path.split("/") and not call.ground.inside(path)
    return (
        bool(below_home and plain and _LOADERS.fullmatch(below_home))
        and file.rpartition("/")[2] not in call.named
    )


SETTINGS = re.compile(
    r"\s*(?:#[^\n]*|(?:export\s+)?[A-Za-z_]\w*=(?:[\w./:@%+,~=-]*|'[^']*'|\"[^\"`\\$]*\"|\"?\$\{?(?:PWD|HOME)\}?"
    r"[\w./-]*\"?)|set\s+[-+][aeu]+|export\s+[A-Za-z_]\w*)?\s*(?:#[^\n]*)?"
)
"""A line of a file that only sets variables."""

RULES: dict[str, Rule] = dict.fromkeys(
    words("asdf mise pyenv rbenv nodenv goenv jenv volta fnm sdk rtx tfenv tfswitch nodebrew"), _VERSIONS
) | {
    "nvm": _NVM,
    "conda": conda,
    "mamba": conda,
    "micromamba": conda,
    "deactivate": lambda call: fine("leaves a Python environment"),
}
