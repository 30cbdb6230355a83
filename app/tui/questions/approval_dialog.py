"""The dialog for an action that needs approval."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from agent.events import ApprovalAsked, Decision
from app.tui.questions.approval_words import (
    HIDDEN,
    ask_text,
    lasting_text,
    marks_in_command,
    marks_in_notes,
    place_text,
    reach_text,
    reasons,
)
from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.page import LINE_CHARS, Field, Skinned, line, words
from themes.states import NEEDS_YOU
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import reveal
from tools.text.words import shorten

ONCE = "Allow once"
SESSION = "Allow for this session"
ALWAYS = "Always: {rule}"
NO = "Deny"
WHY = "Deny and tell why …"
RULE_CHARS = 50
"""Characters of a rule that its choice shows; the notes show all of it."""

DANGEROUS = lazy_pattern(
    r"(?<![\w./-])(?:"
    r"sudo|doas|su|rm(?:\s+-\S+)*|rmdir|shred|dd|mkfs\S*|chmod|chown|kill|killall|pkill|truncate|"
    r"git\s+(?:push(?:\s+\S+){0,20}?\s+(?:-f|--force\S*)|push|reset\s+--hard|clean\s+-\S+)|"
    r"(?:curl|wget|nc|ssh|scp)|eval|(?:ba|z|da)?sh\s+-c"
    rf")(?![\w-])|\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|>{{1,2}}\s*/\S+|{HIDDEN}"
)
"""A pattern for dangerous words if the parts are unknown. It only helps reading."""


class ApprovalDialog(Dialog[Decision]):
    """Shows the agent, the exact action, what it would touch and why Hermes asks. No is the default."""

    enters = "deny and tell"
    leaves = "deny"
    opens = True

    def __init__(self, request: ApprovalAsked, spill: Callable[[str], None] = lambda _text: None) -> None:
        super().__init__(spill)
        self.request = request
        rule = line(request.rule, LINE_CHARS)
        shown = shorten(rule, RULE_CHARS)
        lasting = [SESSION, ALWAYS.format(rule=shown)] if rule else []
        self._choices = [ONCE, *lasting, NO, WHY]

    def body(self) -> ComposeResult:
        request = self.request
        yield Static(Content(f"{NEEDS_YOU} {line(ask_text(request), LINE_CHARS)}"), classes="who")
        if request.sentence:
            yield words(line(request.sentence, LINE_CHARS), "text")
        judged = bool(request.parts)
        in_command = marks_in_command(request) if judged else DANGEROUS
        yield Skinned(request.headline, reveal, marks=in_command, classes="text subject")
        yield words(
            self._notes(),
            "text notes",
            marks=marks_in_notes(request) if judged else DANGEROUS,
            role="dim",
            gutter=2,
        )
        yield Choices(self._choices, chosen=self._choices.index(NO))
        field = Field(placeholder="why not, for the agent to read", compact=True)
        field.display = False
        yield field
        yield Hints()

    def whole(self) -> str:
        request = self.request
        said = "\n\n".join(filter(None, (ask_text(request), request.sentence, request.headline)))
        return f"{said}\n\n{self._notes()}"

    def _notes(self) -> str:
        """Return the reasons for asking, what the action would touch, and the effect of a no, a line each."""
        request = self.request
        facts = filter(None, (place_text(request), reach_text(request)))
        notes = [*facts, *reasons(request), lasting_text(request)]
        notes.append("if you deny, nothing happens and the agent looks for another way")
        # Only reasons have a glyph, so that a reason cannot imitate the facts about network and sandbox.
        return "\n".join(note if note[:2] in ("▲ ", "· ") else f"  {note}" for note in notes)

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        chosen = event.option_index
        if chosen == 0:
            self.dismiss(Decision("once"))
        elif self._choices[chosen] == NO:
            self.decline()
        elif self._choices[chosen] == WHY:
            field = self.query_one(Input)
            field.display = True
            field.focus()
        else:
            self.dismiss(Decision("session" if chosen == 1 else "always"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(Decision("deny", event.value.strip()))

    def decline(self) -> None:
        self.dismiss(Decision("deny"))
