"""Short Python programs given as text: whether they only compute and print.

Read as a syntax tree, never run. What is allowed is listed; everything else is
not harmless. Attributes named like modules are refused, because modules hand
out the modules they import (`json.codecs`, `random._os`).
"""

from __future__ import annotations

import ast
import re
import sys

from agent.safety.commands import paths_code, tables_code
from agent.safety.commands.python_tree import Nodes, nodes_of
from agent.safety.commands.secrets import is_secret
from agent.safety.shell.marks import words

LONGEST = 8_192
"""Characters of a program that are read."""

_MODULES = words(
    "json sys re math cmath datetime collections itertools string textwrap pprint statistics random "
    "hashlib base64 time platform decimal fractions csv typing functools uuid calendar struct "
    "unicodedata enum dataclasses urllib.parse html difflib zlib binascii heapq bisect keyword "
    "tomllib __future__ colorsys secrets ipaddress"
)
_SAME_NAME = words(
    "datetime time platform pprint random calendar fractions html decimal string statistics copy"
)
# Of these only the named attributes are harmless.
_LIMITED: dict[str, frozenset[str]] = {
    "os": words("getcwd path sep cpu_count name linesep getpid pathsep listdir walk"),
    "pathlib": frozenset({"Path", "PurePath"}),
    "sys": words(
        "argv stdin stdout stderr version version_info platform path executable exit maxsize byteorder "
        "implementation prefix base_prefix getsizeof getrecursionlimit getdefaultencoding float_info "
        "int_info hexversion maxunicode flags"
    ),
    "sysconfig": frozenset({"get_paths", "get_path", "get_platform", "get_python_version", "get_config_var"}),
    "site": frozenset({"getsitepackages", "getusersitepackages"}),
    "ast": words("literal_eval parse walk dump unparse get_docstring FunctionDef ClassDef Name Import Call"),
    "importlib.metadata": frozenset({"version", "packages_distributions", "requires"}),
    "operator": frozenset({"add", "mul", "itemgetter"}),
}
_ACT_WHEN_IMPORTED = words("antigravity idlelib turtledemo this")
_OF_PACKAGES = frozenset({"__version__", "__file__", "__name__", "VERSION", "version"})
_NAMES = words(
    "eval exec compile __import__ globals locals vars getattr setattr delattr breakpoint help "
    "memoryview __builtins__ __loader__ __spec__ license credits copyright super classmethod"
)
_ATTRIBUTES = re.compile(
    r"(?:f|gi|cr|ag|tb|co|func)_\w+|open|system|popen|spawn\w*|exec\w*|eval|compile|modules|settrace"
    r"|setprofile|meta_path|path_hooks|path_importer_cache"
    r"|breakpointhook|addaudithook|write_text|write_bytes|unlink|rmtree|remove_tree|loads_unsafe"
    r"|fromfile|tofile|builtins|mro"
)


def is_harmless(code: str) -> bool:
    """Whether a Python program only computes, reads plain files and prints."""
    if len(code) > LONGEST:
        return False
    nodes = nodes_of(code)
    if nodes is None:
        return False
    limited: dict[str, frozenset[str]] = {}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not _imports(node, limited):
            return False
    if packages(code) and any(isinstance(node, ast.Attribute) and node.attr == "path" for node in nodes):
        return False  # modules could be looked for elsewhere
    if not (tables_code.only_reads(nodes, limited) and paths_code.only_reads(nodes)):
        return False
    return all(_is_fine(node, limited) for node in nodes) and _are_only_attributes(nodes, limited)


def packages(code: str) -> list[str]:
    """The packages outside of the standard library that a harmless program imports."""
    nodes = nodes_of(code) or ()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    tops = [name.partition(".")[0] for name in names]
    return [name for name in tops if name not in sys.stdlib_module_names]


def _imports(node: ast.Import | ast.ImportFrom, limited: dict[str, frozenset[str]]) -> bool:
    if isinstance(node, ast.ImportFrom):
        allowed = _LIMITED.get(node.module or "")
        if node.level or (allowed is None and node.module not in _MODULES):
            return False
        return all(
            (alias.name in allowed) if allowed is not None else _is_plain(alias.name, node.module or "")
            for alias in node.names
        )
    for alias in node.names:
        name = alias.name
        if name in _LIMITED:
            limited[alias.asname or name] = _LIMITED[name]
        elif name not in _MODULES:
            if name.partition(".")[0] in sys.stdlib_module_names:
                if "." in name or name in _ACT_WHEN_IMPORTED:
                    return False
                limited[alias.asname or name.partition(".")[0]] = frozenset()
                continue
            limited[alias.asname or name.partition(".")[0]] = tables_code.NAMES.get(name, _OF_PACKAGES)
    return True


def _is_plain(name: str, module: str) -> bool:
    if name == module.rpartition(".")[2] and name in _SAME_NAME:
        return True
    return (
        not name.startswith("_")
        and name != "*"
        and name not in sys.stdlib_module_names
        and not _ATTRIBUTES.fullmatch(name)
    )


def _is_fine(node: ast.AST, limited: dict[str, frozenset[str]]) -> bool:
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in limited:
            return node.attr in limited[node.value.id] and isinstance(node.ctx, ast.Load)
        if node.attr.startswith("_") or _ATTRIBUTES.fullmatch(node.attr):
            return False
        return node.attr not in sys.stdlib_module_names or node.attr in _SAME_NAME | {
            "parse",
            "path",
            "glob",
            "stat",
        }
    if isinstance(node, ast.Name):
        return node.id not in _NAMES and not (
            node.id.startswith("__") and node.id not in ("__name__", "__file__")
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
        return _only_reads(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        return not (len(text) < 256 and is_secret("/" + text.lstrip("/").replace("~/", "")))
    return not isinstance(node, (ast.Global, ast.Nonlocal, ast.AsyncFunctionDef, ast.Await, ast.ClassDef))


def _only_reads(node: ast.Call) -> bool:
    mode: ast.expr | None = node.args[1] if len(node.args) > 1 else None
    for keyword in node.keywords:
        if keyword.arg == "mode":
            mode = keyword.value
        elif keyword.arg not in ("encoding", "errors", "newline"):
            return False
    if any(isinstance(argument, ast.Starred) for argument in node.args) or len(node.args) > 2:
        return False
    if not node.args or (isinstance(node.args[0], ast.BinOp | ast.JoinedStr)):
        return False
    return mode is None or (isinstance(mode, ast.Constant) and mode.value in ("r", "rb", "rt"))


def _are_only_attributes(nodes: Nodes, limited: dict[str, frozenset[str]]) -> bool:
    """Whether limited modules, and `open`, are never handed on under another name."""
    allowed: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            allowed.add(id(node.value))
        elif isinstance(node, ast.Call):
            allowed.add(id(node.func))
    return all(
        id(node) in allowed
        for node in nodes
        if isinstance(node, ast.Name) and (node.id in limited or node.id == "open")
    )
