"""Reading `permissions.yaml`: the format of the file, and sentences about its mistakes.

    mode: normal
    profiles:
      oneshot:
        mode: careful
    rules:
      terminal(git push *): ask
      read_file(**/.env):
        verdict: ask
        reason: it may hold keys
        match: [.env, app/.env]
        no_match: [.env.md]

Rules may also be a list of such entries. If a file has any mistake, its rules that ask and deny count, but
not those that allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from agent.core.config import settings_file
from agent.core.config.document import UnusableError, decode, parse
from agent.core.config.edit import set_value
from agent.core.config.layers import lookup
from agent.core.config.problem import SettingPlace, SettingProblem, short_text
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.core.messages import MODES, Mode, canonical
from agent.errors import ConfigError
from agent.safety.permissions.patterns import Certainty
from agent.safety.permissions.subjects import (
    Origin,
    PermissionRule,
    RuleSet,
    RuleSubject,
    RuleVerdict,
    Setting,
)
from tools.effects import effect_named
from tools.kit.files import write_atomically
from tools.services.actions import (
    Action,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    SendInput,
    WritePath,
)

if TYPE_CHECKING:
    from tools.kit.yaml_text import Node, ScalarNode


def failing(rule: PermissionRule, setting: Setting) -> Iterator[str]:
    """Yield a sentence for every example of the rule that contradicts it."""
    for name, examples, expected in (("match", rule.match, True), ("no_match", rule.no_match, False)):
        for example in examples:
            action = example_action(rule, example, setting)
            if action is None:
                yield f"the rule `{rule.text}` cannot have examples; remove `{short_text(example)}`."
            elif covers(rule, action, setting) is not expected:
                does = "does not cover" if expected else "covers"
                yield (
                    f"the rule `{rule.text}` {does} `{short_text(example)}`, which {name} says it should"
                    + ("." if expected else " not.")
                )


def covers(rule: PermissionRule, action: Action, setting: Setting) -> bool:
    """Return whether the rule alone would decide about the action."""
    if rule.verdict == "allow":
        return bool(RuleSet([rule], setting).allowed(action))
    return rule.subject.touches(action).certainty is Certainty.YES


def example_action(rule: PermissionRule, example: str, setting: Setting) -> Action | None:
    """Return the action that an example stands for; None for tools whose actions have no one-line form."""
    tool = rule.subject.tool
    path = _path(example, setting)
    match tool:
        case "terminal":
            return RunCommand(tool=tool, command=example, cwd=setting.workspace)
        case "process":
            return SendInput(tool=tool, process="", data=example)
        case "read_file" | "search" | "search_files":
            return ReadPath(tool=tool, path=path)
        case "write_file" | "patch":
            return WritePath(tool=tool, path=path)
        case "delete_file":
            return DeletePath(tool=tool, path=path)
        case "fetch" | "web_extract" | "web_crawl" | "browser_navigate":
            return Fetch(tool=tool, url=example)
        case "settings":
            return ChangeSettings(tool=tool, what=example)
        case _:
            effect = effect_named(tool)
            return effect.example(example) if effect is not None and effect.example is not None else None


def _path(example: str, setting: Setting) -> Path:
    if example == "~" or example.startswith("~/"):
        return Path(str(setting.home) + example[1:])
    return setting.workspace / example


_GATEWAYS = ("telegram", "discord", "slack", "whatsapp", "signal", "matrix", "email", "webhook")
SURFACES = (
    *("tui", "plain", "oneshot", "json", "cron", "serve", "acp", "batch", "eval", "gateway"),
    *(f"gateway.{name}{group}" for name in _GATEWAYS for group in ("", ".group")),
)
"""The names of all user interfaces. One with a dot inherits from its parts: `gateway` covers messengers."""
VERDICTS = ("allow", "ask", "deny")

_TOP = ("mode", "profiles", "rules")
_PROFILE = ("mode", "rules")
_RULE = ("verdict", "reason", "match", "no_match")


@dataclass(frozen=True, slots=True)
class PermissionFile:
    """The content of one permissions file, with its mistakes."""

    rules: tuple[PermissionRule, ...] = ()
    mode: Mode | None = None
    modes: Mapping[str, Mode] = field(default_factory=dict)
    """The mode for each user interface that has its own."""
    problems: tuple[SettingProblem, ...] = ()
    readable: bool = True
    """False if none of it could be parsed, so that its denials are unknown."""

    @property
    def sound(self) -> bool:
        """Return whether the file has no mistakes. Its rules that allow count only then."""
        return not self.problems


def parse_file(content: bytes, origin: Origin, setting: Setting) -> PermissionFile:
    """Parse a permissions file. Never raises: mistakes are in the result's `problems`."""
    from tools.kit.yaml_text import YamlError, YamlForm, compose_yaml

    document = parse(content, origin)  # counts depth, nodes and aliases before anything is built
    whole = [problem for problem in document.problems if not problem.key]
    if whole:
        return PermissionFile(problems=tuple(whole), readable=False)
    try:
        root = compose_yaml(decode(content), YamlForm("a permissions file"))
    except (YamlError, UnusableError):
        problem = SettingProblem(origin, "this is not YAML that can be read.")
        return PermissionFile(problems=(problem,), readable=False)
    return _Reader(origin, setting).read(root)


