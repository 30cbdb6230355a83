"""The subject of a rule: `tool` or `tool(pattern)`, compiled for one workspace.

A rule applies to an effect: `write_file(src/**)` covers writing there by any tool, `fetch(…)` any request.
Another tool's name restricts a rule to that tool. `browser.*` covers a family of tools, `*` everything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Literal

from agent.core.event_data import VerdictPart
from agent.safety.permissions.patterns import (
    AddressPattern,
    Certainty,
    CommandPattern,
    PathPattern,
    candidates,
    glob,
)
from agent.safety.places import PathCache, absolute, current, joined
from agent.safety.reader.expansion import Command, Reading
from agent.safety.reader.script import read
from agent.safety.reader.tree import GLOBS, UNKNOWN, literal, words
from agent.safety.typed_input import follows
from tools.effects import effect_named, effect_names
from tools.services.actions import (
    Action,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    RunScript,
    SendInput,
    SpawnAgent,
    WritePath,
)

ONLY_NAMES = words("echo printf ls stat test [ basename dirname realpath readlink which type file")
"""Programs that do not open the paths given to them."""
READERS = ONLY_NAMES | words(
    "cat head tail less more grep egrep fgrep rg ag wc diff cmp cut tr nl od xxd hexdump strings "
    "md5sum sha1sum sha256sum sha512sum jq tree du df cd pushd popd source . read mapfile readarray"
)
"""Programs that do not change the files given to them."""


Spell = Callable[[str], tuple[str, ...]]
"""A function that returns all spellings of an absolute path: as given, and with links followed."""


def speller() -> Spell:
    """Return a function that returns the spellings of a path.

    It caches them only during a single decision, because links may change.
    """
    look = current()
    known: dict[str, tuple[str, ...]] = look.once("spelled", dict)

    def spell(path: str) -> tuple[str, ...]:
        found = known.get(path)
        if found is None:
            found = known[path] = _texts(path, look)
        return found

    return spell


def spellings(path: Path) -> tuple[Path, ...]:
    """Return the spellings of a path: as given, and with links followed."""
    return tuple(Path(each) for each in _texts(str(path), current()))


def _texts(path: str, look: PathCache) -> tuple[str, ...]:
    """Return the spellings of a path: as written, and with links followed.

    In one of them the last component is not followed, because the link itself may be meant.
    """
    text = path if absolute(path) == path and "\0" not in path else os.path.normpath(path)
    real = look.real(text)
    if real == text:  # then no folder on the way is a link either
        return (text,)
    folder, _, name = text.rpartition("/")
    entry = f"{look.real(folder or '/').rstrip('/')}/{name}"
    return (text,) if real == text == entry else tuple(dict.fromkeys((text, entry, real)))


Touched = tuple[dict[str, tuple[str, ...]], str]
"""Paths as written, each with all its spellings, and all spellings joined into one text."""


def find_touched(reading: Reading, reads: bool, spell: Spell) -> Touched:
    """Return the paths that a command certainly or possibly reads or changes. Computed once per decision."""
    look = current()

    def find_paths() -> Touched:
        paths: dict[str, tuple[str, ...]] = {}
        for path, cwds in reading.reads if reads else reading.writes:
            if _is_told(path):
                _add(paths, path, _spellings(path, cwds, spell))
        # A changed path may be read as well, so most paths are checked twice.
        for path, spelled, changes in look.once(("given", reading), lambda: _given_paths(reading, spell)):
            if reads or changes:
                _add(paths, path, spelled)
        return paths, "\n".join([each for spelled in paths.values() for each in spelled])

    return look.once(("touched", reading, reads), find_paths)


def _add(paths: dict[str, tuple[str, ...]], path: str, spelled: tuple[str, ...]) -> None:
    known = paths.get(path)
    paths[path] = spelled if known is None or known == spelled else tuple(dict.fromkeys((*known, *spelled)))


def _spellings(path: str, cwds: tuple[str, ...], spell: Spell) -> tuple[str, ...]:
    """Return all spellings of a path as written, relative to each known current folder."""
    if path[:1] == "/":  # in any folder, also an unknown one
        return spell(absolute(path))
    if len(cwds) == 1:
        return () if UNKNOWN in cwds[0] else spell(absolute(joined(cwds[0], path)))
    places = [absolute(joined(cwd, path)) for cwd in cwds if UNKNOWN not in cwd]
    return tuple(dict.fromkeys([each for place in places for each in spell(place)]))


def _given_paths(reading: Reading, spell: Spell) -> list[tuple[str, tuple[str, ...], bool]]:
    """Return each path given to a command, its spellings, and whether the command may change it."""
    found: list[tuple[str, tuple[str, ...], bool]] = []
    # Nested wrappers repeat the same words, so results are stored.
    seen: dict[tuple[tuple[str, ...], bool], set[str]] = {}
    for name, arguments, _, cwds in reading.commands:
        if name in ONLY_NAMES:
            continue
        changes = name not in READERS
        known = seen.get((cwds, changes))
        if known is None:
            known = seen[cwds, changes] = set()
        for word in arguments:
            if word in known:
                continue
            known.add(word)
            if "=" in word or "@" in word:
                found += [
                    (each, _spellings(each, cwds, spell), changes) for each in _paths(word) if _is_told(each)
                ]
            elif word[:1] != "-" and _is_told(word):
                found.append((word, _spellings(word, cwds, spell), changes))
    return found


def _is_told(path: str) -> bool:
    """Return whether a path is fully known, having no marks for unknown parts. Marks are not ASCII."""
    return path.isascii() or (UNKNOWN not in path and not any(mark in path for mark in GLOBS))


def _paths(word: str) -> list[str]:
    """Return the paths that an argument may name: the argument itself, and the text after `=` or `@`."""
    found = [] if word.startswith("-") else [word]
    found += [rest for sign in ("=", "@") if (rest := word.partition(sign)[2])]
    return found


Kind = Literal["command", "input", "read", "write", "delete", "fetch", "settings", "declared", "other"]

EFFECTS: dict[type[Action], tuple[str, Kind]] = {
    RunCommand: ("terminal", "command"),
    SendInput: ("process", "input"),
    ReadPath: ("read_file", "read"),
    WritePath: ("write_file", "write"),
    DeletePath: ("delete_file", "delete"),
    Fetch: ("fetch", "fetch"),
    ChangeSettings: ("settings", "settings"),
    SpawnAgent: ("delegate_task", "other"),
    RunScript: ("execute_code", "other"),
}
"""The name of each kind of action in rules, and the kind of its patterns. Others declare them
(`tools.effects`).
"""

_COMMANDS = words("terminal process")
_PATHS = words("read_file write_file delete_file patch search search_files")
_ADDRESSES = words("fetch web_extract web_crawl browser_navigate")
KNOWN_TOOLS = (
    _COMMANDS
    | _PATHS
    | _ADDRESSES
    | words(
        "mcp settings delegate_task subagents cronjob heartbeat execute_code web_search todo_write todo_read "
        "clarify memory save_learning search_learnings learnings session_search recall_folded skills_list "
        "skill_view skill_manage checkpoint browser vision_analyze image_generate text_to_speech "
        "mixture_of_agents send_message homeassistant rl"
    )
)
"""Tools that a rule may name even if they are not available now."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The workspace, home folder and names of tools by which rules are interpreted."""

    workspace: Path
    home: Path
    tools: frozenset[str] = KNOWN_TOOLS

    def reading(self, command: str, cwd: Path) -> Reading:
        """Parse a command and return what it does when run in `cwd`."""
        return read(command, str(cwd), str(self.home))


