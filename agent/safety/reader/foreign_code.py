"""Programs in other languages on a command line: the shell commands they hand on as plain text.

This reads no Python or Perl. It finds the calls everybody uses to start a
command (`os.system("…")`, `subprocess.run([…])`, backquotes) or to delete a tree
when their argument is a literal; everything else stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.safety.reader.marks import UNKNOWN, value, words

INTERPRETERS = words(
    "python python2 python3 pypy pypy3 perl ruby node nodejs bun deno php lua awk gawk mawk nawk"
)

_STRING = r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
_STARTER = (
    r"\b(?:system|popen|Popen|run|call|check_call|check_output|getoutput|getstatusoutput|exec|execSync|execFileSync"
    r"|spawn|spawnSync|shell_exec|passthru|proc_open|qx|sh)"
)
_CALL = re.compile(rf"{_STARTER}\s*\(?\s*{_STRING}", re.DOTALL)
_LIST_CALL = re.compile(rf"{_STARTER}\s*\(\s*\[((?:\s*{_STRING}\s*(?:,|(?=\])))+)\s*\]", re.DOTALL)
_BACKQUOTES = re.compile(r"`([^`]*)`")
_TEMPLATE_CALL = re.compile(rf"{_STARTER}\s*\(\s*`([^`]*)`")
_WITH_TEMPLATES = words("node nodejs bun deno")
"""Languages in which backquotes are texts; they start nothing by themselves."""
_PLACE = rf"(?:[\w.]*(?:expanduser|Path|path)\s*\(\s*)?{_STRING}"
_HOME = (
    r"Path\.home\(\)|Dir\.home|[\w.]*homedir\(\)|(?:os\.)?environ\[.HOME.\]|process\.env\.HOME|ENV\[.HOME.\]"
)
_DELETE_TREE = re.compile(
    r"\b(?:rmtree|rm_rf|rm_r|remove_tree|remove_dir_all|rmSync|rmdirSync)\s*\(?\s*"
    rf"(?:{_PLACE}|({_HOME})\s*[,)\n;'\"]|({_HOME})\s*$)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def program_text(name: str, arguments: Sequence[str], stdin: list[str] | None) -> list[str]:
    """The program texts that `name arguments…` would run, as far as they are known."""
    found: list[str] = []
    operands = 0
    for place, argument in enumerate(arguments):
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        if re.fullmatch(r"-[A-Za-z]*[cer]|--eval|--print|-[A-Za-z]*pe", argument):
            found.append(value(following))
        elif not argument.startswith("-") or argument == "-":
            operands += argument != "-"
    if name.endswith("awk"):
        return [value(argument) for argument in arguments if "{" in argument]
    if not found and not operands and stdin is not None:
        found = [value(text) for text in stdin]
    return [text for text in found if text and text != UNKNOWN]


def shell_texts(code: str, language: str = "") -> Iterator[str]:
    """Shell commands that the program text starts. `language` is the name of its interpreter."""
    for match in _CALL.finditer(code):
        yield _text(match[1])
    for match in _LIST_CALL.finditer(code):
        yield " ".join(_quoted(_text(item)) for item in re.findall(_STRING, match[1], re.DOTALL))
    backquotes = _TEMPLATE_CALL if language in _WITH_TEMPLATES else _BACKQUOTES
    for match in backquotes.finditer(code):
        yield match[1]


def deleted_trees(code: str) -> Iterator[str]:
    """Paths of folders that the program text deletes with all they hold."""
    for match in _DELETE_TREE.finditer(code):
        yield _text(match[1]) if match[1] else "~"


def _text(literal: str) -> str:
    return _ESCAPE.sub(lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), literal[1:-1])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
