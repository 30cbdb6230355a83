"""Words of a shell text, written one way: quotes that change nothing are dropped, those that do are kept.

Nothing is expanded or judged here (`agent.safety.reader` does that); two texts that are
written alike mean the same to a shell, and that is all this is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST = 20_000
"""Characters of a text that are told apart; the rest is one word."""

_SPACE = re.compile(r"(?:[^\S\n]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_REDIRECT = re.compile(r"\d*(?:<<<|<<-?|>\||>>|<>|>&|<&|>|<)(?:(?<=&)[\d-]+)?|&>>?")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;|[;&|()\n]")
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./^-]*")
"""Text that means the same with quotes and without."""
_PLAIN = re.compile(r"[^\s'\"\\;&|()<>]+")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SINGLE = re.compile(r"'([^']*)(?:'|\Z)")
_DOUBLE = re.compile(r'"((?:\\.|[^"\\])*)(?:"|\\?\Z)', re.DOTALL)
_IN_DOUBLE = re.compile(r'\\(["\\$`\n])')
_EXPANDED = re.compile(r"(?<!\\)(?:\\\\)*[$`]")


@dataclass(frozen=True, slots=True)
class CommandWord:
    """One word: `text` as it is written here, `value` what it says without quotes."""

    text: str
    value: str
    is_operator: bool = False
    """Whether it stands between commands, or leads input and output elsewhere."""


def words(text: str) -> tuple[CommandWord, ...]:
    """The words of a shell text, in order. Never raises; its work is linear."""
    told = text[:LONGEST].replace("\r\n", "\n")
    found = list(_words(told))
    if rest := text[LONGEST:]:
        found.append(CommandWord(_literal(rest), rest))
    return tuple(found)


def written(sequence: Sequence[CommandWord]) -> str:
    """The words as one text."""
    return " ".join(word.text for word in sequence)


def simple_commands(sequence: Sequence[CommandWord]) -> tuple[tuple[CommandWord, ...], ...]:
    """The single commands among the words; targets of redirections are no part of them."""
    found: list[tuple[CommandWord, ...]] = []
    now: list[CommandWord] = []
    is_target = False
    for word in sequence:
        if not word.is_operator:
            if not is_target:
                now.append(word)
            is_target = False
        elif _REDIRECT.fullmatch(word.text):
            is_target = not word.text[-1:].isdigit() and not word.text.endswith("&-")
        else:
            is_target = False
            found.append(tuple(now))
            now = []
    found.append(tuple(now))
    return tuple(each for each in found if each)


def _words(text: str) -> Iterator[CommandWord]:
    at = 0
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
        elif comment := _COMMENT.match(text, at):
            at = comment.end()
        elif operator := _REDIRECT.match(text, at) or _OPERATOR.match(text, at):
            mark = ";" if operator[0] == "\n" else operator[0]
            yield CommandWord(mark, mark, is_operator=True)
            at = operator.end()
        else:
            word, at = _word(text, at)
            yield word


def _word(text: str, at: int) -> tuple[CommandWord, int]:
    """The word that begins at `at`, and where it ends."""
    pieces: list[tuple[str, str, str]] = []  # kind, as written, value
    while at < len(text):
        if single := _SINGLE.match(text, at):
            pieces.append(("literal", "", single[1]))
            at = single.end()
        elif double := _DOUBLE.match(text, at):
            pieces.append(_double(double[1]))
            at = double.end()
        elif text[at] == "\\":
            pieces.append(("literal", "", text[at + 1 : at + 2] or "\\"))
            at += 2
        elif not pieces and (name := _ASSIGNED.match(text, at)):
            # In quotes it would be no assignment any more.
            pieces.append(("active", name[0], name[0]))
            at = name.end()
        elif plain := _PLAIN.match(text, at):
            kind = "literal" if _SAFE.fullmatch(plain[0]) else "active"
            pieces.append((kind, plain[0], plain[0]))
            at = plain.end()
        else:
            break
    return _joined(pieces), min(at, len(text))


def _double(inner: str) -> tuple[str, str, str]:
    if _EXPANDED.search(inner):
        return "active", f'"{inner}"', inner
    return "literal", "", _IN_DOUBLE.sub(lambda match: match[1].replace("\n", ""), inner)


def _joined(pieces: Sequence[tuple[str, str, str]]) -> CommandWord:
    shown: list[str] = []
    literal = ""
    for kind, raw, value in [*pieces, ("end", "", "")]:
        if kind == "literal":
            literal += value
            continue
        if literal:
            shown.append(_literal(literal))
        shown.append(raw)
        literal = ""
    return CommandWord("".join(shown) or "''", "".join(value for _, _, value in pieces))


def _literal(text: str) -> str:
    if text and _SAFE.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"