class _Reader:
    """A parser for the YAML nodes of one file. Can be used once."""

    def __init__(self, origin: Origin, setting: Setting) -> None:
        self._origin: Origin = origin
        self._setting = setting
        self._problems: list[SettingProblem] = []
        self._rules: list[PermissionRule] = []

    def read(self, root: Node | None) -> PermissionFile:
        from tools.kit.yaml_text import ScalarNode

        if root is None or (isinstance(root, ScalarNode) and root.tag.endswith(":null")):
            return PermissionFile()
        mode: Mode | None = None
        modes: dict[str, Mode] = {}
        for key, value in self._entries(root, _TOP, ""):
            if key.value == "mode":
                mode = self._mode(value) or mode
            elif key.value == "profiles":
                self._profiles(value, modes)
            else:
                self._read_rules(value, "")
        return PermissionFile(self._checked(), mode, modes, tuple(self._problems))

    def _profiles(self, node: Node, modes: dict[str, Mode]) -> None:
        for surface, profile in self._entries(node, SURFACES, "profiles."):
            for key, value in self._entries(profile, _PROFILE, f"profiles.{surface.value}."):
                if key.value == "rules":
                    self._read_rules(value, surface.value)
                elif mode := self._mode(value):
                    modes[surface.value] = mode

    def _mode(self, node: Node) -> Mode | None:
        name = self._text(node, "a mode")
        try:
            return canonical(name) if name is not None else None
        except ValueError:
            self._report(node, f"`{short_text(name)}` is not a mode; modes are {', '.join(MODES)}.")
            return None

    def _read_rules(self, node: Node, surface: str) -> None:
        from tools.kit.yaml_text import MappingNode, SequenceNode

        if _is_empty(node):
            return
        if isinstance(node, SequenceNode):
            for item in node.value:
                self._read_rules(item, surface)
        elif isinstance(node, MappingNode):
            for key, value in node.value:
                self._rule(key, value, surface)
        else:
            self._report(
                node, "rules are lines of the form `tool(pattern): verdict`; this is something else."
            )

    def _rule(self, key: Node, value: Node, surface: str) -> None:
        from tools.kit.yaml_text import MappingNode

        text = self._text(key, "a rule")
        if text is None:
            return
        try:
            subject = RuleSubject(text, self._setting)
        except ValueError as error:
            self._report(key, f"the rule `{short_text(text)}` {error}.")
            return
        details: dict[str, Node] = {}
        if isinstance(value, MappingNode):
            details = {
                name.value: entry for name, entry in self._entries(value, _RULE, f"{short_text(text)}: ")
            }
        else:
            details["verdict"] = value
        verdict = self._verdict(key, details.get("verdict"), text)
        if verdict is None:
            return
        reason = (self._text(details["reason"], "a reason") or "") if "reason" in details else ""
        rule = PermissionRule(
            text, verdict, subject, self._origin, key.start_mark.line + 1, short_text(reason, 200)
        )
        match, no_match = self._examples(details.get("match")), self._examples(details.get("no_match"))
        self._rules.append(replace(rule, match=match, no_match=no_match, surface=surface))

    def _verdict(self, key: Node, node: Node | None, text: str) -> RuleVerdict | None:
        if node is None:
            self._report(key, f"the rule `{short_text(text)}` has no verdict; add allow, ask or deny.")
            return None
        name = self._text(node, "a verdict")
        if name in VERDICTS:
            return cast(RuleVerdict, name)
        if name is not None:
            self._report(
                node,
                f"`{short_text(name)}` is not a verdict; "
                f"the rule `{short_text(text)}` needs allow, ask or deny.",
            )
        return None

    def _examples(self, node: Node | None) -> tuple[str, ...]:
        from tools.kit.yaml_text import SequenceNode

        if node is None or _is_empty(node):
            return ()
        items = node.value if isinstance(node, SequenceNode) else [node]
        return tuple(text for item in items if (text := self._text(item, "an example")) is not None)

    def _checked(self) -> tuple[PermissionRule, ...]:
        """Return the rules, after checking each against its examples and reporting the failing ones."""
        for rule in self._rules:
            for message in failing(rule, self._setting):
                self._problems.append(
                    SettingProblem(self._origin, message, SettingPlace(rule.line, 1), rule.text)
                )
        return tuple(self._rules)

    def _entries(self, node: Node, known: tuple[str, ...], where: str) -> Iterator[tuple[ScalarNode, Node]]:
        """Yield the entries of a mapping with known keys; report unknown and repeated keys as problems."""
        from tools.kit.yaml_text import MappingNode, ScalarNode

        if _is_empty(node):
            return
        if not isinstance(node, MappingNode):
            name = where.rstrip(".: ") or "a permissions file"
            self._report(node, f"{name} takes `key: value` lines; this is something else.")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, ScalarNode) else "?"
            if name not in known:
                self._report(key, f"unknown key `{where}{short_text(name)}`; known are {', '.join(known)}.")
                continue
            if name in seen:
                self._report(key, f"`{where}{name}` is given twice; make one of them.")
            if name not in seen or name == "rules":  # no denial gets lost
                yield cast("ScalarNode", key), value
            seen.add(name)

    def _text(self, node: Node, what: str) -> str | None:
        from tools.kit.yaml_text import ScalarNode

        if isinstance(node, ScalarNode) and not node.tag.endswith(":merge") and not _is_empty(node):
            return cast(str, node.value)
        self._report(node, f"{what} is text on one line; this is something else.")
        return None

    def _report(self, node: Node, message: str) -> None:
        mark = node.start_mark
        self._problems.append(
            SettingProblem(self._origin, message, SettingPlace(mark.line + 1, mark.column + 1))
        )


