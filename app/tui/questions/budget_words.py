"""The texts about forecasts and about a ceiling that is reached, shared by all user interfaces.

Names and goals are outside text. Each figure is one line, so that nothing in it can imitate another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent.events import CeilingAsked, ForecastAsked, Room
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.words import plural
from widgets.panes.status import elapsed, money, tokens

if TYPE_CHECKING:
    from agent.core.event_data import Forecast, ForecastSpan, Measure

UNITS = {"turns": "requests", "tokens": "tokens", "money": "", "seconds": ""}
_NUMBER = lazy_pattern(
    r"\$?\s*(\d[\d,_ ]*(?:\.\d*)?|\.\d+)\s*([kmg]?)(?:\s*(?:tokens?|requests?|dollars?|seconds?))?",
    re.ASCII,
)
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
LONGEST = 40
"""The largest number of characters of a typed amount."""


def asker(request: ForecastAsked | CeilingAsked) -> str:
    """Return the display name of the asking agent."""
    return "Hermes" if request.agent == "main" else request.agent


def heading(request: ForecastAsked) -> str:
    """Return the question's heading: who wants to start agents, or send requests to models, and how many."""
    count, models, who = request.forecast.agents, len(request.forecast.models), asker(request)
    if request.forecast.single:
        return f"{who} wants to send {_many(count, 'request')} to {_many(models, 'model')}"
    return f"{who} wants to send {_many(count, 'agent')}"


def figures(request: ForecastAsked) -> Iterator[tuple[str, str]]:
    """Yield label and text of each figure: tokens, cost, remaining budgets and models."""
    made = request.forecast
    yield "tokens", f"{_span(made.tokens)}, {forecast_basis(made)}"
    if made.money is None:
        yield "cost", "unknown: no price is known for a model (providers.*.models)"
    else:
        yield "cost", _between(money(made.money.low), money(made.money.high))
    for place, room in enumerate(request.rooms):
        yield ("" if place else "left"), remaining_text(room)
    if not request.rooms:
        yield "left", "no ceiling bounds them"
    for place, (model, count) in enumerate(made.models):
        yield ("" if place else "model"), f"{count} × {_one_line(model)}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def remaining_text(room: Room) -> str:
    """Return the remaining budget as text, such as `1.4M of 2M tokens for all agents of this session`."""
    still, ceiling = _bare(room.measure, room.left), amount(room.measure, room.ceiling)
    return f"{still} of {ceiling} for {_one_line(room.owner)}"


def forecast_basis(made: Forecast) -> str:
    """Return in words what a forecast is based on."""
    if made.single:
        return "one request each; nobody knows how long answers get"
    if made.from_past:
        return f"as {plural(made.from_past, 'earlier agent')} took"
    return "a guess: too few agents have ended so far"


def ceiling_text(request: CeilingAsked) -> str:
    """Return the reached ceiling as one to three sentences."""
    used, ceiling = _bare(request.measure, request.used), amount(request.measure, request.ceiling)
    if request.measure == "tokens":
        # Rounded, the rest of a large ceiling could look like zero.
        used, ceiling = f"{request.used:,.0f}", _exactly(request.measure, request.ceiling)
    sentence = f"The ceiling of {_one_line(request.owner)} is reached: {used} of {ceiling} used."
    if request.measure in ("tokens", "money") and request.needed > 0:
        sentence += f" The next request may take {_exactly(request.measure, request.needed)}."
    if request.measure == "turns" and request.used < request.ceiling:
        sentence += " The last one is kept for a summary."
    return sentence


def raise_label(request: CeilingAsked) -> str:
    """Return the label of the choice that raises the ceiling by the engine's proposal."""
    more = amount(request.measure, request.again - request.ceiling)
    return f"Raise it by {more}, to {amount(request.measure, request.again)}"


def answer_effects(request: CeilingAsked) -> tuple[str, ...]:
    """Return the effects of raising the ceiling and of stopping, one sentence each."""
    lasts = "until Hermes ends" if request.setting.startswith("budget.day") else "for this session"
    return (
        f"it is raised {lasts}; {request.setting} stays as it is",
        "on stop: the agent ends with what there is so far",
    )


def least_increase(request: CeilingAsked) -> float:
    """Return the smallest increase of the ceiling that admits the next request."""
    missing = request.used + request.needed - request.ceiling
    return missing if request.measure in ("money", "seconds") else math.ceil(missing)


def example(measure: Measure) -> str:
    """Return an example of an amount that the user may type."""
    return {"turns": "20", "tokens": "500k", "money": "2.50", "seconds": "600"}[measure]


def parse_increase(text: str, request: CeilingAsked) -> tuple[float, str]:
    """Parse `text` (`500k`, `$2.50`) as an increase; return the new ceiling, or 0 and an error sentence."""
    found = _NUMBER.fullmatch(text.strip().lower()) if len(text) <= LONGEST else None
    if found is None:
        return 0.0, f"Write a number, such as {example(request.measure)}."
    value = float(re.sub(r"[,_ ]", "", found[1])) * _SCALE[found[2]]
    if request.measure in ("turns", "tokens"):
        value = math.floor(value)
    if value <= 0 or value < least_increase(request):
        return (
            0.0,
            f"Give at least {_exactly(request.measure, max(least_increase(request), 0.01))} more.",
        )
    return request.ceiling + value, ""


def amount(measure: Measure, value: float) -> str:
    """Return an amount as text: `2M tokens`, `$1.50`, `40 requests`, `10:00`."""
    unit = "request" if measure == "turns" and value == 1 else UNITS[measure]
    return f"{_bare(measure, value)} {unit}".rstrip()


def _bare(measure: Measure, value: float) -> str:
    if measure == "money":
        return money(value)
    if measure == "seconds":
        return elapsed(value)
    return tokens(int(value)) if measure == "tokens" else f"{value:,.0f}"


def _exactly(measure: Measure, value: float) -> str:
    if measure == "money":
        return f"${math.ceil(value * 100) / 100:,.2f}"
    return f"{math.ceil(value):,} tokens" if measure == "tokens" else amount(measure, math.ceil(value))


def _span(span: ForecastSpan) -> str:
    return _between(tokens(int(span.low)), tokens(int(span.high)))


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} – {high}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def align_lines(lines: Sequence[tuple[str, str]]) -> str:
    """Return labels and their values as lines of two columns."""
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)
