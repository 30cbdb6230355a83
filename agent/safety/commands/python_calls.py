"""Calls of Python programs that reach beyond files, in the forms that do no harm.

Reading a database, asking a server on this machine, and starting a program whose command line is
written out: the shell reader finds such a command line, and it is judged like any other.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Sequence

from agent.safety.commands import databases
from agent.safety.commands.python_values import called
from agent.safety.shell.foreign_code import shell_texts
from agent.safety.shell.marks import words

MODULES: dict[str, frozenset[str]] = {
    "sqlite3": words("connect Row Error OperationalError sqlite_version version"),
    "subprocess": words("run check_output check_call call PIPE STDOUT DEVNULL CalledProcessError"),
    "requests": words("get head exceptions __version__"),
    "httpx": words("get head __version__"),
    "urllib": words("parse request error"),
    "urllib.request": words("urlopen"),
    "urllib.error": words("HTTPError URLError"),
}
"""The modules, and what of them may be used, when all calls `are_plain`."""

_EXECUTES = words("execute executescript executemany read_sql read_sql_query")
_STARTS = words("run check_output check_call call")
_FETCHES = words("get head urlopen")
_WATCHED = _STARTS | _EXECUTES | words("urlopen")
_BEYOND = words("connection raw send prepare Session adapters build_opener Request Popen set_authorizer")
_TOPS = frozenset(module.partition(".")[0] for module in MODULES)
_OWN = re.compile(
    r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?(?:/[\w./~%?=&:+,;-]*)?", re.ASCII
)
REACHING = _EXECUTES | words("urlopen")
"""Attributes that are refused elsewhere."""
_OPTIONS = words("capture_output text check stdout stderr encoding timeout shell universal_newlines errors")


def are_plain(code: str, nodes: Sequence[ast.AST], *, followed: bool) -> bool:
    """Whether all calls into these modules are of a form that does no harm.

    `followed` says that the command lines in the program are judged elsewhere.
    """
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {name.partition(".")[0] for node in imports for name in _modules(node)} & _TOPS
    if not imported:
        return True
    if "subprocess" in imported and not followed:
        return False
    if any(alias.asname and name in MODULES for node in imports for alias, name in _renamed(node)):
        return False
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    checks: list[Callable[[ast.Call], bool]] = []
    if "sqlite3" in imported:
        checks.append(_reads_database)
    if "subprocess" in imported:
        lines = set(shell_texts(code))
        checks.append(lambda call: _starts_plainly(call, lines))
    if imported & {"requests", "httpx", "urllib"}:
        checks.append(_asks_this_machine)
    used = {id(call.func) for call in calls}
    if not all(_stays_in_reach(node, used) for node in nodes):
        return False
    return all(check(call) for check in checks for call in calls)


def _stays_in_reach(node: ast.AST, used: set[int]) -> bool:
    """Whether nothing that reaches further is handed on, or looked up on the way."""
    match node:
        case ast.Attribute(value=ast.Attribute(attr="request"), attr=name):
            return name == "urlopen" and id(node) in used
        case ast.Attribute(attr=name):
            return name not in _BEYOND and (name not in _WATCHED or id(node) in used)
        case ast.ImportFrom(module="urllib", names=names):
            return all(alias.name == "parse" for alias in names)
        case ast.Name(id="getattr"):
            return False
        case _:
            return True


def _renamed(node: ast.Import | ast.ImportFrom) -> list[tuple[ast.alias, str]]:
    """The names an import gives, each with its module."""
    module = "" if isinstance(node, ast.Import) else node.module or ""
    return [(alias, module or alias.name) for alias in node.names]


def is_own_address(text: str) -> bool:
    """Whether a text is the address of a server on this machine."""
    return _OWN.fullmatch(text) is not None


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]


def _reads_database(call: ast.Call) -> bool:
    name, _ = called(call)
    if name == "connect":
        return all(keyword.arg in ("timeout", "uri") for keyword in call.keywords)
    if name in ("backup", "enable_load_extension", "load_extension", "set_trace_callback", "create_function"):
        return False
    if name not in _EXECUTES:
        return True
    query = call.args[0] if call.args else None
    if isinstance(query, ast.Constant) and isinstance(query.value, str):
        return name != "executemany" and databases.only_reads(query.value)
    # One statement is carried out at most, and it begins with a word that reads.
    pieces = query.values if isinstance(query, ast.JoinedStr) and name == "execute" else []
    first = pieces[0] if pieces else None
    text = "".join(str(piece.value) for piece in pieces if isinstance(piece, ast.Constant))
    begins = isinstance(first, ast.Constant) and re.match(r"\s*(?:select|pragma)\s", str(first.value), re.I)
    return bool(begins) and "=" not in text.partition("(")[0][:40] and databases.only_reads(f"select {text}")


def _starts_plainly(call: ast.Call, lines: set[str]) -> bool:
    name, owner = called(call)
    if name not in _STARTS or (isinstance(owner, ast.Name) and owner.id != "subprocess"):
        return True
    if len(call.args) != 1 or any(keyword.arg not in _OPTIONS for keyword in call.keywords):
        return False
    given = call.args[0]
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value in lines
    if not isinstance(given, ast.List) or any(keyword.arg == "shell" for keyword in call.keywords):
        return False
    parts = [
        each.value for each in given.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    quoted = (" ".join("'" + part.replace("'", "'\\''") + "'" for part in parts), shlex.join(parts))
    return len(parts) == len(given.elts) and bool(parts) and any(line in lines for line in quoted)


def _asks_this_machine(call: ast.Call) -> bool:
    name, owner = called(call)
    of_module = owner is None or (isinstance(owner, ast.Name) and owner.id in ("requests", "httpx"))
    if not (name == "urlopen" or (name in _FETCHES and of_module)):
        return True
    address = call.args[0] if call.args else None
    odd = {keyword.arg for keyword in call.keywords} - {"timeout", "params", "headers"}
    known = isinstance(address, ast.Constant) and _OWN.fullmatch(str(address.value)) is not None
    return known and len(call.args) == 1 and not odd
