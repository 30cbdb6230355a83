"""Names that never count as work on a project: caches, version control, what editors leave for a moment."""

from __future__ import annotations

import re

_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", ".bzr", "CVS"),
        *("node_modules", ".venv", "__pycache__", "__pypackages__", ".eggs"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache"),
        *(".idea", ".gradle", ".terraform", ".direnv", ".ipynb_checkpoints"),
    )
)

_FILES = re.compile(
    r"""
      \.hermes-.*                   # our own unfinished files
    | \.git                         # the pointer file of a worktree or submodule
    | \.DS_Store | \.directory | Thumbs\.db | desktop\.ini
    | .*\.py[co]
    | .*~ | \#.*\# | \.\#.*         # backups, Emacs
    | \..*\.sw[a-px] | 4913         # Vim
    | \..*\.kate-swp | .*\.crswap
    | .*___jb_(?:tmp|old)___        # JetBrains
    | \.goutputstream-.* | \.~lock\..*\#
    | \.nfs[0-9a-f]+ | \.fuse_hidden.*
    """,
    re.VERBOSE | re.DOTALL,
)


def is_noise(name: str, *, folder: bool) -> bool:
    """Whether a file or folder called `name` is left out wherever it stands."""
    if folder:
        return name in _FOLDERS or name.startswith(".hermes-")
    return _FILES.fullmatch(name) is not None
