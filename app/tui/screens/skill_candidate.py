"""The review of a skill before installation: its files, findings and instructions, then a question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from app.tui.screens.closable import ClosableModal
from app.tui.screens.dialog import ConfirmDialog
from app.tui.screens.page import HELP, KeyLine, ScreenHeader, Skinned, line
from app.tui.screens.skill_report import candidate_lines, content_lines, continuation_indent
from tools.text.safe_text import reveal
from tools.text.words import plural
from widgets.rows.reader import ReaderLook

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.opening import Candidate


class CandidateScreen(ClosableModal[bool]):
    """The review of a skill. Its result is whether to install. Every character is shown or spelled out."""

    CSS_PATH: ClassVar = Path(__file__).with_name("detail.tcss")
    AUTO_FOCUS = "Reader"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "back"),
        Binding("t", "install", "Install"),
        HELP,
    ]

    def __init__(self, candidate: Candidate) -> None:
        super().__init__()
        self._candidate = candidate
        lines = [*candidate_lines(candidate), "", *content_lines(candidate)]
        self.reader = Skinned(
            "\n".join(lines), reveal, look=ReaderLook(focusable=True), gutter=continuation_indent
        )

    @property
    def is_allowed(self) -> bool:
        """True if the skill may be installed at all."""
        return self._candidate.decision() != "no"

    def compose(self) -> ComposeResult:
        yield ScreenHeader(
            line(f"{self._candidate.name} · {self._candidate.trust} · {self._candidate.scan.verdict}")
        )
        yield self.reader
        yield KeyLine("t install · ↑↓ move · esc back" if self.is_allowed else "↑↓ move · esc back")

    def action_leave(self) -> None:
        self.dismiss(False)

    def action_install(self) -> None:
        if not self.is_allowed:
            text = f"{self._candidate.name} is {self._candidate.scan.verdict}, and its source is not trusted."
            self.notify(line(text), severity="warning", markup=False)
            return
        count, files = len(self._candidate.scan.findings), len(self._candidate.hashes)
        told = f"The scan found {count or 'nothing'}" + (
            f" thing{'s' * (count != 1)} to look at." if count else "."
        )
        question = f"Install {self._candidate.name} with {plural(files, 'file')}? {told}"
        self.app.push_screen(ConfirmDialog(question, "Install"), self._confirm)

    def _confirm(self, is_yes: bool | None) -> None:
        if is_yes:
            self.dismiss(True)
