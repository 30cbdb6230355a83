"""Short JavaScript programs given as text: whether they only compute, read plain files and print.

Read as tokens, never run. Names that are not declared in the program must be listed here,
of the modules of Node only what reads is allowed, and nothing may be looked up by a name
that is put together: `a['con' + 'structor']` leads to everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.safety.commands.secrets import is_secret
from agent.safety.shell.marks import words

LONGEST = 2_048
"""Characters of a program that are read."""

_KEYWORDS = words(
    "const let var for of in if else return new null true false undefined typeof function NaN Infinity while "
    "break continue switch case default throw try catch finally instanceof"
)
_GLOBALS = words(
    "console JSON Object Math Array Date Number String Boolean Set Map parseInt parseFloat isNaN BigInt Intl "
    "encodeURIComponent decodeURIComponent URL Symbol Error"
)
_PROCESS = words(
    "version versions arch platform argv cwd memoryUsage uptime release stdout write exit hrtime"
)
_FILES = words("readFileSync existsSync readdirSync statSync")
_MODULES = words("fs path os util url node:fs node:path node:os node:util node:url")
_MEMBERS = re.compile(
    r"constructor|prototype|__\w+__|mainModule|binding|_\w+|dlopen|kill|env|exec\w*(?<!exec)|spawn\w*"
    r"|fork|call|apply"
    r"|bind|write\w+|append\w+|unlink\w*|rm\w*|rename\w*|mkdir\w*|truncate\w*|copyFile\w*|cp\w*"
    r"|chmod\w*|chown\w*"
    r"|symlink\w*|link\w*|open\w*|create\w+|promises|promisify|inspect|defineProperty|getOwnProperty\w*"
    r"|setPrototypeOf|getPrototypeOf|getBuiltinModule|watch\w*|report|userInfo|require|main|children"
    r"|paths|cache"
)
_TOKEN = re.compile(
    r"(?P<blank>\s+|//[^\n]*\n)"
    r"|(?P<text>'(?:[^'\\\n]|\\[nrt\\'\"])*'|\"(?:[^\"\\\n]|\\[nrt\\'\"])*\"|`[^`\\$]*`)"
    r"|(?P<number>\d[\d_.]*(?:e[+-]?\d+)?n?)"
    r"|(?P<word>[A-Za-z_$][\w$]*)"
    r"|(?P<operator>=>|\?\.|\?\?|\.\.\.|[-+*%&|<>=!]+|[.,;:(){}\[\]?])"
)
_DECLARED = re.compile(
    r"\b(?:const|let|var|function)\s+([\w$]+)|\b(?:const|let|var)\s*[{\[]([\w$,\s]*)[}\]]|([\w$]+)\s*=>"
    r"|\(([\w$,\s\[\]{}]*)\)\s*=>|function\s*[\w$]*\(([\w$,\s]*)\)|catch\s*\(([\w$]+)\)"
)


def is_harmless(code: str) -> bool:
    """Whether a JavaScript program only computes, reads plain files and prints."""
    tokens = _tokens(code) if len(code) <= LONGEST else None
    if tokens is None:
        return False
    declared = {
        name
        for match in _DECLARED.finditer(code)
        for name in re.findall(r"[\w$]+", " ".join(filter(None, match.groups())))
    }
    held = set(
        re.findall(
            r"(?:const|let|var)\s+([\w$]+)\s*=\s*require\(\s*['\"](?:node:)?fs['\"]\s*\)(?!\s*\.)", code
        )
    )
    if declared & (_GLOBALS | {"process", "require"}):
        return False
    return all(_is_fine(tokens, at, declared, held) for at in range(len(tokens)))


def _tokens(code: str) -> list[tuple[str, str]] | None:
    """Kind and text of every token; None when something is not covered."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(code):
        match = _TOKEN.match(code, place)
        if match is None:
            return None
        if match.lastgroup != "blank":
            found.append((match.lastgroup or "", match[0]))
        place = match.end()
    return found


