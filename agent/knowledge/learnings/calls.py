"""Normalised forms of calls and shell texts, by which learnings compare them. Equal keys mean equivalent
calls.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.words import shorten

LONGEST = 20_000
"""The number of characters that are split into words; the rest is one word."""

_SPACE = lazy_pattern(r"(?:[^\S\n]|\\\n)+")
_COMMENT = lazy_pattern(r"#[^\n]*")
_REDIRECT = lazy_pattern(r"\d*(?:<<<|<<-?|>\||>>|<>|>&|<&|>|<)(?:(?<=&)[\d-]+)?|&>>?")
_OPERATOR = lazy_pattern(r"&&|\|\||\|&|;;|[;&|()\n]")
_SAFE = lazy_pattern(r"[A-Za-z0-9_@%+=:,./^-]*")
"""Text with the same meaning with and without quotes."""
_PLAIN = lazy_pattern(r"[^\s'\"\\;&|()<>]+")
_ASSIGNED = lazy_pattern(r"[A-Za-z_]\w*\+?=", re.ASCII)
_SINGLE = lazy_pattern(r"'([^']*)(?:'|\Z)")
_DOUBLE = lazy_pattern(r'"((?:\\.|[^"\\])*)(?:"|\\?\Z)', re.DOTALL)
_IN_DOUBLE = lazy_pattern(r'\\(["\\$`\n])')
_EXPANDED = lazy_pattern(r"(?<!\\)(?:\\\\)*[$`]")


@dataclass(frozen=True, slots=True)
class CommandWord:
    """One word of a shell text: `text` as written, `value` without quotes."""

    text: str
    value: str
    is_operator: bool = False
    """Whether it separates commands, or redirects input and output."""


def words(text: str) -> tuple[CommandWord, ...]:
    """Split a shell text into words, in order. Never raises; linear time."""
    told = text[:LONGEST].replace("\r\n", "\n")
    found = list(_words(told))
    if rest := text[LONGEST:]:
        found.append(CommandWord(_literal(rest), rest))
    return tuple(found)


def join_words(sequence: Sequence[CommandWord]) -> str:
    """Join the words into one text."""
    return " ".join(word.text for word in sequence)


def simple_commands(sequence: Sequence[CommandWord]) -> tuple[tuple[CommandWord, ...], ...]:
    """Return the simple commands among the words, without redirection targets."""
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
    """Return the word that begins at offset `at`, and the offset of its end."""
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


def names(text: str) -> frozenset[str]:
    """Return the set of the words in a text that are separated by spaces."""
    return frozenset(text.split())


_SETUP = names(
    "cd pushd popd export set unset source . echo printf true false : sleep test [ umask ulimit alias shopt "
    "trap wait"
)
"""Commands that only prepare or accompany the one that matters."""
_WRAPPERS: Mapping[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g", "-h", "-p"}),
    "env": frozenset({"-u", "-C", "-S"}),
    "nice": frozenset({"-n"}),
    "timeout": frozenset({"-s", "-k"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    **dict.fromkeys(("time", "nohup", "command", "exec", "builtin", "!", "then", "do", "else"), frozenset()),
}
"""Programs that run another program, with their options that take a value."""
_WITH_SUBCOMMANDS: Mapping[str, frozenset[str]] = {
    "git": frozenset({"-C", "-c", "--git-dir", "--work-tree"}),
    "docker": frozenset({"-H", "--host", "--context", "-f", "--file", "-p"}),
    "podman": frozenset({"--url", "--context"}),
    "kubectl": frozenset({"-n", "--namespace", "--context", "--kubeconfig"}),
    "helm": frozenset({"-n", "--namespace", "--kube-context"}),
    "make": frozenset({"-C", "-f", "-j", "--directory", "--file"}),
    "npm": frozenset({"--prefix", "-w", "--workspace"}),
    "pnpm": frozenset({"--dir", "-C", "--filter"}),
    "uv": frozenset({"--directory", "--project"}),
    "poetry": frozenset({"-C", "--directory"}),
    **dict.fromkeys(
        names(
            "pip yarn bun npx deno cargo go rustup apt apt-get dnf yum brew apk pacman systemctl service "
            "conda mamba gh glab terraform tofu aws gcloud az dotnet mix bundle gem rails rake composer "
            "pipx pdm hatch tox nox just task gradle mvn flyctl heroku vercel ansible-galaxy docker-compose "
            "virtualenv svn hg jj snap flatpak nix"
        ),
        frozenset[str](),
    ),
}
"""Programs whose first operand is a subcommand, with the options before it that take a value."""
_SHOWN_ONLY = frozenset({"head", "tail", "cat", "less", "more", "tee"})
"""Programs at the end of a pipe that only select output."""
_NOWHERE = lazy_pattern(r"[012]?>{1,2}|&>{1,2}")
_ASSIGNMENT = lazy_pattern(r"[A-Za-z_]\w*\+?=.*", re.ASCII | re.DOTALL)
_VERSION = lazy_pattern(r"-?\d[\d.]*$")


@dataclass(frozen=True, slots=True)
class SingleCommand:
    """One program with its arguments, without wrappers and variable assignments."""

    program: str
    """The name of the program without its folder; empty if there is none."""
    subcommand: str
    arguments: tuple[str, ...]
    """All words after the program, as written."""

    @property
    def kin(self) -> str:
        """The program name without its version: `python` for `python3.11`."""
        return kin(self.program)

    @property
    def operands(self) -> tuple[str, ...]:
        """The arguments that are neither options nor the subcommand."""
        rest = [word for word in self.arguments if not word.startswith("-")]
        if (name := self.subcommand.removeprefix("-m ")) in rest:
            rest.remove(name)
        return tuple(rest)


@dataclass(frozen=True, slots=True)
class CommandForm:
    """A shell text in normalised form, by which equivalent texts are recognised."""

    text: str
    """The normalised text, without what only selects the output."""
    place: str
    """The folder it runs in, relative to the workspace if inside; empty for the workspace."""
    commands: tuple[SingleCommand, ...]

    @property
    def main(self) -> SingleCommand:
        """The first command that is more than a preparation; the first one if all are preparations."""
        named = [each for each in self.commands if each.program]
        chosen = next((each for each in named if each.program not in _SETUP), None)
        return chosen or (named[0] if named else SingleCommand("", "", ()))


def kin(program: str) -> str:
    """Return a program name without its version. A spelling with a dot, such as `py.test`, is unified too."""
    return _VERSION.sub("", program).replace("py.test", "pytest") or program


def command_form(text: str, cwd: str, workspace: str) -> CommandForm:
    """Return the normalised form of a shell text that starts in `cwd`. Folders are absolute. Pure and
    linear.
    """
    rest, cwd = _strip_cd(list(words(text)), cwd)
    rest = _without_shown_only(_without_nowhere(rest))
    place = _from(cwd, workspace)
    commands = tuple(_single(each) for each in simple_commands(rest))
    rest = _tidy([_resolve_word(word, cwd, workspace, is_first(rest, at)) for at, word in enumerate(rest)])
    return CommandForm(join_words(rest), place, commands)


def is_first(sequence: Sequence[CommandWord], at: int) -> bool:
    """Return whether the word at this index is a program name and not an argument."""
    return at == 0 or (sequence[at - 1].is_operator and not _NOWHERE.fullmatch(sequence[at - 1].text))


def _strip_cd(rest: list[CommandWord], cwd: str) -> tuple[list[CommandWord], str]:
    """Return the words without a leading `cd`, and the folder it changes to."""
    while len(rest) > 3 and rest[0].value == "cd" and rest[2].text in ("&&", ";"):
        target = rest[1]
        if rest[1].is_operator or target.value[:1] in ("-", "~") or "$" in target.text or "`" in target.text:
            break
        cwd = posixpath.normpath(posixpath.join(cwd, target.value))
        rest = rest[3:]
    return rest, cwd


def _without_nowhere(rest: list[CommandWord]) -> list[CommandWord]:
    """Return the words without redirections that only merge or discard output."""
    kept: list[CommandWord] = []
    at = 0
    while at < len(rest):
        word = rest[at]
        following = rest[at + 1].value if at + 1 < len(rest) else ""
        if word.is_operator and word.text in ("2>&1", "1>&2", ">&2"):
            at += 1
        elif word.is_operator and _NOWHERE.fullmatch(word.text) and following == "/dev/null":
            at += 2
        else:
            kept.append(word)
            at += 1
    return kept


def _without_shown_only(rest: list[CommandWord]) -> list[CommandWord]:
    while True:
        marks = [at for at, word in enumerate(rest) if word.is_operator]
        last = marks[-1] if marks else -1
        if last < 1 or rest[last].text not in ("|", "|&", ";"):
            return rest
        tail = rest[last + 1 :]
        if rest[last].text == ";" and tail:
            return rest
        if tail and not _picks(tail):
            return rest
        rest = rest[:last]


def _picks(tail: Sequence[CommandWord]) -> bool:
    name = tail[0].value
    if name not in _SHOWN_ONLY:
        return False
    operands = [word.value for word in tail[1:] if not word.value.startswith("-")]
    return name != "tee" and all(word.lstrip("+").isdigit() for word in operands)


def _tidy(rest: list[CommandWord]) -> list[CommandWord]:
    """Return the words without empty commands, with leading variable assignments sorted by name."""
    kept: list[CommandWord] = []
    for word in rest:
        if word.text == ";" and (not kept or kept[-1].text in (";", "&&", "||", "|", "(")):
            continue
        kept.append(word)
    while kept and kept[-1].text == ";":
        kept.pop()
    lead = 0
    while lead < len(kept) and _ASSIGNMENT.fullmatch(kept[lead].value) and not kept[lead].is_operator:
        lead += 1
    return sorted(kept[:lead], key=lambda word: word.text) + kept[lead:]


def _resolve_word(word: CommandWord, cwd: str, workspace: str, is_program: bool) -> CommandWord:
    """Return the word; a path in the workspace becomes relative to the folder of the command."""
    if word.is_operator:
        return word
    text, value = word.text, word.value
    if text == value:
        name, equals, path = value.partition("=") if value.startswith("-") else ("", "", value)
        if path == workspace or path.startswith(f"{workspace}/"):
            path = posixpath.relpath(path, cwd)
            path = f"./{path}" if is_program else path
        elif path.startswith("./") and len(path) > 2 and not is_program and not path[2:].startswith("-"):
            path = posixpath.normpath(path)
        else:
            return word
        text = f"{name}{equals}{path}"
        return CommandWord(text, text)
    return word


def _from(cwd: str, workspace: str) -> str:
    """Return a folder relative to the workspace; empty for the workspace, and unchanged if it is outside."""
    if cwd == workspace:
        return ""
    return cwd[len(workspace) + 1 :] if cwd.startswith(f"{workspace}/") else cwd


def _single(command: Sequence[CommandWord]) -> SingleCommand:
    rest = [word.value for word in command]
    while rest:
        if _ASSIGNMENT.fullmatch(rest[0]):
            rest = rest[1:]
            continue
        name = posixpath.basename(rest[0].rstrip("/")) or rest[0]
        valued = _WRAPPERS.get(name)
        if valued is None or len(rest) == 1:
            break
        rest = _behind(rest[1:], valued)
        if name == "timeout" and rest[:1] and rest[0][:1].isdigit():
            rest = rest[1:]
    if not rest:
        return SingleCommand("", "", ())
    program = posixpath.basename(rest[0].rstrip("/")) or rest[0]
    return SingleCommand(program[:80], _subcommand(program, rest[1:])[:80], tuple(rest[1:]))


def _behind(rest: list[str], valued: frozenset[str]) -> list[str]:
    """Return the words after a wrapper's options. `valued` are options with a separate value."""
    while rest and rest[0].startswith("-") and len(rest[0]) > 1:
        rest = rest[2:] if rest[0] in valued else rest[1:]
    return rest


