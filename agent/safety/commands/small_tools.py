"""Small tools beside the usual ones: `sd`, `rename`, `ctags`, `pv`."""

from __future__ import annotations

import re

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.shell.marks import literal

_LOOKS = fine("only looks")
_EDITS = fine("edits text")
_ALL = re.compile(r"(?:\(\?[a-z]+\))?\^?(?:\.|\[\\s\\S\])[*+]\$?")
"""Patterns that match all there is."""


def sd(call: Call) -> Opinion:
    """sd: replaces in what it reads, or in the files it is given."""
    flags = [argument for argument in call.arguments if argument.startswith("-")]
    if not all(re.fullmatch(r"-[pFsAi]+|--(?:preview|fixed-strings|string-mode)|--", each) for each in flags):
        return (
            _EDITS
            if call.arguments in (("--version",), ("--help",))
            else ask("changes files in an unknown way")
        )
    words = call.operands()
    files = words[2:]
    if files and _ALL.fullmatch(literal(words[0])):
        return ask("destroys the contents of files")
    if not files or call.flag("-p", "--preview"):
        return call.revealed(files) or _EDITS
    return call.changed(files) or fine("changes files of the workspace")


_SUBSTITUTES = re.compile(
    r"(?:s|tr|y)([/|,#])(?:(?!\1)[^\\$@`]|\\[\w.\\-]|\$(?=\1|\)))*\1(?:(?!\1)[^\\$@`/]|\\\d|\$\d)*\1[gix]*"
)


def rename(call: Call) -> Opinion:
    """rename: by a plain substitution, or by two words, files keep to their folders."""
    flags = [argument for argument in call.arguments if argument.startswith("-")]
    words = call.operands()
    if (
        not all(re.fullmatch(r"-[nvo]+|--(?:verbose|no-act|nono|no-overwrite)", flag) for flag in flags)
        or not words
    ):
        return ask("runs a program given as text")
    first = literal(words[0])
    by_text = _SUBSTITUTES.fullmatch(first) is not None
    plain = len(words) > 2 and all(re.fullmatch(r"[\w. -]*", literal(word)) for word in words[:2])
    alike = by_text and _ALL.fullmatch(first.partition(first[1])[2].partition(first[1])[0]) is not None
    if not (by_text or plain) or alike or "(?{" in first or ".." in first:
        return ask("runs a program given as text")
    return call.changed(words[1:] if by_text else words[2:]) or fine("changes names inside the workspace")


_TAG_OPTIONS = re.compile(
    r"-[RVeanux]+|--(?:recurse|append|languages|exclude|fields|extras?|kinds-\w+|[\w+#]+-kinds|langmap|sort|tag-relative"
    r"|totals|links|version|help|list-\w+|quiet|verbose|output-format)(?:=[\w,.*+/@:-]*)?"
)


def ctags(call: Call) -> Opinion:
    """ctags: writes one file of names."""
    output = call.value("f") or call.value("o") or "tags"
    rest = [a for a in call.arguments if a.startswith("-") and a != "-" and not re.match(r"-[fo]", a)]
    if not all(map(_TAG_OPTIONS.fullmatch, rest)):
        return ask("takes settings that may run programs")
    written = None if output == "-" or call.has("x", "version", "help") else call.changed([output])
    return written or call.revealed([word for word in call.operands("fo") if word != output]) or _LOOKS


def pv(call: Call) -> Opinion:
    """pv: passes on what it reads, and shows how fast."""
    if not all(
        re.fullmatch(r"-[pterbaTnqWlfiIs0kM]+|-[sLiwHN]\S*|--version|--help|-", a) for a in call.options()
    ):
        return ask("writes files, or looks into other programs")
    return call.revealed(call.operands("sLiwHN")) or _LOOKS


RULES: dict[str, Rule] = {
    "sd": sd,
    "rename": rename,
    "prename": rename,
    "ctags": ctags,
    "universal-ctags": ctags,
    "pv": pv,
}
