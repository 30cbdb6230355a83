"""Reading `permissions.yaml`: the form of the file, and sentences about what is wrong with it.

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

Rules may also be a list of such entries. A file with anything wrong in it is not
sound: its rules that ask and deny count, those that allow do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from agent.core.config.document import UnusableError, decode, parse
from agent.core.config.problem import SettingPlace, SettingProblem, shown
from agent.core.modes import MODES, Mode, canonical
from agent.safety.permissions.examples import failing
from agent.safety.permissions.rules import Origin, PermissionRule, RuleVerdict
from agent.safety.permissions.subjects import RuleSubject, Setting

if TYPE_CHECKING:
    import yaml

_GATEWAYS = ("telegram", "discord", "slack", "whatsapp", "signal", "matrix", "email", "webhook")
SURFACES = (
    *("tui", "plain", "oneshot", "json", "cron", "serve", "acp", "batch", "eval", "gateway"),
    *(f"gateway.{name}{group}" for name in _GATEWAYS for group in ("", ".group")),
)
"""A surface with a dot takes what its first parts say too, so `gateway` holds for all messengers."""
VERDICTS = ("allow", "ask", "deny")

_TOP = ("mode", "profiles", "rules")
_PROFILE = ("mode", "rules")
_RULE = ("verdict", "reason", "match", "no_match")


@dataclass(frozen=True, slots=True)
class PermissionFile:
    """One file as it was read."""

    rules: tuple[PermissionRule, ...] = ()
    mode: Mode | None = None
    modes: Mapping[str, Mode] = field(default_factory=dict)
    """Modes by surface."""
    problems: tuple[SettingProblem, ...] = ()
    readable: bool = True
    """False when nothing of it could be understood, so that not even its denials are known."""

    @property
    def sound(self) -> bool:
        """Whether it may widen what is allowed."""
        return not self.problems


def parse_file(content: bytes, origin: Origin, setting: Setting) -> PermissionFile:
    """Read the bytes of a permissions file. Never raises: what is wrong becomes a `SettingProblem`."""
    import yaml

    document = parse(content, origin)  # counts depth, nodes and aliases before anything is built
    whole = [problem for problem in document.problems if not problem.key]
    if whole:
        return PermissionFile(problems=tuple(whole), readable=False)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(decode(content), Loader=loader)
    except (yaml.YAMLError, UnusableError, RecursionError, ValueError):
        problem = SettingProblem(origin, "this is no YAML that can be read.")
        return PermissionFile(problems=(problem,), readable=False)
    return _Reader(origin, setting).read(root)


class _Reader:
    """Walks the nodes of one file. One use only."""

    def __init__(self, origin: Origin, setting: Setting) -> None:
        self._origin: Origin = origin
        self._setting = setting
        self._problems: list[SettingProblem] = []
        self._rules: list[PermissionRule] = []

    def read(self, root: yaml.Node | None) -> PermissionFile:
        import yaml

        if root is None or (isinstance(root, yaml.ScalarNode) and root.tag.endswith(":null")):
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

    def _profiles(self, node: yaml.Node, modes: dict[str, Mode]) -> None:
        for surface, profile in self._entries(node, SURFACES, "profiles."):
            for key, value in self._entries(profile, _PROFILE, f"profiles.{surface.value}."):
                if key.value == "rules":
                    self._read_rules(value, surface.value)
                elif mode := self._mode(value):
                    modes[surface.value] = mode

    def _mode(self, node: yaml.Node) -> Mode | None:
        name = self._text(node, "a mode")
        try:
            return canonical(name) if name is not None else None
        except ValueError:
            self._report(node, f"`{shown(name)}` is no mode; modes are {', '.join(MODES)}.")
            return None

    def _read_rules(self, node: yaml.Node, surface: str) -> None:
        import yaml

        if _is_empty(node):
            return
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._read_rules(item, surface)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._rule(key, value, surface)
        else:
            self._report(
                node, "rules are lines of the form `tool(pattern): verdict`; this is something else."
            )

    def _rule(self, key: yaml.Node, value: yaml.Node, surface: str) -> None:
        import yaml

        text = self._text(key, "a rule")
        if text is None:
            return
        try:
            subject = RuleSubject(text, self._setting)
        except ValueError as error:
            self._report(key, f"the rule `{shown(text)}` {error}.")
            return
        details: dict[str, yaml.Node] = {}
        if isinstance(value, yaml.MappingNode):
            details = {name.value: entry for name, entry in self._entries(value, _RULE, f"{shown(text)}: ")}
        else:
            details["verdict"] = value
        verdict = self._verdict(key, details.get("verdict"), text)
        if verdict is None:
            return
        reason = (self._text(details["reason"], "a reason") or "") if "reason" in details else ""
        rule = PermissionRule(
            text, verdict, subject, self._origin, key.start_mark.line + 1, shown(reason, 200)
        )
        match, no_match = self._examples(details.get("match")), self._examples(details.get("no_match"))
        self._rules.append(replace(rule, match=match, no_match=no_match, surface=surface))

    def _verdict(self, key: yaml.Node, node: yaml.Node | None, text: str) -> RuleVerdict | None:
        if node is None:
            self._report(key, f"the rule `{shown(text)}` has no verdict; add allow, ask or deny.")
            return None
        name = self._text(node, "a verdict")
        if name in VERDICTS:
            return cast(RuleVerdict, name)
        if name is not None:
            self._report(
                node, f"`{shown(name)}` is no verdict; the rule `{shown(text)}` needs allow, ask or deny."
            )
        return None

    def _examples(self, node: yaml.Node | None) -> tuple[str, ...]:
        import yaml

        if node is None or _is_empty(node):
            return ()
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return tuple(text for item in items if (text := self._text(item, "an example")) is not None)

    def _checked(self) -> tuple[PermissionRule, ...]:
        """The rules, each compared with its examples."""
        for rule in self._rules:
            for message in failing(rule, self._setting):
                self._problems.append(
                    SettingProblem(self._origin, message, SettingPlace(rule.line, 1), rule.text)
                )
        return tuple(self._rules)

    def _entries(
        self, node: yaml.Node, known: tuple[str, ...], where: str
    ) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        """The entries of a mapping whose keys are known; every other one is a problem."""
        import yaml

        if _is_empty(node):
            return
        if not isinstance(node, yaml.MappingNode):
            name = where.rstrip(".: ") or "a permissions file"
            self._report(node, f"{name} takes `key: value` lines; this is something else.")
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            if name not in known:
                self._report(key, f"unknown key `{where}{shown(name)}`; known are {', '.join(known)}.")
                continue
            if name in seen:
                self._report(key, f"`{where}{name}` is given twice; make one of them.")
            if name not in seen or name == "rules":  # no denial gets lost
                yield cast("yaml.ScalarNode", key), value
            seen.add(name)

    def _text(self, node: yaml.Node, what: str) -> str | None:
        import yaml

        if isinstance(node, yaml.ScalarNode) and not node.tag.endswith(":merge") and not _is_empty(node):
            return cast(str, node.value)
        self._report(node, f"{what} is text on one line; this is something else.")
        return None

    def _report(self, node: yaml.Node, message: str) -> None:
        mark = node.start_mark
        self._problems.append(
            SettingProblem(self._origin, message, SettingPlace(mark.line + 1, mark.column + 1))
        )


def _is_empty(node: yaml.Node) -> bool:
    import yaml

    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")