def _subcommand(program: str, arguments: Sequence[str]) -> str:
    name = kin(program)
    if name in ("python", "pypy") and "-m" in arguments:
        at = arguments.index("-m")
        return f"-m {arguments[at + 1]}" if at + 1 < len(arguments) else ""
    valued = _WITH_SUBCOMMANDS.get(name)
    if valued is None:
        return ""
    rest = _behind(list(arguments), valued)
    return rest[0] if rest else ""


LONGEST_SHOWN = 400
"""The maximum number of characters of a call stored for the user to read."""
COMMAND_TOOLS: Mapping[str, str] = {"terminal": "command"}
"""Tools that run a shell text, each with the name of that argument."""
_HOW_LONG = frozenset({"timeout", "notify_on_complete", "watch_patterns", "limit", "offset", "char_limit"})
"""Arguments that limit waiting or output and do not change the action."""
_PATHS = frozenset({"path", "workdir", "cwd", "folder", "file"})


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The workspace, and the current folder of a call. Both are absolute."""

    workspace: str
    cwd: str
    """The folder of the shell; the workspace for tools without one."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """The identifying parts of one call."""

    tool: str
    text: str
    """The normalised essential arguments."""
    shown: str
    """The call as it was made, for the user: a command, or arguments."""
    key: str
    """The key, equal for equivalent calls."""
    timed_key: str
    """A key that is equal only if the time limit is equal too."""
    command: CommandForm | None = None
    """The command, for tools that run one."""
    options: str = ""
    """The options besides the command: `workdir=sub, background`."""


def call_form(tool: str, arguments: Mapping[str, Any], place: CallPlace) -> CallForm:
    """Return the form of a call by which it is compared. Pure; time is proportional to the arguments."""
    name = COMMAND_TOOLS.get(tool, "")
    given = {
        key: value
        for key, value in arguments.items()
        if key not in _HOW_LONG and value not in (None, False, "", [], {})
    }
    command, options = None, ""
    if name and isinstance(given.get(name), str):
        shown = str(given.pop(name))
        options = _format_arguments(given)
        cwd = posixpath.normpath(posixpath.join(place.cwd, str(given.pop("workdir", ""))))
        command = command_form(shown, cwd, place.workspace)
        text = "\0".join([command.place, command.text, _canonical(given, place)])
    else:
        text = _canonical(given, place)
        shown = _format_arguments(given)
    digest = hashlib.sha256(f"{tool}\0{text}".encode("utf-8", "replace")).hexdigest()[:32]
    timeout = arguments.get("timeout")
    timed = hashlib.sha256(f"{digest}\0{timeout}".encode()).hexdigest()[:32]
    return CallForm(tool, text, _short(shown), digest, timed, command, _short(options))


def _canonical(given: Mapping[str, Any], place: CallPlace) -> str:
    if not given:
        return ""
    plain = {key: _value(key, value, place) for key, value in given.items()}
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, default=str)


def _value(key: str, value: Any, place: CallPlace) -> Any:
    if not isinstance(value, str):
        return value
    if key in _PATHS:
        path = posixpath.normpath(posixpath.join(place.workspace, value.strip()))
        inside = path == place.workspace or path.startswith(f"{place.workspace}/")
        return posixpath.relpath(path, place.workspace) if inside else path
    return "\n".join(line.rstrip() for line in value.strip().splitlines())


def _format_arguments(given: Mapping[str, Any]) -> str:
    """Return the arguments as text for the user: `path=src, pattern=x`."""
    return ", ".join(
        key if value is True else f"{key}={value if isinstance(value, str) else _json(value)}"
        for key, value in given.items()
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return shorten(line, LONGEST_SHOWN)