def _is_empty(node: Node) -> bool:
    from tools.kit.yaml_text import ScalarNode

    return isinstance(node, ScalarNode) and node.tag.endswith(":null")


@dataclass(frozen=True, slots=True)
class Edit:
    """A prepared addition or change of a rule, not yet written."""

    home: Home
    before: bytes | None
    after: bytes
    old: RuleVerdict | None
    """The earlier verdict of the rule; None if there was no such rule."""
    widens: bool
    """True if it allows more than before."""

    def write(self) -> None:
        """Write the edit to the file. Raises `ConfigError` on failure, or if the file has changed."""
        private_folder(self.home.root)
        if _content(self.home) != self.before:
            raise ConfigError(f"{self.home.permissions} was changed by someone else just now; try again.")
        try:
            write_atomically(self.home.permissions, self.after, PRIVATE_FILE)
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"Cannot write {self.home.permissions}: {reason}.") from error


def plan_rule(home: Home, text: str, verdict: RuleVerdict, setting: Setting) -> Edit:
    """Prepare an edit that sets the verdict of the rule `text`.

    Raises `ConfigError` if the rule is invalid, or the file is broken or cannot be changed safely.
    """
    before = _content(home)
    content = before or b""
    known = parse_file(content, "permissions.yaml", setting)
    if not known.sound:
        raise ConfigError(f"{known.problems[0]} Fix that first; nothing was changed.")
    path = ("rules", text)
    data = parse(content, "permissions.yaml").data
    try:
        if isinstance(lookup(data, path), dict):
            path = (*path, "verdict")
    except (KeyError, TypeError):
        pass
    old: RuleVerdict | None = next(
        (rule.verdict for rule in known.rules if rule.text == text and not rule.surface), None
    )
    after = set_value(content, path, verdict)
    if problems := parse_file(after, "permissions.yaml", setting).problems:
        message = problems[0].message
        raise ConfigError(message[0].upper() + message[1:])
    widens = (verdict == "allow" and old != "allow") or (verdict == "ask" and old == "deny")
    return Edit(home, before, after, old, widens)


def _content(home: Home) -> bytes | None:
    try:
        return settings_file.read_file(home.permissions)
    except settings_file.UnreadableSettingsError as error:
        raise ConfigError(f"{home.permissions} cannot be changed: {error}.") from None
