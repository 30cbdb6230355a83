"""The effects of one program call in a command: its class of effect, files, and hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agent.safety.programs.table import EFFECTS, EffectName, Operands, Program, Table, stricter
from agent.safety.reader.expansion import Command
from agent.safety.reader.tree import GLOBS, UNKNOWN, literal
from tools.kit.lazy_pattern import lazy_pattern

_ALONE = frozenset({"--version", "-version", "-v", "-V", "--help", "-h", "help", "version"})
"""Options that make a call harmless only if nothing else is given."""
_OUTPUT_TO = lazy_pattern(r"(?:of|--output|--output-document|--out|--outfile)=(.+)", re.DOTALL)
_ADDRESS = lazy_pattern(r"(?:[a-z][a-z0-9+.-]*://)(?:[^@/?#]*@)?(\[[0-9a-f:]+\]|[^/:?#\s]*)", re.IGNORECASE)
_HOST = lazy_pattern(r"(?:[^@/?#\s]*@)?(\[[0-9a-f:]+\]|[A-Za-z0-9_.-]+)(?::\d+)?(?:[/?#].*)?", re.DOTALL)
_OWN_FILE = lazy_pattern(r"file://(/[\w./-]+)")
_PLAIN_OPTION = lazy_pattern(r"-[sSfLvi]+|--silent|--show-error|--fail")
_PROJECT_FOLDER = lazy_pattern(
    r"(?:.*/)?(?:\.?venv[\w.-]*|env|node_modules/\.bin|vendor/bin|\.tox/[\w.-]+/bin)(?:/bin)?"
)
_SYSTEM_FOLDERS = frozenset(
    [
        "/bin",
        "/sbin",
        "/usr/bin",
        "/usr/sbin",
        "/usr/local/bin",
        "/usr/local/sbin",
        "/opt/homebrew/bin",
        "/snap/bin",
    ]
)

_NUMBERED = lazy_pattern(r"(python|pypy|pip|gcc|g\+\+|clang|clang\+\+|php|ruby|lua|node|perl)-?[\d.]+")
_BY_EFFECT: dict[EffectName, Operands] = {"looks": "read", "edits": "write", "lost": "delete"}


@dataclass(frozen=True, slots=True)
class ProgramEffects:
    """The effects of a program call according to the table. Paths are marked text, as in the command."""

    effect: EffectName
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    recursive: bool = False
    """True if it affects whole folders."""
    hosts: tuple[str, ...] = ()
    """The other machines it contacts; includes `UNKNOWN` if one is unknown."""
    sends: bool = False
    """True if it sends data to these machines."""
    known: bool = True
    """True if the program is in the table."""
    texts: tuple[str, ...] = ()
    """The leading arguments that are not paths, such as the expression of `sed`."""
    notes: bool = False
    """True if it always keeps files outside of the workspace."""
    local: bool = False
    """True if the repository's settings decide whether it publishes anything."""
    unsure: bool = False
    """True if an unknown argument may be an option that changes its effect."""


@dataclass(slots=True)
class _Words:
    """The arguments of a command by kind. Many of these objects are created, so they are not frozen."""

    operands: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)
    """Options with their values."""
    given: tuple[frozenset[str], frozenset[str], tuple[str, ...]] | None = None
    """The options prepared for look-up, once they have been looked up."""


def effects_of(command: Command, table: Table) -> ProgramEffects:
    """Return the effects of `command` according to the table of programs."""
    program = find(command, table)
    if program is None:
        return ProgramEffects(
            "code", hosts=tuple(_addresses(command.arguments)), known=False, unsure=UNKNOWN in command.name
        )
    arguments = command.arguments
    if command.name == "curl" and (files := _own_files(arguments)):
        return effects_of(command._replace(name="cat", word="cat", arguments=files), table)
    told = _told_apart(arguments, program)
    if _is_quiet(program, arguments, told) and _raise_effect(program, "looks", told)[0] == "looks":
        return ProgramEffects(
            "looks", notes="*" in program.notes, unsure=_is_unsure(program, arguments, "looks")
        )
    effect = program.effect(tuple(told.operands[:3]))
    before = effect
    effect, sends = _raise_effect(program, effect, told)
    how = program.operands or (None if program.verbs else _BY_EFFECT.get(effect)) or "none"
    if how == "read" and effect == "edits" and before != "edits":
        how = "write"
    texts = _texts(program, told)
    if program.plain is not None and not all(map(program.plain.fullmatch, texts)):
        effect = stricter(effect, "code")
    if command.name == "rsync" and any(re.match(r"[\w.@-]+::?", word) for word in told.operands):
        effect = "publishes"
    reads, writes, deletes = _paths(command, program, told, how, effect)
    if program.hosts:
        hosts = tuple(dict.fromkeys(_hosts(program, told)))
    elif effect in ("looks", "edits"):
        shown = told.operands[program.skip :] if how != "none" else []
        hosts = tuple(dict.fromkeys(_addresses([word for word in shown if re.match(r"[a-z]+://", word)])))
    else:
        hosts = tuple(dict.fromkeys(_addresses(arguments)))
    return ProgramEffects(
        effect,
        reads,
        writes,
        deletes,
        bool(program.recursive) and ("always" in program.recursive or _has_option(program.recursive, told)),
        hosts,
        sends or _tells(program, told),
        True,
        texts,
        "*" in program.notes or bool(program.notes.intersection(told.operands[:1])),
        bool(program.local.intersection(told.operands[:1])),
        _is_unsure(program, arguments, effect),
    )


