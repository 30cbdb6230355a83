"""Dialogs for the engine's requests: approvals, ceilings, cost forecasts, and questions from the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.events import (
    ApprovalAsked,
    Asked,
    CeilingAsked,
    CeilingReply,
    Decision,
    ForecastAsked,
    QuestionAsked,
)
from app.tui.questions.approval_words import (
    HIDDEN,
    ask_text,
    lasting_text,
    marks_in_command,
    marks_in_notes,
    place_text,
    reach_text,
    reasons,
    relevant_parts,
)
from app.tui.questions.budget_words import (
    align_lines,
    answer_effects,
    ceiling_text,
    example,
    figures,
    heading,
    parse_increase,
    raise_label,
)
from app.tui.questions.question_kind import PasteIntoDraft
from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.page import LINE_CHARS, Field, Skinned, line, words
from themes.states import NEEDS_YOU
from tools.context import PersonAnswer
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import reveal
from tools.text.words import shorten

ONCE = "Allow once"
SESSION = "Allow for this session"
ALWAYS = "Always: {rule}"
NO = "Deny"
WHY = "Deny and tell why …"
FEW_PARTS = 3
"""The number of parts with a note in the dialog, so that some of the session stays visible; `o` shows all."""
RULE_CHARS = 50
"""The number of characters of a rule that its choice shows; the notes show all of it."""

DANGEROUS = lazy_pattern(
    r"(?<![\w./-])(?:"
    r"sudo|doas|su|rm(?:\s+-\S+)*|rmdir|shred|dd|mkfs\S*|chmod|chown|kill|killall|pkill|truncate|"
    r"git\s+(?:push(?:\s+\S+){0,20}?\s+(?:-f|--force\S*)|push|reset\s+--hard|clean\s+-\S+)|"
    r"(?:curl|wget|nc|ssh|scp)|eval|(?:ba|z|da)?sh\s+-c"
    rf")(?![\w-])|\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|>{{1,2}}\s*/\S+|{HIDDEN}"
)
"""A pattern for dangerous words, used if the parts are unknown. It only highlights them."""


RequestT = TypeVar("RequestT", bound=Asked)
ReplyT = TypeVar("ReplyT")


class RequestDialog(Dialog[ReplyT], Generic[RequestT, ReplyT]):
    """A dialog for a request, with an initially hidden text field below the choices."""

    opens = True

    def __init__(self, request: RequestT, paste_into_draft: PasteIntoDraft = lambda _text: None) -> None:
        super().__init__(paste_into_draft)
        self.request = request

    def foot(self, placeholder: str) -> ComposeResult:
        """Yield the hidden field and the hints."""
        field = Field(placeholder=placeholder, compact=True)
        field.display = False
        yield field
        yield Hints()

    def take_words(self) -> None:
        """Show the text field and focus it."""
        field = self.query_one(Input)
        field.display = True
        field.focus()


class ApprovalDialog(RequestDialog[ApprovalAsked, Decision]):
    """Shows the agent, the exact action, what it would touch and why Hermes asks. No is the default."""

    enters = "deny and tell"
    leaves = "deny"

    def __init__(self, request: ApprovalAsked, paste_into_draft: PasteIntoDraft = lambda _text: None) -> None:
        super().__init__(request, paste_into_draft)
        rule = line(request.rule, LINE_CHARS)
        shown = shorten(rule, RULE_CHARS)
        lasting = [SESSION, ALWAYS.format(rule=shown)] if rule else []
        self._choices = [ONCE, *lasting, NO, WHY]

    def body(self) -> ComposeResult:
        request = self.request
        parts = len(relevant_parts(request.parts))
        many = f" · {parts:,} parts need a yes" if parts > FEW_PARTS else ""
        yield Static(Content(f"{NEEDS_YOU} {line(ask_text(request), LINE_CHARS)}{many}"), classes="who")
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
        yield from self.foot("why not, for the agent to read")

    def full_text(self) -> str:
        request = self.request
        said = "\n\n".join(filter(None, (ask_text(request), request.sentence, request.headline)))
        return f"{said}\n\n{self._notes(whole=True)}"

    def _notes(self, *, whole: bool = False) -> str:
        """Return the folder, what the action reaches, the reasons for asking and the effect of a no, one per
        line.

        What a lasting yes covers is included in the `whole` text, or if the rule is too long for its choice.
        """
        request = self.request
        facts = filter(None, (place_text(request), reach_text(request)))
        notes = [*facts, *(reasons(request) if whole else reasons(request, FEW_PARTS, ": o shows all"))]
        if whole or not request.rule or len(line(request.rule, LINE_CHARS)) > RULE_CHARS:
            notes.append(lasting_text(request))
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
            self.take_words()
        else:
            self.dismiss(Decision("session" if chosen == 1 else "always"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(Decision("deny", event.value.strip()))

    def decline(self) -> None:
        self.dismiss(Decision("deny"))


BY = "Raise it by …"
STOP = "Stop here, with what there is"


class CeilingDialog(RequestDialog[CeilingAsked, CeilingReply]):
    """Shows the reached ceiling and the agent; the user raises it or lets the agent stop, which is the
    default.
    """

    enters = "raise it"
    leaves = "stop here"

    def body(self) -> ComposeResult:
        who = line(self.request.agent, LINE_CHARS)
        yield Static(Content(f"{NEEDS_YOU} {who} cannot continue"), classes="who")
        yield words(line(ceiling_text(self.request), 2 * LINE_CHARS), "text")
        yield words("\n".join(answer_effects(self.request)), "text notes", role="dim")
        yield Choices([raise_label(self.request), BY, STOP], chosen=2)
        yield from self.foot(f"how much more, such as {example(self.request.measure)}")

    def full_text(self) -> str:
        who = f"{self.request.agent} cannot continue"
        return "\n\n".join((who, ceiling_text(self.request), "\n".join(answer_effects(self.request))))

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        if event.option_index == 0:
            self.dismiss(CeilingReply("raised", self.request.again))
        elif event.option_index == 1:
            self.take_words()
        else:
            self.decline()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        ceiling, wrong = parse_increase(event.value, self.request)
        if wrong:
            event.input.value = ""
            event.input.placeholder = wrong
        else:
            self.dismiss(CeilingReply("raised", ceiling))

    def decline(self) -> None:
        self.dismiss(CeilingReply("stopped"))


SEND = "Send them"
WITHOUT_ASKING = "Send them, and do not ask again in this session"
NOT = "Do not send them"
TELL = "Do not send them, and tell why …"
CHOICES = (SEND, WITHOUT_ASKING, NOT, TELL)


class ForecastDialog(RequestDialog[ForecastAsked, Decision]):
    """Shows how many agents would be started, their possible cost and their goals. No is the default."""

    enters = "do not send, and tell"
    leaves = "do not send"

    def body(self) -> ComposeResult:
        told = [(name, line(text, LINE_CHARS)) for name, text in figures(self.request)]
        goals = [line(goal, LINE_CHARS) for goal in self.request.forecast.goals]
        yield Static(Content(f"{NEEDS_YOU} {line(heading(self.request), LINE_CHARS)}"), classes="who")
        yield words(align_lines(told), "text figures", gutter=2 + max(len(name) for name, _ in told))
        yield words(goal_lines(goals), "text goals", role="dim", gutter=2)
        yield Choices(list(CHOICES), chosen=CHOICES.index(NOT))
        yield from self.foot("why not, for the agent to read")

    def full_text(self) -> str:
        goals = [f"{at}.\n{goal}" for at, goal in enumerate(self.request.forecast.goals, 1)]
        return "\n\n".join([heading(self.request), align_lines(list(figures(self.request))), *goals])

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        chosen = CHOICES[event.option_index]
        if chosen == TELL:
            self.take_words()
        elif chosen == NOT:
            self.decline()
        else:
            self.dismiss(Decision("once" if chosen == SEND else "session"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(Decision("deny", event.value.strip()))

    def decline(self) -> None:
        self.dismiss(Decision("deny"))


def goal_lines(goals: Sequence[str]) -> str:
    """Return the goals, a line each, without numbers because the choices are numbered. Pure."""
    return "\n".join(f"· {goal}" for goal in goals)


OWN_WORDS = "Something else …"


class ClarifyDialog(RequestDialog[QuestionAsked, PersonAnswer]):
    """Shows a question from the model with its choices, and accepts a free answer if that is allowed."""

    enters = "answer"
    leaves = "no answer"

    def __init__(self, request: QuestionAsked, paste_into_draft: PasteIntoDraft = lambda _text: None) -> None:
        super().__init__(request, paste_into_draft)
        self._free = request.allow_freetext or not request.choices
        self._choices = [*request.choices, *([OWN_WORDS] if self._free and request.choices else [])]

    def body(self) -> ComposeResult:
        yield Static(Content(f"{NEEDS_YOU} {line(self.request.agent, LINE_CHARS)} asks"), classes="who")
        yield words(self.request.question, "text")
        if self._choices:
            yield Choices(self._choices)
        if self._free:
            field = Field(placeholder="your answer", compact=True)
            field.display = not self._choices
            yield field
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        if event.option_index < len(self.request.choices):
            self.dismiss(PersonAnswer("answered", self.request.choices[event.option_index]))
            return
        self.take_words()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.dismiss(PersonAnswer("answered", event.value.strip()))

    def full_text(self) -> str:
        choices = (f"{number}  {choice}" for number, choice in enumerate(self.request.choices, 1))
        return "\n\n".join((f"{self.request.agent} asks", self.request.question, *choices))

    def entry(self) -> Widget:
        return self.query_one(Choices if self._choices else Input)

    def decline(self) -> None:
        self.dismiss(PersonAnswer("declined"))
