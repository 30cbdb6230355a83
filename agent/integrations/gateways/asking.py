"""Questions of the engine as messages with choices, and what a reply to one means. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.events import ApprovalAsked, Asked, CeilingAsked, ForecastAsked, QuestionAsked
from agent.integrations.gateways.adapter import Button, Outgoing, PlatformLimits
from agent.integrations.gateways.people import ChatScope

MOST = 1_500
"""Characters of an action that are shown; the whole of it stands on the page and in the terminal."""
WORDS = {"once": "Yes, once", "session": "Yes, in this session", "always": "Yes, always", "deny": "No"}


def ask_body(asked: Asked, *, group: bool) -> dict[str, Any] | None:
    """What is kept of a request: text and choices. None for one that only a screen can show.

    In groups a yes counts once.
    """
    lasting = () if group else ("session", "always")
    match asked:
        case QuestionAsked():
            options = [[choice[:60], choice] for choice in asked.choices]
            text, scope = asked.question, "talk"
            free = asked.allow_freetext or not asked.choices
        case ApprovalAsked():
            allowed = ("once", *(lasting if asked.rule else ()), "deny")
            reasons = "".join(f"\n• {each}" for each in asked.reasons[:5])
            text = f"**May I?** {asked.tool}\n\n{_code(asked.headline)}{reasons}"
            options, scope, free = [[WORDS[each], each] for each in allowed], "approve", False
        case ForecastAsked():
            text = "**May I?** Send agents that may take much."
            options = [[WORDS[each], each] for each in ("once", *(lasting[:1]), "deny")]
            scope, free = "approve", False
        case CeilingAsked():
            text = (
                f"**A ceiling is reached**: {asked.owner}, {asked.used:,.2f} of {asked.ceiling:,.2f} "
                f"{asked.measure}. Raise it to {asked.again:,.2f}?"
            )
            options, scope, free = [["Raise it", "once"], ["No", "deny"]], "approve", False
        case _:
            return None
    return {
        "open": True,
        "request": asked.id,
        "text": text,
        "options": options,
        "scope": scope,
        "free": free,
    }


def needed(body: Mapping[str, Any]) -> ChatScope:
    """What a person needs to answer."""
    return "approve" if body["scope"] == "approve" else "talk"


def shown_ask(body: Mapping[str, Any], row: int, limits: PlatformLimits) -> Outgoing:
    """The message of a question: with buttons, or with numbers where there are none."""
    options = body["options"]
    if not body["open"]:
        return Outgoing(text=f"{body['text']}\n\n{body['over']}")
    if options and len(options) <= limits.buttons:
        buttons = tuple(Button(label, f"ask:{row}:{at}") for at, (label, _) in enumerate(options))
        return Outgoing(text=body["text"], buttons=buttons)
    lines = [f"{at}. {label}" for at, (label, _) in enumerate(options, 1)]
    how = "Reply with the number" + (", or with your own words." if body["free"] else ".")
    tail = "\n".join([*lines, "", how]) if lines else "Reply with your answer."
    return Outgoing(text=f"{body['text']}\n\n{tail}")


def over(body: Mapping[str, Any], outcome: str, by: str) -> dict[str, Any]:
    """A question that is over."""
    words = {"once": "✓ yes, once", "session": "✓ yes, in this session", "always": "✓ yes, always",
             "deny": "✗ no", "answered": "✓ answered", "raised": "✓ raised", "stopped": "✗ no",
             "expired": "✗ nobody answered: no", "cancelled": "— over"}  # fmt: skip
    said = words.get(outcome, outcome)
    return {**body, "open": False, "over": f"**{said}**" + (f" ({by})" if by else "")}


def choice_of(value: str) -> tuple[int, int] | None:
    """Row and choice of a button of ours."""
    mark, _, rest = value.partition(":")
    row, _, at = rest.partition(":")
    if mark != "ask" or not (row.isascii() and row.isdigit() and at.isascii() and at.isdigit()):
        return None
    return int(row), int(at)


def meant(body: Mapping[str, Any], text: str) -> str | None:
    """The answer that a text is to a question; None if it is none."""
    said = text.strip()
    options = body["options"]
    number = said.rstrip(".)")
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(options):
        return str(options[int(number) - 1][1])
    for label, answer in options:
        if said.casefold() in (str(label).casefold(), str(answer).casefold()):
            return str(answer)
    return said if body["free"] and said else None


def _code(text: str) -> str:
    """Text from outside that no fence in it can end."""
    shown = text if len(text) <= MOST else text[:MOST] + " …"
    fence = "```"
    while fence in shown:
        fence += "`"
    return f"{fence}\n{shown}\n{fence}"


def quoted(text: str) -> str:
    """What was said elsewhere, as a quotation."""
    return "\n".join(f"> {line}" for line in text[:2_000].split("\n"))