def _own_files(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the local files that a curl command only prints; empty if it may do anything else."""
    named = [word for word in arguments if not _PLAIN_OPTION.fullmatch(word)]
    found = [match[1] for word in named if (match := _OWN_FILE.fullmatch(literal(word)))]
    return tuple(found) if len(found) == len(named) else ()


def find(command: Command, table: Table) -> Program | None:
    """Return the entry of a command's program in the table; None if there is none.

    A program in an unusual folder has no entry, whatever its name; one of the project counts as code.
    """
    folder, _, _ = command.word.rpartition("/")
    if folder and folder not in _SYSTEM_FOLDERS and not _PROJECT_FOLDER.fullmatch(folder):
        return None
    found = table.get(command.name)
    if found is None and (numbered := _NUMBERED.fullmatch(command.name)):
        found = table.get(numbered[1])
    if found is not None and folder and folder not in _SYSTEM_FOLDERS:
        # Programs that belong to the project are code, whatever their name.
        return Program(always="code")
    return found


def _told_apart(arguments: Sequence[str], program: Program) -> _Words:
    told = _Words()
    rest = iter(arguments)
    options = True
    for word in rest:
        if not options or word == "-" or word[:1] not in ("-", "+"):
            told.operands.append(word)
        elif word == "--":
            options = False
        else:
            name, equals, attached = word.partition("=")
            told.options.append(name if word.startswith("--") else word)
            if equals and word.startswith("--"):
                told.values.append((name, attached))
            elif (found := _option_value(word, program)) is not None:
                option, joined = found
                if joined:
                    told.values.append((option, joined))
                elif (following := next(rest, None)) is not None:
                    told.values.append((option, following))
    return told


def _option_value(word: str, program: Program) -> tuple[str, str] | None:
    """Return the option in `word` that takes a value, and the value if it is in the word, or None."""
    if word in program.valued or word in program.outputs:
        return word, ""
    if word.startswith("--") or len(word) < 3:
        return None
    for place, letter in enumerate(word[1:], 2):
        option = f"-{letter}"
        if option in program.valued or option in program.outputs:
            return option, word[place:]
    return None


def _is_quiet(program: Program, arguments: Sequence[str], told: _Words) -> bool:
    if len(arguments) == 1 and arguments[0] in ("--version", "--help"):
        return True
    if not program.quiet:
        return False
    if len(arguments) == 1 and arguments[0] in program.quiet:
        return True
    if program.always not in (None, "edits"):
        # The other arguments count only if they cannot be the value of an earlier option.
        return arguments[:1] != () and arguments[0] in program.quiet - _ALONE
    said = " ".join(told.operands[:1])
    given = (*told.options, *(told.operands[:1] if arguments[:1] == tuple(told.operands[:1]) else ()))
    return any(
        each in given and each not in _ALONE if " " not in each else _is_asked(each, said, told.options)
        for each in program.quiet
    )


def _is_asked(quiet: str, said: str, options: Sequence[str]) -> bool:
    verb, _, option = quiet.partition(" ")
    return verb == said and option in options


def _raise_effect(program: Program, effect: EffectName, told: _Words) -> tuple[EffectName, bool]:
    """Return the effect after options have made it stricter, and whether one of them sends data."""
    sends = False
    said = told.operands[0] if told.operands else ""
    for key, other in program.options.items():
        verb, _, option = key.rpartition(" ")
        if (not verb or verb == said) and _has_option((option,), told):
            if program.hosts and other in ("publishes", "code"):
                sends = True
            elif EFFECTS.index(other) > EFFECTS.index(effect):
                effect = other
    return effect, sends


def _has_option(wanted: Sequence[str] | frozenset[str], told: _Words) -> bool:
    """Return whether a wanted option is given, alone, abbreviated or among combined letters."""
    if not told.options:
        return False
    if told.given is None:
        told.given = _forms_of(told.options)
    names, letters, beginnings = told.given
    return (
        any(each in names or (len(each) == 2 and each[1] in letters) for each in wanted)
        # A prefix of a long option counts as well, because many programs accept it.
        or any(each.startswith(beginnings) for each in wanted if each.startswith("--"))
        or ("+" in wanted and any(each.startswith("+") for each in names))
    )


def _forms_of(options: Sequence[str]) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
    """Return options with and without their values, the letters of short options, and the long options."""
    given = dict.fromkeys(options)
    names = frozenset(name for option in given for name in (option, option.partition("=")[0]))
    letters = frozenset("".join(each[1:] for each in given if not each.startswith("--")))
    return names, letters, tuple(each for each in given if len(each) > 3 and each.startswith("--"))


def _paths(
    command: Command, program: Program, told: _Words, how: Operands, effect: EffectName
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    operands = told.operands
    if program.skip and not (program.skipped_by and _has_option(program.skipped_by, told)):
        operands = operands[program.skip :]
    if program.verbs and how != "none":
        operands = operands[1:]
    reads: list[str] = []
    writes = [value for option, value in told.values if _is_output(option, program) and value != "-"]
    writes += [match[1] for word in command.arguments if (match := _OUTPUT_TO.fullmatch(word))]
    deletes: list[str] = []
    if command.name in ("tar", "bsdtar") and command.arguments:
        writes += _archive(command.arguments)
    match how:
        case "read":
            reads += operands
        case "write":
            writes += operands
        case "delete":
            deletes += operands
        case "last":
            reads += operands[:-1] or operands[:1]
            writes += [] if any(option in program.outputs for option, _ in told.values) else operands[-1:]
        case "rest":
            reads += operands[:1]
            writes += operands[1:]
        case "none":
            pass
    return tuple(reads), tuple(writes), tuple(deletes)


def _is_output(option: str, program: Program) -> bool:
    if option in program.outputs:
        return True
    return len(option) > 3 and option[:2] == "--" and any(each.startswith(option) for each in program.outputs)


def _archive(arguments: Sequence[str]) -> list[str]:
    """Return the archive that `tar` creates or extends; also `/` if it may leave the folder."""
    letters = arguments[0].lstrip("-")
    if arguments[0].startswith("--"):
        return []
    # With `P`, absolute paths stay absolute.
    leaves = ["/"] if "P" in letters else []
    return [*leaves, *(arguments[1:2] if set("cru") & set(letters) and "f" in letters else ())]


def _texts(program: Program, told: _Words) -> tuple[str, ...]:
    if program.skipped_by and _has_option(program.skipped_by, told):
        return tuple(value for option, value in told.values if option in program.skipped_by)
    return tuple(told.operands[: program.skip])


_PLAIN_HEADER = lazy_pattern(
    r"(?:accept|user-agent|cache-control|content-type)[\w-]*: ?[\w/.,;*+ =()-]*", re.IGNORECASE
)


def _tells(program: Program, told: _Words) -> bool:
    """Return whether an address or a header may contain data that is not visible in the command."""
    if not program.hosts:
        return False
    if program.first and (
        len(told.operands) > 2 or {"POST", "PUT", "PATCH", "DELETE"} & set(told.operands[:1])
    ):
        return True
    headers = [value for option, value in told.values if option in ("-H", "--header")]
    if not all(map(_PLAIN_HEADER.fullmatch, headers)):
        return True
    return any(UNKNOWN in word or any(mark in word for mark in GLOBS[2:]) for word in told.operands)


def _addresses(arguments: Sequence[str]) -> Iterator[str]:
    for word in arguments:
        if "://" in word:
            for match in _ADDRESS.finditer(word):
                if match[1] or not match[0].startswith("file:"):
                    yield _host_name(match[1])


def _hosts(program: Program, told: _Words) -> Iterator[str]:
    operands = told.operands
    if program.first:
        operands = [word for word in operands if not re.fullmatch(r"[A-Z]{3,7}", word)][:1]
    for word in operands:
        if word.startswith(":") and "@" not in word:
            yield "localhost"
            continue
        if word.startswith(("+", "@")) or word.isdigit() or re.fullmatch(r"[A-Z]{1,6}", word):
            continue
        found = _ADDRESS.match(word) or _HOST.fullmatch(word)
        yield (
            (_host_name(found[1]) or UNKNOWN)
            if found is not None
            else (UNKNOWN if UNKNOWN in word else literal(word))
        )
    for option, value in told.values:
        if "://" in value and option not in (
            "-H",
            "--header",
            "-w",
            "--write-out",
            "-A",
            "-e",
            "-d",
            "--data",
        ):
            yield from _addresses([value])


def _host_name(host: str) -> str:
    if UNKNOWN in host or any(mark in host for mark in GLOBS):
        return UNKNOWN
    return literal(host).lower().strip("[]").rstrip(".")


def _is_unsure(program: Program, arguments: Sequence[str], effect: EffectName) -> bool:
    harmless = not (program.options or program.outputs or program.verbs) and program.operands != "rest"
    if effect == "looks" and harmless:
        return False
    return any(word.startswith((UNKNOWN, *GLOBS)) for word in arguments)
