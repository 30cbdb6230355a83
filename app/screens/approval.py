"""The dialog for an action that needs a yes."""

from __future__ import annotations

import re
from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content, Span
from textual.widgets import Input, Static

from agent.events import ApprovalAsked, Decision
from app.screens.dialog import Choices, Dialog, line, shortened

ONCE = "Allow once"
SESSION = "Allow for this session"
ALWAYS = "Always: {rule}"
NO = "Deny"
WHY = "Deny and tell why …"
RULE_CHARS = 50
"""Characters of a rule that stand in its choice; all of it stands in the notes."""

_DANGEROUS = re.compile(
    r"(?<![\w./-])(?:"
    r"sudo|doas|su|rm(?:\s+-\S+)*|rmdir|shred|dd|mkfs\S*|chmod|chown|kill|killall|pkill|truncate|"
    r"git\s+(?:push(?:\s+\S+){0,20}?\s+(?:-f|--force\S*)|push|reset\s+--hard|clean\s+-\S+)|"
    r"(?:curl|wget|nc|ssh|scp)|eval|(?:ba|z|da)?sh\s+-c"
    r")(?![\w-])|\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|>{1,2}\s*/\S+|"
    r"(?:\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|r))+|\[… .* left out …\]"
)
"""Parts of a command the eye should not miss. Only a help for reading: the gate has judged already."""


class ApprovalDialog(Dialog[Decision]):
    """Says who asks, what exactly would happen, what it would touch and why. No is the default."""

    def __init__(self, request: ApprovalAsked, spill: Callable[[str], None] = lambda _text: None) -> None:
        super().__init__(spill)
        self.request = request
        rule = line(request.rule)
        shown = rule if len(rule) <= RULE_CHARS else f"{rule[: RULE_CHARS - 1]}…"
        lasting = [SESSION, ALWAYS.format(rule=shown)] if rule else []
        self._choices = [ONCE, *lasting, NO, WHY]

    def body(self) -> ComposeResult:
        request = self.request
        yield Static(Content(f"◆ {line(request.agent)} wants to use {line(request.tool)}"), classes="who")
        with VerticalScroll(classes="text subject", can_focus=False):
            yield Static(marked(shortened(request.headline)))
        notes = [f"· {line(reason)}" for reason in request.reasons]
        if request.touches:
            notes.append(f"will touch: {', '.join(line(each) for each in request.touches)}")
        if request.rule:
            notes.append(f"a yes for the session or always covers: {line(request.rule)}")
        else:
            notes.append("it is asked each time: a yes counts once")
        notes.append("on no: nothing runs; the agent is told and looks for another way")
        with VerticalScroll(classes="text notes", can_focus=False):
            yield Static(Content("\n".join(notes)), classes="note")
        yield Choices(self._choices, chosen=self._choices.index(NO))
        field = Input(placeholder="why not, for the agent to read", compact=True)
        field.display = False
        yield field
        yield Static(
            Content(f"1–{len(self._choices)} or ⏎ choose · PgUp PgDn scroll · esc deny"), classes="keys"
        )

    def key_pageup(self) -> None:
        self.query_one(".subject", VerticalScroll).scroll_page_up(animate=False)

    def key_pagedown(self) -> None:
        self.query_one(".subject", VerticalScroll).scroll_page_down(animate=False)

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


def marked(text: str) -> Content:
    """`text` with what is dangerous or was hidden in the tone of errors. Pure."""
    spans = [Span(match.start(), match.end(), "bold $text-error") for match in _DANGEROUS.finditer(text)]
    return Content(text, spans)
