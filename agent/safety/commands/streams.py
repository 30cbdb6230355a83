"""sed and awk: editors of text with small languages of their own."""

from __future__ import annotations

import re

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.commands.secrets import is_secret_variable
from agent.safety.shell.marks import UNKNOWN, literal

EDITS = fine("edits text")
NOT_READ = "runs an editing script that is not fully understood"


def sed(call: Call) -> Opinion:
    """sed: `e` runs commands, `w` writes files, `-i` changes the files themselves."""
    scripts: list[str] = []
    files: list[str] = []
    in_place = quiet_end = False
    arguments = iter(call.arguments)
    for argument in arguments:
        if quiet_end or argument == "-" or not argument.startswith("-"):
            files.append(argument)
        elif argument == "--":
            quiet_end = True
        elif argument in ("-e", "--expression") or re.fullmatch(r"-[nrEsuz]+e", argument):
            scripts.append(next(arguments, ""))
        elif argument.startswith("--expression="):
            scripts.append(argument.partition("=")[2])
        elif glued := re.fullmatch(r"-[nrEsuz]*e(.+)", argument, re.DOTALL):
            scripts.append(glued[1])
        elif argument.startswith(("-i", "--in-place")) or re.fullmatch(r"-[nrEsuz]+i", argument):
            in_place = True
            if "/" in argument or (argument.startswith("--") and UNKNOWN in argument):
                return ask("keeps copies outside of the folder of the files")
        elif re.fullmatch(
            r"-[nrEsuz]+|--(?:quiet|silent|regexp-extended|null-data|separate|posix|debug|sandbox"
            r"|unbuffered)|--version|--help|-l\d+",
            argument,
        ):
            pass
        else:
            return ask(NOT_READ)
    if not scripts and files:
        scripts.append(files.pop(0))
    if any(UNKNOWN in script for script in scripts):
        return ask("runs an editing script that is not known here")
    if any(not _harmless(literal(script)) for script in scripts):
        return ask("runs commands or writes files from an editing script, or is not fully understood")
    silent = any(re.fullmatch(r"-[nrEsuz]*n[nrEsuz]*|--quiet|--silent", a) for a in call.arguments)
    if in_place and silent and not any(re.search("[pPwil=]", script) for script in scripts):
        return ask("destroys the contents of files")
    if in_place and any(_EVERYTHING.fullmatch(literal(script)) for script in scripts):
        return ask("destroys the contents of files")
    if in_place:
        return call.changed(files) or fine("changes files of the workspace")
    return call.revealed(files) or EDITS


_EVERYTHING = re.compile(
    r"\s*(?:[01],\$)?\s*[dDz]\s*;?\s*|\s*[01]?\s*Q\s*|\s*(?:1,\$)?s(\W)\.\*\1\1g?\s*"
    r"|\s*/(?:\.\*?|\^|\$|\^\.\*\$?|\.\+)/\s*[dD]\s*"
)
"""Scripts that leave nothing of a file."""

_ADDRESS = re.compile(
    r"[\s;]*(?:(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]]*\])*/[IM]*"
    r"|\\([^\w\s\\])(?:(?!\1)[^\\\n]|\\.)*\1[IM]*)"
    r"(?:\s*,\s*(?:[+~]?\d+|\$|/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]]*\])*/[IM]*))?)?\s*!?\s*"
)
_SIMPLE = re.compile(
    r"[=dDgGhHnNpPxzF](?=[\s;}#]|$)|[{}]|#[^\n]*|[qQlL]\s*\d*(?=[\s;}#]|$)|[btT:]\s*[\w.-]*\s*(?=[\n;}]|$)"
)
_TEXT = re.compile(r"[aic](?:\\\n|\s|\\)?(?:[^\n\\]|\\.|\\\n)*", re.DOTALL)
_REPLACE = re.compile(r"([sy])([^\w\s\\])", re.DOTALL)


def _harmless(script: str) -> bool:
    """Whether a sed script only edits: nothing in it runs a command or names a file."""
    at = 0
    while at < len(script):
        address = _ADDRESS.match(script, at)
        at = address.end() if address else at
        if at >= len(script):
            return True
        if (found := _SIMPLE.match(script, at)) or (found := _TEXT.match(script, at)):
            at = found.end()
            continue
        start = _REPLACE.match(script, at)
        if start is None:
            return False
        at = _after_parts(script, start.end(), start[2])
        flags = re.compile(r"[gpIiMm\d]*").match(script, at) if start[1] == "s" and at >= 0 else None
        if at < 0:
            return False
        at = flags.end() if flags else at
        if at < len(script) and script[at] not in " \t\n;}#":
            return False
    return True


