"""Short JavaScript programs that change files: what they write, where that is plain to see.

Read as tokens, never run. Names must be declared in the program or listed here, modules are those that
reach nothing but files, and what is called must be a function that is named. Text that is put together
to get at a name nobody wrote is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from agent.safety.commands.doubts import DOUBTFUL, SYSTEM_PLACE
from agent.safety.commands.secrets import is_secret
from agent.safety.shell.marks import words

LONGEST = 8_192
"""Characters of a program that are read."""
ANYWHERE = ""
"""Stands for a place that is not known."""

_KEYWORDS = words(
    "const let var for of in if else return new null true false undefined typeof function NaN Infinity while "
    "break continue switch case default throw try catch finally instanceof async await class extends this "
    "delete void do static get set import from as yield export"
)
_GLOBALS = words(
    "console JSON Object Math Array Date Number String Boolean Set Map WeakMap parseInt parseFloat isNaN "
    "isFinite BigInt Intl encodeURIComponent decodeURIComponent URL URLSearchParams Symbol Error TypeError "
    "RangeError RegExp Promise structuredClone __dirname __filename performance"
)
_PROCESS = words(
    "version versions arch platform argv cwd memoryUsage uptime release stdout stderr write exit exitCode "
    "hrtime"
)
_MODULES = words("fs path os util url assert readline events perf_hooks fs/promises path/posix assert/strict")
_WRITES = re.compile(r"(?:write|append)File(?:Sync)?|mkdir(?:Sync)?|createWriteStream")
_COPIES = re.compile(r"(?:copyFile|cp)(?:Sync)?")
_FORBIDDEN = re.compile(
    r"constructor|prototype|__\w+__|mainModule|binding|dlopen|kill|exec\w+|spawn\w*|fork|call|apply|bind"
    r"|unlink\w*|rm\w*|rename\w*|f?truncate\w*|l?chmod\w*|[fl]?chown\w*|symlink\w*|link\w*|open\w*"
    r"|getBuiltinModule|defineProperty|defineProperties|setPrototypeOf|getPrototypeOf|getOwnProperty\w*"
    r"|require|main|children|paths|cache|createRequire|runIn\w+|compile\w*|fromCharCode|fromCodePoint|raw"
    r"|setEnvironmentData|report|userInfo|promisify|callbackify|inherits|deprecate|debuglog|writev\w*|env"
    r"|homedir|loadEnvFile|setFlagsFromString|ReadStream|WriteStream|FileReadStream|FileWriteStream"
)
_STRING = r"'(?:[^'\\\n]|\\[nrt\\'\"0])*'|\"(?:[^\"\\\n]|\\[nrt\\'\"0])*\""
_TEMPLATE = r"`(?:[^`\\$]|\\[nrt\\`$]|\$(?!\{)|\$\{[^{}`]*\})*`"
_TOKEN = re.compile(
    rf"(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>{_STRING}|{_TEMPLATE})"
    r"|(?P<number>\d[\d_.]*(?:e[+-]?\d+)?n?)|(?P<word>[A-Za-z_$][\w$]*)"
    r"|(?P<operator>=>|\?\.|\?\?=?|\.\.\.|&&=?|\|\|=?|\+\+|--|\*\*|[-+*%&|^<>=!]=*|[.,;:(){}\[\]?~])"
    r"|(?P<slash>/)",
    re.DOTALL,
)
_EXPRESSION = re.compile(r"/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[dgimsuvy]*")
_INNER = re.compile(r"\$\{([^{}`]*)\}")
_BOUND = re.compile(
    r"\b(?:const|let|var|class|function\*?)\s+([\w$]+)|\b(?:const|let|var)\s*[{\[]([^=()`;]*)[}\]]\s*(?:=|of\b)"
    r"|([\w$]+)\s*=>|\(([\w$,\s\[\]{}:=.'\"]*)\)\s*(?:=>|\{)|\bimport\s+([\w$\s{},*]+?)\s+from\b"
)
_FUNCTION = re.compile(
    r"\bfunction\*?\s+([\w$]+)|\b(?:const|let|var)\s+([\w$]+)\s*=\s*(?:async\s*)?(?:\([^()]*\)|[\w$]+)\s*=>"
    r"|\b(?:const|let|var)\s+([\w$]+)\s*=\s*(?:async\s+)?function\b|\bclass\s+([\w$]+)"
    r"|\b(?:const|let|var)\s*\{([\w$,\s:]+)\}\s*=\s*require\(|\bimport\s+([\w$\s{},*]+?)\s+from\b"
)
_CONSTANT = re.compile(rf"\b(?:const|let|var)\s+([\w$]+)\s*=\s*({_STRING})\s*[;\n]")

_MODULE = re.compile(
    r"\b(?:const|let|var)\s+([\w$]+)\s*=\s*require\(|\bimport\s+(?:\*\s*as\s+)?([\w$]+)\s+from\b"
)
_RENAMED = re.compile(
    r"\b(?:(?:write|append|copy)File|mkdir|cp|createWriteStream)(?:Sync)?\s*(?::\s*[\w$]+\s*[,}]|as\s)"
)
_TAKEN_APART = re.compile(r"\{([^=;()]*)\}\s*=(?![=>])")

_Token = tuple[str, str]


def written(code: str) -> tuple[str, ...] | None:
    """The places a program writes to (`ANYWHERE` for one that is not known).

    None when it may do more than handle files, empties some, or hides what it says.
    """
    tokens = _tokens(code) if len(code) <= LONGEST else None
    if not tokens:
        return None
    bound, functions = _names(_BOUND, code), _names(_FUNCTION, code) | _GLOBALS | _KEYWORDS
    if bound & (_GLOBALS | {"process", "require", "module"}):
        return None
    if not all(_is_fine(tokens, at, bound, functions) for at in range(len(tokens))):
        return None
    constants = {name: text[1:-1] for name, text in _CONSTANT.findall(code)}
    if _hides(code, tokens, constants):
        return None
    places: list[str] = []
    for at, (kind, name) in enumerate(tokens):
        if kind == "word" and (place := _place(tokens, at, name, constants)) is not None:
            if place == _EMPTIES:
                return None
            places.append(place)
    return tuple(dict.fromkeys(places))


def wanders(code: str) -> bool:
    """Whether a program may read what lies outside of its folder."""
    tokens = _tokens(code) or []
    return any(kind == "text" and SYSTEM_PLACE.fullmatch(text[1:-1]) is not None for kind, text in tokens)


_EMPTIES = "\0"


def _place(tokens: Sequence[_Token], at: int, name: str, constants: dict[str, str]) -> str | None:
    """Where a call at this token writes to; None when it is none that writes."""
    if tokens[at + 1 : at + 2] != [("operator", "(")]:
        return None
    arguments = _arguments(tokens, at + 2)
    if _COPIES.fullmatch(name):
        return _known(arguments[1], constants) if len(arguments) > 1 else ANYWHERE
    if not _WRITES.fullmatch(name) or not arguments:
        return None
    place = _known(arguments[0], constants)
    content = arguments[1] if len(arguments) > 1 else []
    if name == "createWriteStream":
        # What is opened and not written to is emptied.
        fills = any(token[1] in ("write", "end", "pipe", "pipeline") for token in tokens)
        return place if fills else _EMPTIES
    if name.startswith("write") and "".join(text for _, text in content[:3]) in ("String()", "[].join"):
        return _EMPTIES
    if name.startswith("write") and len(content) == 1 and content[0][0] == "text":
        empty = len(content[0][1]) == 2
        return _EMPTIES if empty or place == ANYWHERE else place
    return place


def _known(argument: Sequence[_Token], constants: dict[str, str]) -> str:
    if len(argument) != 1:
        return ANYWHERE
    kind, text = argument[0]
    if kind == "text":
        return ANYWHERE if "${" in text else text[1:-1]
    return constants.get(text, ANYWHERE)


def _arguments(tokens: Sequence[_Token], at: int) -> list[list[_Token]]:
    """The arguments of a call, each as its tokens."""
    found: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens[at:]:
        if token[0] == "operator" and token[1] in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif token[0] == "operator" and token[1] in ("(", "[", "{"):
            depth += 1
        if token == ("operator", ",") and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    return found if found != [[]] else []


def _names(expression: re.Pattern[str], code: str) -> frozenset[str]:
    found = (" ".join(filter(None, match.groups())) for match in expression.finditer(code))
    return frozenset(name for text in found for name in re.findall(r"[\w$]+", text)) - _KEYWORDS


def _tokens(code: str) -> list[_Token] | None:
    """Kind and text of every token, with those inside of templates; None when something is not covered."""
    found: list[_Token] = []
    at = 0
    while at < len(code):
        match = _TOKEN.match(code, at)
        if match is None:
            return None
        kind, text = match.lastgroup or "", match[0]
        if kind == "slash":
            divides = bool(found) and (found[-1][0] in ("number", "text") or _ends_value(found[-1]))
            expression = None if divides else _EXPRESSION.match(code, at)
            if not divides and expression is None:
                return None
            kind, text = ("operator", "/") if expression is None else ("expression", expression[0])
        at += len(text)
        if kind == "blank":
            continue
        found.append((kind, text))
        if kind == "text" and text[0] == "`":
            for inner in _INNER.findall(text):
                inside = _tokens(inner)
                if inside is None:
                    return None
                found += [("operator", ","), *inside, ("operator", ",")]
    return found


def _ends_value(token: _Token) -> bool:
    return token[1] in (")", "]", "}") or (token[0] == "word" and token[1] not in _KEYWORDS)


def _hides(code: str, tokens: Sequence[_Token], constants: dict[str, str]) -> bool:
    """Whether a module is handed on or taken apart, or text is put together to hide what it says."""
    modules = frozenset(name for pair in _MODULE.findall(code) for name in pair if name)
    for (kind, name), after in pairwise((*tokens, ("", ""))):
        if kind == "word" and name in modules and after[1] not in (".", "=", "from"):
            return True
    if _RENAMED.search(code):
        return True
    for inside in _TAKEN_APART.findall(code):
        if any(map(_FORBIDDEN.fullmatch, re.findall(r"[\w$]+", inside))):
            return True
    pieces = 0
    for (one, plus), (_, other) in pairwise(pairwise(tokens)):
        if plus != ("operator", "+"):
            continue
        left, right = _known([one], constants), _known([other], constants)
        pieces += bool(left and right)
        both = one[0] == other[0] == "text"
        if both or pieces > 1 or (left and right and not _is_harmless(left + right)):
            return True
    return False


def _is_fine(tokens: Sequence[_Token], at: int, bound: frozenset[str], functions: frozenset[str]) -> bool:
    kind, text = tokens[at]
    before = tokens[at - 1] if at else ("", "")
    after = tokens[at + 1] if at + 1 < len(tokens) else ("", "")
    if kind == "text":
        tagged = text[0] == "`" and before[0] == "word" and before[1] not in _KEYWORDS
        return not tagged and _is_harmless(text[1:-1])
    if text == "(":
        return before[1] != "]"  # what is looked up by a name is not called
    if kind != "word":
        return True
    if before[1] in (".", "?."):
        writes = _WRITES.fullmatch(text) or _COPIES.fullmatch(text)
        return _FORBIDDEN.fullmatch(text) is None and not (writes and after[1] != "(")
    if text == "require" or (text == "import" and after[1] == "("):
        used = before[1] == "=" or tokens[at + 4 : at + 5] == [("operator", ".")]
        return text == "require" and used and _is_known(tokens[at + 1 : at + 4])
    if text == "from" and before[1] not in (".", ","):
        return after[0] == "text" and after[1][1:-1].removeprefix("node:") in _MODULES
    if text == "import":
        return after[0] == "word" or after[1] in ("{", "*")
    if text == "process":
        return after[1] == "." and at + 2 < len(tokens) and tokens[at + 2][1] in _PROCESS
    if after[1] == ":" and before[1] in ("{", ","):
        return True  # the name of a field
    if after[1] == "(" and before[1] != "new" and text not in functions:
        return False
    return text in _KEYWORDS or text in _GLOBALS or (text in bound and _FORBIDDEN.fullmatch(text) is None)


def _is_known(following: Sequence[_Token]) -> bool:
    """Whether `require` is given a module that reaches nothing but files, or data of the project."""
    if len(following) < 3 or following[0][1] != "(" or following[2][1] != ")" or following[1][0] != "text":
        return False
    module = following[1][1][1:-1]
    return (
        module.removeprefix("node:") in _MODULES
        or re.fullmatch(r"\.{1,2}/[\w./-]+\.json", module) is not None
    )


def _is_harmless(text: str) -> bool:
    if len(text) < 256 and is_secret("/" + text.lstrip("/").removeprefix("./")):
        return False
    if text.startswith("/dev/"):
        return False
    # Text with blanks in it is what a program writes or prints.
    return " " in text or "\\n" in text or (DOUBTFUL.search(text) is None and not _FORBIDDEN.fullmatch(text))
