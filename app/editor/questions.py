"""Requests of the engine in the form of editor questions: choices for a permission, or a form. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from acp import schema

from agent.core.event_data import FormReply
from agent.events import (
    ApprovalAsked,
    Asked,
    CeilingAsked,
    CeilingReply,
    Decision,
    ForecastAsked,
    QuestionAsked,
    Reply,
)
from agent.integrations.mcp.server_requests import filled_form
from agent.integrations.server_events import FormAsked
from app.tui.questions import budget_words as budget
from app.tui.questions.approval_words import (
    lasting_text,
    one_line,
    place_text,
    reach_text,
    reasons,
)
from tools.context import PersonAnswer
from tools.text.safe_text import clean
from tools.text.words import brief

Kind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class EditorChoice:
    """One possible answer to a question, with the reply that it stands for."""

    id: str
    name: str
    kind: Kind
    reply: Reply


@dataclass(frozen=True, slots=True)
class EditorQuestion:
    """A question with its answers."""

    title: str
    text: str
    """The complete text of the question."""
    choices: tuple[EditorChoice, ...]
    form: bool = False
    """Whether the person can answer with free text, which needs a form."""

    @property
    def options(self) -> list[schema.PermissionOption]:
        """The answers in the protocol's form."""
        return [
            schema.PermissionOption(option_id=each.id, name=each.name, kind=each.kind)
            for each in self.choices
        ]

    def reply(self, option: str) -> Reply | None:
        """Return the reply for an option id; None for an unknown id."""
        return next((each.reply for each in self.choices if each.id == option), None)


def question_of(request: Asked) -> EditorQuestion | None:
    """Return the editor question for a request; None for a kind of request that the editor cannot show."""
    match request:
        case ApprovalAsked():
            return _approval(request)
        case ForecastAsked():
            return _forecast(request)
        case CeilingAsked():
            return _ceiling(request)
        case QuestionAsked():
            return _question(request)
        case _:
            return None


def _approval(request: ApprovalAsked) -> EditorQuestion:
    facts = [request.sentence, place_text(request), reach_text(request), *reasons(request)]
    facts = [one_line(each) for each in facts if each]
    facts.append(lasting_text(request))
    choices = [EditorChoice("once", "Allow once", "allow_once", Decision("once"))]
    if request.rule:
        choices += [
            EditorChoice("session", "Allow for this session", "allow_always", Decision("session")),
            EditorChoice("always", "Always allow", "allow_always", Decision("always")),
        ]
    choices.append(EditorChoice("deny", "Deny", "reject_once", Decision("deny")))
    return EditorQuestion(
        title=brief(f"{request.tool}: {request.headline}", LONGEST_NAME),
        text="\n".join([_fence(request.headline), "", *facts]),
        choices=tuple(choices),
    )


def _forecast(request: ForecastAsked) -> EditorQuestion:
    goals = [f"- {one_line(goal)}" for goal in request.forecast.goals]
    return EditorQuestion(
        title=brief(budget.heading(request), LONGEST_NAME),
        text="\n".join([*goals, "", _fence(budget.align_lines(list(budget.figures(request))))]),
        choices=(
            EditorChoice("once", "Send them", "allow_once", Decision("once")),
            EditorChoice(
                "session", "Send, and do not ask again in this session", "allow_always", Decision("session")
            ),
            EditorChoice("deny", "Do not send", "reject_once", Decision("deny")),
        ),
    )


def _ceiling(request: CeilingAsked) -> EditorQuestion:
    raised = CeilingReply("raised", request.again)
    return EditorQuestion(
        title=brief(f"{request.agent} cannot continue. {budget.ceiling_text(request)}", LONGEST_NAME),
        text="\n".join(f"· {note}" for note in budget.answer_effects(request)),
        choices=(
            EditorChoice(
                "raise", brief(budget.raise_label(request).capitalize(), LONGEST_NAME), "allow_once", raised
            ),
            EditorChoice("stop", "Stop here", "reject_once", CeilingReply("stopped")),
        ),
    )


def _question(request: QuestionAsked) -> EditorQuestion:
    choices = [
        EditorChoice(
            f"choice-{at}", brief(choice, LONGEST_NAME), "allow_once", PersonAnswer("answered", choice)
        )
        for at, choice in enumerate(request.choices, 1)
    ]
    choices.append(EditorChoice("decline", "No answer", "reject_once", PersonAnswer("declined")))
    return EditorQuestion(
        title=brief(request.question, LONGEST_NAME),
        text=clean(request.question),
        choices=tuple(choices),
        form=request.allow_freetext or not request.choices,
    )


ANSWER = "answer"
"""The field of a form."""


def form_of(request: QuestionAsked) -> schema.ElicitationSchema:
    """Return the form for a question with a free-text answer."""
    hint = f"Suggested: {', '.join(map(one_line, request.choices))}" if request.choices else None
    field = schema.ElicitationStringPropertySchema(type="string", title="Answer", description=hint)
    return schema.ElicitationSchema(type="object", properties={ANSWER: field}, required=[ANSWER])


def fields_of(request: FormAsked) -> schema.ElicitationSchema:
    """Return a tool server's form for the editor. Every field is shown as text, and its value is validated
    later.
    """
    shown = {}
    for each in request.fields:
        choices = ", ".join(label for _, label in each.choices)
        shown[each.name] = schema.ElicitationStringPropertySchema(
            type="string",
            title=brief(each.title, LONGEST_NAME),
            description=one_line(each.label + (f" [{choices}]" if choices else "")),
            default=each.default_text or None,
        )
    needed = [each.name for each in request.fields if each.required]
    return schema.ElicitationSchema(type="object", properties=shown, required=needed)


def filled_of(request: FormAsked, content: Mapping[str, object] | None) -> FormReply:
    """Return the reply to a tool server's form. An invalid form counts as not answered."""
    texts = {name: str(value) for name, value in (content or {}).items()}
    values, wrong = filled_form(request.fields, texts)
    return FormReply("cancelled") if wrong else FormReply("answered", values)


def answer_of(content: Mapping[str, object] | None) -> PersonAnswer:
    """Return the person's answer from a submitted form."""
    said = str((content or {}).get(ANSWER) or "").strip()
    return PersonAnswer("answered", said) if said else PersonAnswer("declined")


def _fence(text: str) -> str:
    shown = clean(text)
    fence = "```"
    while fence in shown:
        fence += "`"
    return f"{fence}\n{shown}\n{fence}"
