"""Programs that lie in the workspace, where the operating system draws a boundary around commands.

Inside a boundary a program can do to the workspace what `make test` can, and undo brings that back.
So it may run unasked, unless what it holds says otherwise: a script is read for what destroys, what
runs something later and what it hides. Where the network is open as well, only a script that was
read with all it imports, and that reaches nothing but files, runs unasked. What is not there runs
nothing, so it does not ask either.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Set
from pathlib import Path

from agent.safety.commands import node_code, python_files, texts
from agent.safety.commands.call import Call, Program
from agent.safety.commands.checkers import OUTWARD
from agent.safety.commands.doubts import DOUBTFUL
from agent.safety.commands.secrets import is_secret
from agent.safety.confinement import Confinement
from agent.safety.places import absolute
from agent.safety.shell.marks import literal, words

LARGEST = 200_000
"""Bytes of a program that is read. A longer text asks; what is no text cannot be read at all."""


def passes(
    call: Call,
    program: Program,
    confinement: Confinement,
    *,
    acted: bool,
    built: Set[str],
    after_build: bool = False,
) -> bool:
    """Whether a program of the workspace may run unasked.

    `acted` says that something ran before it in the same command that may have changed files; `built`
    are names of programs that a compiler made there, and `after_build` says that the project was built.
    What a build of sources from before made is what `cargo run` and its like build and run.
    """
    if program.text is not None:
        plain = call.inside and not _is_told_more(call, program)
        return plain and texts.passes(call, program, program.text, confinement)
    path = absolute(call.path(program.path))
    if known := call.held.get(path):
        # The shell was let write there before, so the place needs no second look.
        plain = not _is_told_more(call, program)
        return plain and all(texts.passes(call, program, each, confinement) for each in known)
    if confinement == "none" or not call.ground.inside(path):
        return False
    name = path.rpartition("/")[2]
    if name in call.named and name not in built:
        return False
    if _is_told_more(call, program):
        return False
    if not acted and not built and _is_missing(path):
        return not any(map(_DESTROYS.fullmatch, program.arguments))
    held = _held(path)
    if isinstance(held, bytes):
        if DOUBTFUL.search(held.decode("utf-8", "replace")):
            return False
        return confinement == "closed" or (not acted and _is_known(program.language, path, held, call))
    return held and (confinement == "closed" or after_build or name in built)


def _is_told_more(call: Call, program: Program) -> bool:
    """Whether arguments speak of going beyond the workspace, or name secrets."""
    if any(map(OUTWARD.fullmatch, program.arguments)):
        return True
    return any(is_secret(call.path(word)) for word in program.arguments if not word.startswith("-"))


_DESTROYS = re.compile(
    r"(?:delete|destroy|remove|drop|purge|terminate|kill|wipe)(?:[-_:]\S*)?", re.IGNORECASE
)


_LINKERS = words("gcc g++ cc c++ clang clang++ gfortran")
_COMPILERS = words("gcc g++ cc c++ clang clang++ rustc go ghc zig gfortran ocamlopt nim crystal")


def compiled(call: Call) -> str:
    """The name of the program that a compiler makes of sources that lay there before; else empty."""
    if call.name not in _COMPILERS:
        return ""
    output = call.value("o")
    if output is None and call.name in _LINKERS and not call.flag("-c", "-S", "-E", "-fsyntax-only", "-M"):
        output = "a.out"
    unread = any(each in ("-", "-x") or not _is_read(call, each) for each in call.arguments)
    return output.rpartition("/")[2] if output and not unread else ""


def _is_read(call: Call, source: str) -> bool:
    """Whether a source lay there before, or is known to hold nothing that a person should see first."""
    if source.rpartition("/")[2] not in call.named:
        return True
    known = call.held.get(absolute(call.path(source)), ())
    return bool(known) and not any(DOUBTFUL.search(literal(text)) for text in known)


_PYTHON = re.compile(rb"#![ \t]*(?:/usr)?(?:/local)?/bin/(?:env[ \t]+)?python[\d.]*[ \t]*\n")


def _is_known(language: str, path: str, held: bytes, call: Call) -> bool:
    """Whether a script was understood to the end, and reaches nothing but files."""
    if not language and _PYTHON.match(held):
        language = "python"
    if language == "python":
        return python_files.only_handles_files(Path(path), held, Path(call.cwd), call.named)
    if language == "node":
        return node_code.is_harmless(held.decode("utf-8", "replace"))
    return False


def _is_missing(path: str) -> bool:
    """Whether there is nothing that could run."""
    try:
        os.stat(path)  # noqa: PTH116 - as cheap as it gets
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return False


def _held(path: str) -> bytes | bool:
    """What a program holds when it is a text; otherwise whether it is something that can be run at all."""
    try:
        status = os.stat(path)  # noqa: PTH116 - as cheap as it gets
        if not stat.S_ISREG(status.st_mode):
            return False
        with open(path, "rb") as file:  # noqa: PTH123
            held = file.read(LARGEST + 1)
    except FileNotFoundError:
        return True  # nothing would run
    except (OSError, ValueError):
        return False
    if b"\0" in held[:8_192]:
        return True
    return held if len(held) <= LARGEST else False
