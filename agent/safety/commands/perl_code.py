"""Short Perl programs given as text: whether they only compute, edit lines and print.

Read as tokens, never run. Words, variables and operators that are allowed are
listed; everything else, and what the tokens do not cover, is not harmless.
"""

from __future__ import annotations

import re

from agent.safety.shell.marks import words

LONGEST = 2_048
"""Characters of a program that are read."""

_WORDS = words(
    "print printf say if unless elsif else and or not eq ne lt gt le ge cmp x while until for foreach my "
    "next last BEGIN END lc uc lcfirst ucfirst length join split sprintf substr index rindex scalar reverse "
    "sort keys values push pop shift unshift map grep chomp chop defined exists delete int abs sqrt hex oct "
    "ord chr sum undef"
)
_VARIABLE = r"(?:[$@%]|\$#)(?:[a-z]\w*|F|_|\d+)(?!\w|::)|\$\.|\$&"
# Indexes in texts are programs of their own: only numbers, plain names and variables.
_HELD = (
    r"\$(?:[a-z]\w*|F|_|\d+|\.|&)(?:\[(?:-?\d+|\$\w+)\]|\{(?:\w+|\$(?:\w+|F\[-?\d+\]))\})?(?!\w|::|->|[\[{])"
)
_INSIDE = r"[^\\$@`{Q}]|\\[^EQULue]|" + _HELD + r"|\$(?=[)|]|{Q}|$)"
_TOKEN = re.compile(
    r"(?P<blank>\s+)"
    + rf"|(?P<variable>{_VARIABLE})"
    + r"|(?P<text>\"(?:"
    + _INSIDE.replace("{Q}", '"')
    + r")*\"|'[^'\\]*')"
    + r"|(?P<number>\d[\d_.]*(?:e[+-]?\d+)?)"
    + r"|(?P<word>[A-Za-z_]\w*)"
    + r"|(?P<operator>=~|!~|<=>|&&|\|\||//=|[-+*.|&/]?=(?![=~])|==|!=|<=|>="
    r"|\+\+|--|\.\.|=>|[-+*%?:;,(){}\[\]!.<>])",
)
_PATTERN = re.compile(r"m?/(?:" + _INSIDE.replace("{Q}", "/") + r"|\$(?=/))*/[gimsx]*(?!\w)")
_REPLACE = re.compile(
    r"(?:s|tr|y)(?P<mark>[/|#,!])(?:(?!(?P=mark))(?:[^@`\\$]|\\[^EQULue]|\$(?=\)|\||(?P=mark))|\$\d(?![\[{])))*"
    r"(?P=mark)(?:(?!(?P=mark))(?:[^@`\\$]|\\.|\$[\d&](?![\[{])))*(?P=mark)[gimsxdcr]*(?!\w)",
    re.DOTALL,
)
_BEFORE_TERM = re.compile(
    r"(?:^|[;{(,!?:&|~=]|\b(?:if|unless|and|or|not|while|until|grep|map|split|print)|\.\.)\s*$"
)


def is_harmless(code: str) -> bool:
    """Whether a Perl program only computes, edits the lines it is given and prints."""
    if len(code) > LONGEST or "(?{" in code or "(??{" in code or "->" in code:
        return False
    place = 0
    before = ""
    """The token before, blanks left out."""
    while place < len(code):
        if _BEFORE_TERM.search(code[max(0, place - 12) : place]) and (
            match := _PATTERN.match(code, place) or _REPLACE.match(code, place)
        ):
            before, place = "pattern", match.end()
            continue
        match = _TOKEN.match(code, place)
        if match is None or not _is_fine(match, before, code):
            return False
        if match.lastgroup != "blank":
            before = match[0]
        place = match.end()
    return True


def _is_fine(match: re.Match[str], before: str, code: str) -> bool:
    following = code[match.end() : match.end() + 1]
    match match.lastgroup:
        case "word":
            # A word behind a dot, a colon or an arrow could be a method or a package.
            return match[0] in _WORDS and before not in ("<", "*", "%") and following not in (":", "<")
        case "operator":
            return not (match[0] == "<" and not _is_operand(before)) and not (
                match[0] in ("*", "%") and not _is_operand(before)
            )
        case "text":
            return "::" not in match[0] or before in ("print", "printf", "say", ",", ".")
        case _:
            return True


def _is_operand(token: str) -> bool:
    """Whether a token may end a value, so that what follows is an operator between two."""
    return re.search(r"[\w)\]}\"'.&]$", token) is not None and token not in _WORDS
