"""Programs given as text: on the command line, on standard input, or in a file the same command writes.

They are read before they run. Without a boundary such a program may compute, read, and write files of
the workspace whose names can be told. Inside a boundary, which keeps its writing to the workspace, it
may also import what lies there, and write where it cannot be told. What cannot be followed asks.
"""

from __future__ import annotations

from pathlib import Path

from agent.safety.commands import node_code, node_files, python_code, python_files, python_work
from agent.safety.commands.call import Call, Program
from agent.safety.commands.doubts import DOUBTFUL
from agent.safety.confinement import Confinement
from agent.safety.shell.marks import UNKNOWN, literal


def passes(call: Call, program: Program, text: str, confinement: Confinement) -> bool:
    """Whether a program whose text is known may run unasked. Looks at the disk for what it imports."""
    if UNKNOWN in text:
        return False
    code = literal(text)
    match program.language:
        case "python":
            return _passes_python(call, program, code, confinement)
        case "node":
            return _passes_node(call, code, confinement)
        case "java":
            # Compiled and run at once, as `javac` and `java` one after the other are.
            return confinement != "none" and DOUBTFUL.search(code) is None
        case _:
            return False


def _passes_python(call: Call, program: Program, code: str, confinement: Confinement) -> bool:
    work = python_work.work(code)
    if work is None:
        return False
    if any(call.ground.write(call.path(place)) for place in work.places):
        return False
    if program.path and python_code.is_harmless(code) and not python_code.packages(code):
        return True
    if confinement == "none" and (work.wanders or not work.known):
        return False
    path = Path(call.path(program.path or "-"))
    alone = confinement == "none"
    return python_files.text_only_handles_files(
        code, path, Path(call.cwd), call.named, alone=alone, followed=not program.path
    )


def _passes_node(call: Call, code: str, confinement: Confinement) -> bool:
    if node_code.is_harmless(code):
        return True
    places = node_files.written(code)
    if places is None or any(call.ground.write(call.path(place)) for place in places):
        return False
    if confinement == "none":
        return node_files.ANYWHERE not in places and not node_files.wanders(code)
    return True
