"""What a mode says about an action when no rule does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.safety.commands.secrets import is_secret
from agent.safety.permissions.modes import Mode
from agent.safety.permissions.reading import Reading
from agent.safety.permissions.spellings import READERS
from agent.safety.permissions.subjects import Setting
from agent.safety.shell.marks import words
from agent.safety.typed_input import as_command
from agent.safety.verdict import Verdict
from tools.actions import (
    Action,
    CallServer,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    RunScript,
    Schedule,
    SendInput,
    SpawnAgent,
    WritePath,
)

Assess = Callable[[str, Path], Verdict]

PLAN = "plan mode only reads; leave it with /mode to make changes"

_LOOKERS = READERS | words(
    "sort uniq date id whoami uname hostname nproc uptime free ps env printenv sleep true false seq column "
    "fold find fd nl tac rev expr git"
)
"""Programs that `plan` lets run where the assessment of the command has nothing against it."""
_GIT_LOOKS = words(
    "status log diff show blame grep ls-files ls-tree rev-parse rev-list describe shortlog cat-file name-rev "
    "merge-base count-objects whatchanged"
)


class Defaults:
    """The defaults of all modes for one workspace. `assess` judges commands part by part."""

    def __init__(self, setting: Setting, scratch: Path | None, assess: Assess) -> None:
        self._setting = setting
        self._scratch = scratch
        self._assess = assess

    def verdict(self, mode: Mode, action: Action) -> Verdict:
        """What the mode says. `deny` answers like `normal`; turning asks into denials is the gate's."""
        if isinstance(action, ReadPath) and self._is_open(action.path) and not is_secret(str(action.path)):
            return Verdict("allow", ("reading inside the workspace",))
        if mode == "yolo" and not isinstance(action, ChangeSettings):
            return Verdict("allow", ("yolo mode lets everything pass that nothing forbids",))
        if isinstance(action, RunCommand):
            return self._command(mode, action)
        if mode == "plan" and not isinstance(action, (ReadPath, Fetch, SpawnAgent)):
            return Verdict("deny", (PLAN,))
        if mode == "auto-edit" and isinstance(action, (WritePath, DeletePath)) and self._inside(action):
            return Verdict("allow", ("edits inside the workspace are allowed in this mode",))
        if mode not in ("careful", "plan"):
            if isinstance(action, SpawnAgent):
                return Verdict("allow", ("what another agent does is asked for by itself",))
            if isinstance(action, RunScript) and action.sandboxed:
                return Verdict("allow", ("it runs in the sandbox; its calls are asked for by themselves",))
        if isinstance(action, SendInput):
            return self._typed(action)
        return Verdict("ask", self._why(action))

    def _typed(self, action: SendInput) -> Verdict:
        """Typing always needs a yes, as nobody knows where the program stands; the parts say what it does."""
        typed = self._assess(as_command(action, self._setting.home), self._setting.workspace)
        if typed.kind == "hardline":
            return typed
        reasons = typed.reasons if typed.kind == "ask" else ()
        return Verdict("ask", ("types into a running program", *reasons), typed.parts)

    def _command(self, mode: Mode, action: RunCommand) -> Verdict:
        assessed = self._assess(action.command, action.cwd)
        outside = "" if self._inside(action) else ", outside the workspace"
        if assessed.kind == "hardline":
            return assessed
        if mode == "plan":
            if assessed.kind == "allow" and _looks(self._setting.reading(action.command, action.cwd)):
                return assessed
            return Verdict("deny", (PLAN, *assessed.reasons), assessed.parts)
        if mode == "careful" and assessed.kind == "allow":
            return Verdict("ask", (f"runs a command{outside}",), assessed.parts)
        if assessed.kind == "ask" and not assessed.reasons:
            return Verdict("ask", (f"runs a command{outside}",), assessed.parts)
        return assessed

    def _why(self, action: Action) -> tuple[str, ...]:
        """Why the action needs a yes, in words for the person who gives it."""
        outside = "" if self._inside(action) else ", outside the workspace"
        match action:
            case ReadPath():
                if is_secret(str(action.path)):
                    return (f"reads secrets{outside}",)
                return (f"reads a file or folder{outside}",)
            case WritePath():
                return (f"{'creates' if action.creates else 'changes'} a file{outside}",)
            case DeletePath():
                return (f"deletes a file{outside}",)
            case Fetch():
                return ("reaches the network",)
            case ChangeSettings():
                return ("changes Hermes' own settings",)
            case CallServer():
                return ("calls a server outside of Hermes, which does what it does unseen",)
            case SpawnAgent():
                return ("starts another agent",)
            case Schedule():
                return ("will act later, perhaps when nobody looks on",)
            case RunScript():
                return (
                    "runs a program outside of the sandbox" if not action.sandboxed else "runs a program",
                )
            case _:
                return (f"is an action of {action.tool} the gate does not know",)

    def _is_open(self, path: Path) -> bool:
        """Whether reading there needs no yes."""
        folders = (self._setting.workspace, self._scratch)
        return any(folder is not None and path.is_relative_to(folder) for folder in folders)

    def _inside(self, action: Action) -> bool:
        path = getattr(action, "path", None) or getattr(action, "cwd", None)
        return path is None or path.is_relative_to(self._setting.workspace)


def _looks(reading: Reading) -> bool:
    """Whether a command does nothing but look."""
    if not reading.known or any(each.path != "/dev/null" for each in reading.writes):
        return False
    for command in reading.commands:
        if command.name not in _LOOKERS:
            return False
        subcommand = next((word for word in command.arguments if not word.startswith("-")), "")
        if command.name == "git" and subcommand not in _GIT_LOOKS:
            return False
    return bool(reading.commands)
