"""Facts about the machine that learnings need: folders, what programs only look, what has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.knowledge.learnings.call_form import CallForm, CallPlace, call_form
from agent.knowledge.learnings.dependencies import changed, restamped, stamps
from agent.knowledge.learnings.failures import Failure
from agent.knowledge.learnings.learning import Learning
from agent.knowledge.learnings.what_worked import MadeCall


@dataclass(frozen=True, slots=True)
class LearningEnvironment:
    """Where an agent works."""

    workspace: Path
    root: Path
    """The root of its project, where lock files are."""
    cwd: Callable[[], Path]
    """The folder in which the next command runs."""
    search: str | None
    """The search path of commands; None where they do not run on this machine."""

    def stamps(self, form: CallForm) -> dict[str, str]:
        """Stamps of what a call depends on. Reads files."""
        if form.command is None:
            return {}
        main = form.command.main
        return stamps(main.kin, (main.program,), self.root, self.search)

    def changed(self, depends: Mapping[str, str]) -> str:
        """Which of these stamps is no longer true; empty if all are. Reads files."""
        known = {name: each for name, each in depends.items() if self.search is not None or ":" not in name}
        return changed(known, self.root)

    def restamped(self, depends: Mapping[str, str]) -> dict[str, str]:
        """The same names with the stamps of now. Reads files."""
        return restamped(depends, self.root)

    def only_looks(self, form: CallForm) -> bool:
        """Whether a call changes nothing. Reads the command, which takes a moment."""
        if form.command is None:
            return False
        from agent.safety.effects import deed
        from agent.safety.programs.table import programs
        from agent.safety.reader.read import read

        workspace, home = str(self.workspace), str(Path.home())
        reading = read(form.shown, workspace, home)
        if reading.writes or any(name.startswith("export ") for name in reading.assigned):
            return False
        table = programs()
        return bool(reading.commands) and all(
            deed(command, table).effect == "looks" for command in reading.commands
        )

    def call_of(self, learning: Learning) -> MadeCall | None:
        """The call that a learning is about, as far as it is known."""
        pattern = learning.evidence.get("failed") or learning.pattern
        name = "command" if learning.tool == "terminal" else ""
        if not name or not learning.program:
            return None
        workspace = str(self.workspace)
        form = call_form(learning.tool, {name: pattern}, CallPlace(workspace, workspace))
        line = learning.evidence.get("error") or learning.error
        return MadeCall(form, Failure(learning.error_type, line, learning.error))
