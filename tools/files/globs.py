"""Glob patterns as models write them, in the rules of `.gitignore`.

`*.py` fits at any depth, `src/*.py` from the searched folder on, `**` any number
of folders, `{ts,tsx}` either, and a `!` in front leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tools.results import ToolError

_MAX_PATTERNS = 200
_BRACES = re.compile(r"\{([^{}]*)\}")
_SPECIAL = re.compile(r"[*?\[{]")


def is_glob(text: str) -> bool:
    """Whether `text` is a pattern rather than a part of a name."""
    return bool(_SPECIAL.search(text))


def expand(pattern: str) -> list[str]:
    """The patterns a list with commas and braces stands for. Raises `ToolError` when they are too many."""
    expanded: list[str] = []
    for part in _split_outside_braces(pattern):
        for plain in _without_braces(part.strip()):
            expanded.append(plain.replace("./", "", 1) if plain.startswith(("./", "!./")) else plain)
            if len(expanded) > _MAX_PATTERNS:
                raise ToolError(f"The glob {pattern!r} stands for too many patterns; use a shorter one.")
    return [plain for plain in dict.fromkeys(expanded) if plain not in ("", "!")]


def ignore_rules(pattern: str) -> list[str]:
    """Lines of an ignore file that leave only what fits `pattern`."""
    patterns = expand(pattern)
    wanted = [plain for plain in patterns if not plain.startswith("!")]
    unwanted = [plain[1:] for plain in patterns if plain.startswith("!")]
    return [*(["*", "!*/", *("!" + plain for plain in wanted)] if wanted else []), *unwanted]


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test whether a path relative to the searched folder fits `pattern`."""
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines(ignore_rules(pattern))
    return lambda path: not spec.match_file(path)


def _split_outside_braces(pattern: str) -> Iterator[str]:
    depth = start = 0
    for index, character in enumerate(pattern):
        depth += (character == "{") - (character == "}")
        if character == "," and depth <= 0:
            yield pattern[start:index]
            start = index + 1
    yield pattern[start:]


def _without_braces(pattern: str) -> Iterator[str]:
    """The alternatives of all braces, innermost first. They may be very many: the caller has to stop."""
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        braces = _BRACES.search(current)
        if braces is None:
            yield current
            continue
        head, tail = current[: braces.start()], current[braces.end() :]
        waiting.extend(head + choice + tail for choice in reversed(braces[1].split(",")))
