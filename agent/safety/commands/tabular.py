"""Tables as text: csvkit, Miller, qsv, xsv and their like, which read, choose and print."""

from __future__ import annotations

import itertools
import re

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.shell.marks import UNKNOWN, literal, words

PRINTS = fine("only prints tables")
_ODD = ask("changes files or runs programs from a table")
_CSVKIT = words(
    "csvsort csvjoin csvstack csvclean csvjson in2csv csvformat csvpy csvcut csvstat csvlook csvgrep sql2csv"
)
_MILLER_REACHES = re.compile(
    r"\b(?:system|exec|os_type|hostname|ENV|tee|split|case|nothing)\b|[>|]{1,2}\s*(?:stderr|stdout|\""
    r"|\$)|\bredirect",
)


def plain(call: Call) -> Opinion:
    """csvkit: what is printed comes from files or standard input; databases ask."""
    if call.name in ("csvpy", "sql2csv") or call.flag(
        "--db", "--insert", "--before-insert", "--after-insert"
    ):
        return _ODD
    return call.revealed(call.operands()) or PRINTS


def query(call: Call) -> Opinion:
    """csvsql: queries on the files themselves."""
    if call.flag(
        "--db", "--insert", "--before-insert", "--after-insert", "--create-if-not-exists", "--overwrite"
    ):
        return _ODD
    text = call.value("", "query") or ""
    if re.search(r"\b(?:attach|load_extension|writefile|readfile|pragma)\b", literal(text), re.IGNORECASE):
        return _ODD
    return call.revealed(call.operands()) or PRINTS


_MILLER_ODD = words("-I -n -s --prepipe --prepipex --load --mload --files --gzin-command")


def miller(call: Call) -> Opinion:
    """mlr: `put` and `filter` hold programs; `tee`, `split` and `-I` write."""
    main = list(itertools.takewhile(lambda argument: argument.startswith("-"), call.arguments))
    if _MILLER_ODD & {argument.partition("=")[0] for argument in main}:
        return _ODD
    if any(UNKNOWN in argument for argument in call.arguments) or call.arguments[:1] in (
        ("repl",),
        ("lecat",),
    ):
        return _ODD
    words_and_programs = [a for a in call.arguments if not a.startswith("-")]
    if any(_MILLER_REACHES.search(literal(text)) for text in words_and_programs):
        return _ODD
    return call.revealed([a for a in words_and_programs if re.fullmatch(r"[\w./-]+", a)]) or PRINTS


_XSV_READS = words(
    "cat count fixlengths flatten fmt frequency headers index input join sample search select slice "
    "sort stats table "
    "dedup enum fill rename reverse schema searchset sniff transpose validate jsonl tojsonl datefmt"
)


def xsv(call: Call) -> Opinion:
    verb = call.arguments[0] if call.arguments else "--help"
    if verb not in _XSV_READS and verb not in ("--version", "--help", "--list"):
        return _ODD
    output = call.value("o", "output")
    return call.changed([output] if output else []) or call.revealed(call.operands()[1:]) or PRINTS


def stack_calculator(call: Call) -> Opinion:
    """dc: `!` runs commands."""
    texts = [*call.arguments, *(call.stdin or ())]
    known = call.stdin is not None or any(a.startswith("-e") for a in call.arguments)
    harmless = known and not any("!" in text or "?" in text or UNKNOWN in text for text in texts)
    return fine("only computes and prints") if harmless and not call.flag("-f", "--file") else _ODD


RULES: dict[str, Rule] = dict.fromkeys(_CSVKIT, plain) | {
    "csvsql": query,
    "mlr": miller,
    "xsv": xsv,
    "qsv": xsv,
    "dc": stack_calculator,
}