def _is_fine(tokens: Sequence[tuple[str, str]], at: int, declared: set[str], held: set[str]) -> bool:
    kind, text = tokens[at]
    before = tokens[at - 1] if at else ("", "")
    after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
    if kind == "text":
        return len(text) > 200 or not is_secret("/" + text[1:-1].lstrip("/").removeprefix("./"))
    if kind == "operator":
        return text != "[" or _is_list(tokens, at)
    if kind != "word":
        return True
    if before[1] in (".", "?."):
        return _is_member(tokens, at, held)
    if text == "require":
        return _requires(tokens, at)
    if text == "process":
        return after == "." and at + 2 < len(tokens) and tokens[at + 2][1] in _PROCESS
    if after == ":" and before[1] in ("{", ","):
        return True  # the name of a field
    if text in held:
        return after == "." or before[1] in ("const", "let", "var")
    if text in _FILES:
        return _reads_plainly(tokens, at) or before[1] in ("{", ",")
    return text in _KEYWORDS or text in _GLOBALS or (text in declared and _MEMBERS.fullmatch(text) is None)


def _is_list(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    """Whether a bracket begins a list, or looks up a number or a plain name."""
    if at == 0 or not (tokens[at - 1][0] in ("text", "number") or _ends_value(tokens[at - 1])):
        return True
    inner = tokens[at + 1 : at + 3]
    if len(inner) < 2 or inner[1][1] != "]" or inner[0][0] not in ("number", "text"):
        return False
    return _MEMBERS.fullmatch(inner[0][1].strip("'\"`")) is None


def _ends_value(token: tuple[str, str]) -> bool:
    return token[1] in (")", "]", "}", "?.") or (token[0] == "word" and token[1] not in _KEYWORDS)


def _is_member(tokens: Sequence[tuple[str, str]], at: int, held: set[str]) -> bool:
    name = tokens[at][1]
    owner = tokens[at - 2][1] if at > 1 else ""
    if name in _FILES:
        return _reads_plainly(tokens, at)
    if owner in held:
        return False
    return _MEMBERS.fullmatch(name) is None


def _reads_plainly(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    """Whether a function that reads is called with a path that is written out."""
    following = [text for _, text in tokens[at + 1 : at + 4]]
    return following[:1] == ["("] and tokens[at + 2][0] == "text" and following[2:] in ([")"], [","])


def _requires(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    following = [text for _, text in tokens[at + 1 : at + 7]]
    if following[:1] != ["("] or len(following) < 3 or following[2] != ")" or tokens[at + 2][0] != "text":
        return False
    module = following[1][1:-1]
    if re.fullmatch(r"\.{1,2}/[\w./-]+\.json", module):
        return True
    if module.removeprefix("node:") == "fs" and following[3:4] == ["."]:
        return following[4] in _FILES
    if module.removeprefix("node:") == "fs":
        return list(_bound(tokens, at)) != []
    return module in _MODULES and (following[3:4] == ["."] or next(_names(tokens, at), None) is not None)


def _names(tokens: Sequence[tuple[str, str]], at: int) -> Iterator[str]:
    """The one name that `const path = require('path')` gives."""
    if at >= 3 and tokens[at - 1][1] == "=" and tokens[at - 3][1] in ("const", "let", "var"):
        yield tokens[at - 2][1]


def _bound(tokens: Sequence[tuple[str, str]], at: int) -> Iterator[str]:
    """What `const fs = require('fs')` or `const {readFileSync} = require('fs')` gives names to."""
    if at < 3 or tokens[at - 1][1] != "=":
        return
    yield from _names(tokens, at)
    if tokens[at - 2][1] == "}":
        start = at - 3
        while start >= 0 and tokens[start][1] != "{":
            start -= 1
        names = [text for kind, text in tokens[start + 1 : at - 2] if kind == "word"]
        if names and _FILES.issuperset(names) and ":" not in [text for _, text in tokens[start : at - 2]]:
            yield from names