def _after_parts(script: str, at: int, delimiter: str) -> int:
    """The place behind the two parts of `s` or `y`; -1 when they do not end."""
    for part in range(2):
        start = at
        while at < len(script) and script[at] != delimiter:
            at += 2 if script[at] == "\\" else 1
        if at >= len(script):
            return -1
        # A delimiter in an open bracket ends the part for some versions and not for others.
        if part == 0 and script.count("[", start, at) > script.count("]", start, at):
            return -1
        at += 1
    return at


_AWK_RUNS = re.compile(r"system|getline|@\s*\w|\bclose\b|ENVIRON|PROCINFO|/inet[46]?/|\bfflush\b", re.ASCII)
_AWK_FILE = re.compile(r">{1,2}\s*\"([\w./-]+)\"(?=\s*(?:[;}\n]|$))")
"""Output to a file whose name is written out."""
_AWK_SORTED = re.compile(
    r"(?<=[\w\])\"'])\s*\|\s*\"(?:sort|uniq|wc|head|column)"
    r"(?: (?:-[nrufkcdbtl][\d,.nrk]*|-t,|\d+))*\"(?=\s*(?:[;}\n]|$))"
)
"""Output through a program that only sorts and counts, with its options written out."""


def awk(call: Call) -> Opinion:
    """awk: `system`, pipes and redirections in the program reach beyond its text."""
    program: str | None = None
    files: list[str] = []
    arguments = iter(call.arguments)
    for argument in arguments:
        if program is None and argument in ("-F", "-v", "--field-separator", "--assign"):
            next(arguments, "")
        elif (program is None and re.match(r"-[Fv].|--(?:field-separator|assign)=", argument)) or (
            program is None and argument in ("--", "--posix", "--re-interval", "--version", "-W")
        ):
            pass
        elif program is None and argument.startswith("-"):
            return ask("runs an awk program from a file, or changes files in place")
        elif program is None:
            program = argument
        else:
            files.append(argument)
    if program is None:
        return EDITS
    if UNKNOWN in program:
        return ask("runs an awk program that is not known here")
    program, written = _AWK_FILE.sub("", literal(program)), _AWK_FILE.findall(literal(program))
    if opinion := call.changed(written):
        return opinion
    if written and re.search(r'\bprintf?\s*\(?\s*""\s*\)?', program) and not files:
        return ask("destroys the contents of files")
    if _awk_reaches_out(_AWK_SORTED.sub("", program)):
        return ask("runs an awk program that may start commands or write files")
    return call.revealed(files) or EDITS


def _awk_reaches_out(program: str) -> bool:
    if _AWK_RUNS.search(program):
        return True
    rest = _awk_bare(program)
    if re.search(r"(?<!\|)\|(?!\|)", rest):
        return True
    return re.search(r"\bprintf?\b[^;}\n]*>", rest) is not None


_AWK_TOKEN = re.compile(
    r"(?P<text>\"(?:[^\"\\\n]|\\.)*\")|(?P<blank>[ \t]+|#[^\n]*)|(?P<slash>/)|(?P<word>\w+)|(?P<other>[\s\S])"
)
_AWK_PATTERN = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]\n]*\])*/")
_AWK_BEFORE_PATTERN = frozenset(
    {"print", "printf", "return", "case", "in", "do", "else", "getline", "delete"}
)


def _awk_bare(program: str) -> str:
    """The program without what its texts and patterns hold, as far as they can be told from divisions."""
    found: list[str] = []
    before, at = "", 0
    while at < len(program):
        match = _AWK_TOKEN.match(program, at)
        if match is None or match["other"] == '"':
            return program
        if match["slash"] and before in ("", "{", "}", "(", ",", "~", "!", "&", "|", ";", "\n"):
            match = _AWK_PATTERN.match(program, at)
            if match is None:
                return program
            token = "//"
        elif match["slash"] and (before == "=" or before in _AWK_BEFORE_PATTERN):
            return program  # a pattern or a division
        else:
            token = '""' if match["text"] else match[0]
        if not token.isspace() or token == "\n":
            before = token[-1] if not token[-1].isalnum() else token
        found.append(token)
        at = match.end()
    return "".join(found)


def substitute(call: Call) -> Opinion:
    """envsubst fills in variables; those that look secret ask."""
    texts = (*call.operands(), *(call.stdin or ()))
    if any(is_secret_variable(name) for text in texts for name in re.findall(r"\$\{?(\w+)", literal(text))):
        return ask("shows a secret of the environment")
    return EDITS


RULES: dict[str, Rule] = {
    "envsubst": substitute,
    "sed": sed,
    "gsed": sed,
    "awk": awk,
    "gawk": awk,
    "mawk": awk,
    "nawk": awk,
}
