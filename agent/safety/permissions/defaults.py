"""The verdict of a mode where no rule says anything: one policy by effect, whichever tool causes it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from agent.core.modes import Mode
from agent.safety import hosts
from agent.safety.assessor import Assessor
from agent.safety.permissions.subjects import Setting
from agent.safety.scope import Scope
from agent.safety.secrets import is_secret
from agent.safety.typed_input import as_command
from agent.safety.verdict import Verdict
from tools.services.actions import (
    Action,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    RunScript,
    SearchWeb,
    SendInput,
    SpawnAgent,
    WritePath,
)

PLAN = "plan mode only reads; leave it with /mode to make changes"
OFF = "actions that need approval are switched off"
STAYS = "no request leaves this machine in this mode"
_EDITS = ("changes files of the workspace, which undo brings back",)


class Defaults:
    """The defaults of all modes for one workspace. `assessor` judges commands, `scope` files.

    `guarded` tells whether scripts in the sandbox leave guarded places alone.
    """

    def __init__(
        self, setting: Setting, scratch: Path | None, assessor: Assessor, scope: Scope, *, guarded: bool
    ) -> None:
        self._setting = setting
        self._scratch = scratch
        self._assessor = assessor
        self._scope = scope
        self._guarded = guarded

    def verdict(self, mode: Mode, action: Action) -> Verdict:
        """What the mode says. `deny` asks about every effect; turning asks into denials is the decider's."""
        if isinstance(action, ReadPath) and self._is_open(action.path) and not is_secret(str(action.path)):
            return Verdict("allow", ("reading inside the workspace",))
        if isinstance(action, RunCommand):
            return self._command(mode, action)
        if isinstance(action, (Fetch, SearchWeb)) and mode in ("plan", "deny"):
            return Verdict("deny", (PLAN if mode == "plan" else OFF, STAYS))
        if mode == "yolo" and not isinstance(action, ChangeSettings):
            return Verdict("allow", ("yolo mode lets everything pass that nothing forbids",))
        declared = action.effect
        looks = isinstance(action, (ReadPath, SpawnAgent)) or (declared and declared.is_looking)
        if mode == "plan" and not looks:
            return Verdict("deny", (PLAN,))
        found = self._by_effect(action)
        if mode != "normal" and found.kind == "allow":
            return Verdict("ask", self._why(action), found.parts)
        return found

    def _command(self, mode: Mode, action: RunCommand) -> Verdict:
        assessment = self._assessor.assess(action.command, action.cwd)
        verdict = assessment.verdict
        if verdict.kind == "hardline":
            return verdict
        if mode == "yolo":
            return Verdict("allow", ("yolo mode lets everything pass that nothing forbids",), verdict.parts)
        if verdict.kind == "allow" and assessment.only_looks:
            return verdict
        if mode == "plan":
            return Verdict("deny", (PLAN, *(verdict.reasons if verdict.kind == "ask" else ())), verdict.parts)
        if mode != "normal" and verdict.kind == "allow":
            return Verdict("ask", self._why(action), verdict.parts)
        return verdict if verdict.reasons or verdict.kind == "allow" else Verdict("ask", self._why(action))

    def _by_effect(self, action: Action) -> Verdict:
        """What `normal` says of anything but commands."""
        if action.effect is not None:
            return Verdict(action.effect.default, (action.effect.why,))
        match action:
            case WritePath():
                reason = self._scope.write(str(action.path))
                return Verdict("ask", (reason,)) if reason else Verdict("allow", _EDITS)
            case DeletePath():
                reason = self._scope.delete(str(action.path), recursive=True)
                return Verdict("ask", (reason,)) if reason else Verdict("allow", _EDITS)
            case SpawnAgent():
                return Verdict("allow", ("what another agent does is asked for by itself",))
            case RunScript() if action.sandboxed and not self._guarded:
                return Verdict("ask", ("could change what runs something later, and nothing would undo it",))
            case RunScript() if action.sandboxed:
                return Verdict("allow", ("it runs in the sandbox; its calls are asked for by themselves",))
            case Fetch() if _is_listed(action.url):
                return Verdict("allow", ("reads from a host on the list",))
            case SendInput():
                return self._typed(action)
            case _:
                return Verdict("ask", self._why(action))

    def _typed(self, action: SendInput) -> Verdict:
        """Typing always needs a yes, as nobody knows where the program stands; the parts say what it does."""
        typed = self._assessor.assess(as_command(action, self._setting.home), self._setting.workspace).verdict
        if typed.kind == "hardline":
            return typed
        reasons = typed.reasons if typed.kind == "ask" else ()
        return Verdict("ask", ("types into a running program", *reasons), typed.parts)

    def _why(self, action: Action) -> tuple[str, ...]:
        """Why the action needs a yes, in words for the person who gives it."""
        outside = "" if self._inside(action) else ", outside the workspace"
        if action.effect is not None:
            return (action.effect.why,)
        match action:
            case RunCommand():
                return (f"runs a command{outside}",)
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
            case SpawnAgent():
                return ("starts another agent",)
            case SendInput():
                return ("types into a running program",)
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


def _is_listed(address: str) -> bool:
    """Whether an address is that of a host on the list, by an encrypted connection."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "https" and hosts.is_known(parts.hostname or "") and parts.port in (None, 443)
    except ValueError:
        return False
