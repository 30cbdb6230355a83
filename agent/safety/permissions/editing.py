"""Adding one rule to the person's `permissions.yaml`; comments, order and layout stay."""

from __future__ import annotations

from dataclasses import dataclass

from agent.core.config import settings_file
from agent.core.config.document import parse
from agent.core.config.edit import set_value
from agent.core.config.layers import lookup
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError
from agent.safety.permissions.file import parse_file
from agent.safety.permissions.rules import RuleVerdict
from agent.safety.permissions.subjects import Setting
from tools.kit.files import write_atomically


@dataclass(frozen=True, slots=True)
class Edit:
    """A rule that is to be added or changed, worked out but not yet written."""

    home: Home
    before: bytes | None
    after: bytes
    old: RuleVerdict | None
    """The verdict the rule had; None if there was no such rule."""
    widens: bool
    """Whether more would pass than before."""

    def write(self) -> None:
        """Put it into the file. Raises `ConfigError` when someone else changed the file meanwhile."""
        private_folder(self.home.root)
        if _content(self.home) != self.before:
            raise ConfigError(f"{self.home.permissions} was changed by someone else just now; try again.")
        try:
            write_atomically(self.home.permissions, self.after, PRIVATE_FILE)
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"Cannot write {self.home.permissions}: {reason}.") from error


def plan_rule(home: Home, text: str, verdict: RuleVerdict, setting: Setting) -> Edit:
    """The edit that gives the rule `text` a verdict.

    Raises `ConfigError` when the rule is none, or the file is broken or cannot be changed safely.
    """
    before = _content(home)
    content = before or b""
    known = parse_file(content, "permissions.yaml", setting)
    if not known.sound:
        raise ConfigError(f"{known.problems[0]} Mend that first; nothing was changed.")
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
