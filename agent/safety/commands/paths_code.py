"""Paths in short Python programs: whether `pathlib` is only used to find and read plain files."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from agent.safety.commands.secrets import is_secret
from agent.safety.shell.marks import words

_READS = words("read_text read_bytes")
_FINDS = words("glob rglob")
_BUILDS = words("joinpath with_name with_suffix with_stem parent parents iterdir relative_to readlink")
_REACHES = words(
    "unlink rename rmdir mkdir touch chmod lchmod symlink_to hardlink_to link_to home expanduser "
    "copy_into move "
    "move_into write_text write_bytes"
)
_NAMED_KIND = re.compile(r"[^\x00]*\*[^\x00]*\.\w+")


def only_reads(nodes: Sequence[ast.AST]) -> bool:
    """Whether paths are only looked at, and what is read of them is plain to see beforehand."""
    if not any(_imports(node) for node in nodes):
        return True
    called = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    for node in attributes:
        if node.attr in _REACHES:
            return False
        # A text is replaced by two arguments, a file by one.
        if node.attr in ("replace", "copy"):
            call = called.get(id(node))
            if call is None or call.keywords or len(call.args) < (2 if node.attr == "replace" else 0):
                return False
            if node.attr == "copy" and call.args:
                return False
    opens = any(isinstance(node, ast.Name) and node.id == "open" for node in nodes)
    if not opens and not any(node.attr in _READS for node in attributes):
        return True
    if any(node.attr in _BUILDS for node in attributes):
        return False
    if any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) for node in nodes):
        return False
    return all(_is_plain(call) for call in called.values())


def _imports(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "pathlib"
    return isinstance(node, ast.Import) and any(alias.name == "pathlib" for alias in node.names)


def _is_plain(call: ast.Call) -> bool:
    """Whether a call that names a path names it in full, or finds files of one kind."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in ("Path", "PurePath", *_FINDS):
        return True
    if len(call.args) != 1 or call.keywords:
        return not call.args and name in ("Path", "PurePath")
    text = call.args[0]
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
        return False
    if name in _FINDS:
        return _NAMED_KIND.fullmatch(text.value) is not None and not is_secret(
            f"/{text.value.replace('*', 'x')}"
        )
    return True
