"""The examples a rule brings along: what it must cover, and what it must not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agent.core.config.problem import shown
from agent.safety.permissions.certainty import Certainty
from agent.safety.permissions.rules import PermissionRule, RuleSet
from agent.safety.permissions.subjects import Setting
from tools.effects import effect_named
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


def failing(rule: PermissionRule, setting: Setting) -> Iterator[str]:
    """A sentence for every example of the rule that does not hold."""
    for name, examples, expected in (("match", rule.match, True), ("no_match", rule.no_match, False)):
        for example in examples:
            action = example_action(rule, example, setting)
            if action is None:
                yield f"the rule `{rule.text}` cannot have examples; remove `{shown(example)}`."
            elif covers(rule, action, setting) is not expected:
                does = "does not cover" if expected else "covers"
                yield f"the rule `{rule.text}` {does} `{shown(example)}`, which {name} says it should" + (
                    "." if expected else " not."
                )


def covers(rule: PermissionRule, action: Action, setting: Setting) -> bool:
    """Whether the rule alone decides about the action."""
    if rule.verdict == "allow":
        return bool(RuleSet([rule], setting).allowed(action))
    return rule.subject.touches(action).certainty is Certainty.YES


def example_action(rule: PermissionRule, example: str, setting: Setting) -> Action | None:
    """The action an example stands for; None for tools whose actions have no one-line form."""
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