@dataclass(frozen=True, slots=True)
class RuleHit:
    """The certainty with which a rule that asks or denies matches an action."""

    certainty: Certainty
    part: str = ""
    """The covered part of a command; empty for the whole action."""


NOT = RuleHit(Certainty.NO)
WHOLE = RuleHit(Certainty.YES)


class RuleSubject:
    """One compiled subject, such as `tool(pattern)`. Raises `ValueError` whose text continues a sentence."""

    def __init__(self, text: str, setting: Setting) -> None:
        match = re.fullmatch(r"\s*([A-Za-z0-9_.*?-]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
        if match is None:
            raise ValueError("is not of the form tool or tool(pattern)")
        self.tool: str = match[1].removesuffix(".*") if match[1] != ".*" else ""
        self.family = match[1].endswith(".*") or "*" in match[1]
        pattern = None if match[2] is None else match[2].strip()
        _require_known(self.tool, self.family, setting.tools | effect_names())
        if pattern == "":
            raise ValueError("has an empty pattern; leave out the brackets to mean the whole tool")
        self.pattern = None if pattern in (None, "*", "**") else pattern
        self._setting = setting
        self._commands = self._path = self._address = None
        if self.pattern is not None:
            self._compile(self.pattern)

    def _compile(self, pattern: str) -> None:
        if self.tool in _COMMANDS and "*" not in self.tool:
            self._commands = CommandPattern(pattern, self._setting.workspace)
        elif self.tool in _PATHS:
            self._path = PathPattern(pattern, self._setting.workspace, self._setting.home)
        elif self.tool in _ADDRESSES:
            self._address = AddressPattern(pattern)
        elif self.tool != "settings" and not _takes_pattern(self.tool):
            raise ValueError(f"takes no pattern; `{self.tool}` can only be meant as a whole")

    # For rules that ask or deny

    def touches(self, action: Action, spell: Spell | None = None) -> RuleHit:
        """Return how certainly the rule covers the action, and which part of a command.

        `spell` returns the spellings of paths; its results are cached during one decision.
        """
        spell = spell or speller()
        name, effect = _rule_name(action)
        if isinstance(action, (RunCommand, SendInput)):
            return self._command_touches(action, name, spell)
        meant = self._names(action, name) or (self.tool == "write_file" and effect == "delete")
        if not meant:
            return NOT
        if self.pattern is None:
            return WHOLE
        return RuleHit(self._loosely(action, spell))

    def _loosely(self, action: Action, spell: Spell) -> Certainty:
        match action:
            case ReadPath() | WritePath() | DeletePath() if self._path is not None:
                searches = isinstance(action, ReadPath) and action.tool.startswith("search")
                finder = self._path.finder(inside=searches)
                return max(finder(each) for each in spell(str(action.path)))
            case Fetch() if self._address is not None:
                return Certainty.YES if self._address.touches(action.url) else Certainty.NO
            case _:
                return Certainty.YES if self._names_action(action) else Certainty.NO

    def _command_touches(self, action: RunCommand | SendInput, name: str, spell: Spell) -> RuleHit:
        meant = self._names(action, name) or self.tool == "terminal"
        if meant and self.pattern is None:
            return WHOLE
        text, cwd = _command(action, self._setting)
        if meant and self._commands is not None:
            return self._commands_touch(self._setting.reading(text, cwd))
        if self._path is not None and self.tool in ("read_file", "write_file", "delete_file"):
            return self._files_touched(self._setting.reading(text, cwd), spell)
        if self._address is not None and self.tool == "fetch":
            return self._addresses_touched(self._setting.reading(text, cwd))
        return NOT

    def _commands_touch(self, reading: Reading) -> RuleHit:
        assert self._commands is not None
        best = NOT
        for command in candidates(self._commands, reading):
            certainty = self._commands.loosely(command)
            if certainty > best.certainty:
                best = RuleHit(certainty, command.text)
            if certainty is Certainty.YES:
                return best
        return RuleHit(Certainty.MAYBE) if best is NOT and not reading.is_known else best

    def _files_touched(self, reading: Reading, spell: Spell) -> RuleHit:
        """Return the match with paths among the arguments of commands, and those opened by the shell."""
        assert self._path is not None
        spelled, everything = find_touched(reading, self.tool == "read_file", spell)
        if not self._path.may_touch(everything):
            return NOT
        find = self._path.finder()
        for path, places in spelled.items():
            for each in places:
                if find(each) is Certainty.YES:
                    return RuleHit(Certainty.YES, path)
        return NOT

    def _addresses_touched(self, reading: Reading) -> RuleHit:
        assert self._address is not None
        for command in _with_addresses(reading):
            for word in command.arguments:
                if "://" in word and UNKNOWN not in word and self._address.touches(word[word.find("http") :]):
                    return RuleHit(Certainty.YES, command.text)
        return NOT

    # For rules that allow

    def covers(self, action: Action) -> bool:
        """Return whether the rule certainly covers this action. For commands with a pattern, use `allows`."""
        name, _ = _rule_name(action)
        if not self._names(action, name):
            return False
        if self.pattern is None:
            return True
        match action:
            case ReadPath() | WritePath() | DeletePath() if self._path is not None:
                return all(self._path.covers(path) for path in spellings(action.path))
            case Fetch() if self._address is not None:
                return self._address.covers(action.url)
            case _:
                return self._names_action(action)

    def opens(self, action: Fetch) -> bool:
        """Return whether the rule names this IP address, or `localhost`, with scheme and port, and so permits
        requests to it.
        """
        return self._address is not None and self._address.is_exact_place and self.covers(action)

    def allows(self, command: Command) -> bool:
        """Return whether a rule for commands certainly allows this program with these arguments."""
        return self.tool == "terminal" and self._commands is not None and self._commands.exactly(command)

    def writes(self, path: Path) -> bool:
        """Return whether a rule for files covers writing to `path`, as a redirection would."""
        if self.tool != "write_file":
            return False
        return self._path is None or all(self._path.covers(each) for each in spellings(path))

    def _names(self, action: Action, name: str) -> bool:
        """Return whether the rule's tool name matches the action's tool or effect."""
        own = action.tool if action.tool != "search_files" else "search"
        tool = self.tool if self.tool != "search_files" else "search"
        if not self.family:
            return tool in (own, name)
        if "*" in tool or "?" in tool:
            return fnmatchcase(own, tool) or (bool(name) and fnmatchcase(name, tool))
        return own == tool or name == tool or own.startswith((f"{tool}_", f"{tool}."))

    def _names_action(self, action: Action) -> bool:
        """Return whether the pattern matches the text that describes the action."""
        assert self.pattern is not None
        if isinstance(action, ChangeSettings):
            return self.tool == "settings" and fnmatchcase(action.what, self.pattern)
        effect = action.effect
        if effect is None or effect.subject is None or self.tool != effect.name:
            return False
        subject = effect.subject(action)
        pattern = f"{self.pattern}/**" if "/" in subject and "/" not in self.pattern else self.pattern
        return glob(pattern).fullmatch(subject) is not None


def _rule_name(action: Action) -> tuple[str, Kind]:
    """Return the name by which rules refer to an action, and the kind of its patterns."""
    if action.effect is not None:
        return action.effect.name, "declared"
    return EFFECTS.get(type(action), ("", "other"))


def _takes_pattern(tool: str) -> bool:
    effect = effect_named(tool)
    return effect is not None and effect.subject is not None


@lru_cache(maxsize=8)
def _with_addresses(reading: Reading) -> tuple[Command, ...]:
    """Return the commands that may contact an address among their arguments."""
    given = (command for command in reading.commands if "://" in " ".join(command.arguments))
    return tuple([command for command in given if command.name not in ONLY_NAMES])


def _require_known(tool: str, family: bool, tools: Collection[str]) -> None:
    if not tool:
        raise ValueError("names no tool")
    if family and "*" not in tool:
        known = any(each == tool or each.startswith(f"{tool}_") for each in tools)
    else:
        known = any(fnmatchcase(each, tool) for each in tools)
    if not known:
        near = get_close_matches(tool, sorted(tools), n=1)
        guess = f"; did you mean `{near[0]}`?" if near else ""
        raise ValueError(f"names the unknown tool `{tool}`{guess}")


def _command(action: RunCommand | SendInput, setting: Setting) -> tuple[str, Path]:
    if isinstance(action, RunCommand):
        return action.command, action.cwd
    return follows(action, setting.home), setting.workspace


RuleVerdict = Literal["allow", "ask", "deny"]
Origin = Literal["permissions.yaml", ".hermes/permissions.yaml", "the job"]

_NEUTRAL = words("cd pushd popd true false : test [ [[ pwd exit return wait sleep echo printf")
"""Builtins that change nothing outside their shell."""
_TRANSPARENT = words("sh bash dash zsh time timeout nice nohup command stdbuf")
"""Programs that can run another program, which is judged separately."""
_SINKS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One rule of a permissions file."""

    text: str
    """The subject as written: `tool` or `tool(pattern)`."""
    verdict: RuleVerdict
    subject: RuleSubject
    origin: Origin
    line: int
    reason: str = ""
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()
    surface: str = ""
    """The user interface whose profile contains the rule; empty if it applies to all."""

    @property
    def place(self) -> str:
        """Return file and line of the rule, for the user."""
        return f"{self.origin} line {self.line}" if self.line else self.origin

    def because(self, certainty: Certainty = Certainty.YES) -> str:
        """Return why the rule applies, as a clause for the user."""
        clause = self.reason or f"the rule `{self.text}` says {self.verdict}"
        return f"{'perhaps ' if certainty is Certainty.MAYBE else ''}{clause} ({self.place})"


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """The findings of the rules that ask or deny about one action: reasons, as clauses for the user."""

    denied: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    parts: tuple[VerdictPart, ...] = ()
    """The parts of a command that rules ask about or deny."""
    doubtful: tuple[str, ...] = ()
    """Reasons why a rule that denies may apply; such an action is asked about in every mode."""


UNCLEAR = "does not say what it does, so a rule that denies may be about it"


class RuleSet:
    """The rules in force. Of all matching rules the strictest decides, whatever their order."""

    def __init__(self, rules: Iterable[PermissionRule], setting: Setting) -> None:
        self.rules = tuple(rules)
        self._setting = setting
        self._strict = tuple(rule for rule in self.rules if rule.verdict != "allow")
        self._mild = tuple(rule for rule in self.rules if rule.verdict == "allow")

    def findings(self, action: Action) -> RuleFindings:
        """Return the findings of the rules that ask about or deny the action."""
        denied: list[str] = []
        asked: list[str] = []
        doubtful: list[str] = []
        parts: list[VerdictPart] = []
        spell = speller()
        unclear = action.effect.is_unclear if action.effect is not None else None
        if unclear is not None and unclear(action) and any(rule.verdict == "deny" for rule in self._strict):
            doubtful.append(UNCLEAR)
        for rule in self._strict:
            hit = rule.subject.touches(action, spell)
            if hit.certainty is Certainty.NO:
                continue
            because = rule.because(hit.certainty)
            certain = hit.certainty is Certainty.YES
            target = asked if rule.verdict == "ask" else denied if certain else doubtful
            target.append(because)
            if hit.part:
                kind = "deny" if target is denied else "ask"
                parts.append(VerdictPart(literal(hit.part), kind, because))
        return RuleFindings(tuple(denied), tuple(asked), tuple(parts), tuple(doubtful))

    def allowed(self, action: Action, plain: Callable[[Command], bool] | None = None) -> tuple[str, ...]:
        """Return the reasons why rules allow the action; empty if none do, or only for a part of a command.

        `plain` returns whether a part of a command needs no permission, so that no rule has to allow it.
        """
        if self._mild and isinstance(action, RunCommand):
            return self._allowed_command(action, plain)
        return tuple(rule.because() for rule in self._mild if rule.subject.covers(action))

    def _allowed_command(
        self, action: RunCommand, plain: Callable[[Command], bool] | None
    ) -> tuple[str, ...]:
        """Return the reasons why rules allow every part of a command; empty if one part is not allowed."""
        whole = tuple(rule.because() for rule in self._mild if rule.subject.covers(action))
        if whole:
            return whole
        reading = self._setting.reading(action.command, action.cwd)
        if not reading.is_known or not reading.commands or any(_poisons(name) for name in reading.assigned):
            return ()
        allowing = {
            command: [rule for rule in self._mild if rule.subject.allows(command)]
            for command in reading.commands
        }
        if not reading.writes and not any(allowing.values()):
            return ()
        reasons: dict[str, None] = {}
        for path, cwd in ((each.path, cwd) for each in reading.writes for cwd in each.cwds):
            if path in _SINKS:
                continue
            writing = self._writers(path, cwd)
            if not writing:
                return ()
            reasons.update((rule.because(), None) for rule in writing)
        for command in reading.commands:
            if not all(self._inside(cwd) for cwd in command.cwds):
                return ()
            reasons.update((rule.because(), None) for rule in allowing[command])
            if allowing[command] or command.name in _NEUTRAL or _is_transparent(command, reading):
                continue
            if plain is None or not plain(command):
                return ()
        return tuple(reasons)

    def _inside(self, cwd: str) -> bool:
        folder = str(self._setting.workspace).rstrip("/")
        return UNKNOWN not in cwd and f"{absolute(cwd)}/".startswith(f"{folder}/")

    def _writers(self, path: str, cwd: str) -> list[PermissionRule]:
        """Return the rules that allow writing to a marked path."""
        if UNKNOWN in path or UNKNOWN in cwd or any(mark in path for mark in GLOBS):
            return []
        target = Path(absolute(joined(cwd, path)))
        return [rule for rule in self._mild if rule.subject.writes(target)]


def _poisons(name: str) -> bool:
    """Return whether setting a variable may change how programs behave: one with capitals, or a proxy."""
    return name != name.lower() or name.endswith("_proxy")


def _is_transparent(command: Command, reading: Reading) -> bool:
    """Return whether the command only runs another program, which is judged as a separate part."""
    if command.name not in _TRANSPARENT or command.word != command.name:
        return False
    place = reading.commands.index(command)
    return place + 1 < len(reading.commands)
