"""The declaration of a kind of question: its dialog, and its form on a plain terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from agent.events import Asked
from tools.parts import PartKind, search_path

if TYPE_CHECKING:
    from app.tui.screens.dialog import Dialog

PasteIntoDraft = Callable[[str], None]
"""A function that inserts into the prompt text that was typed for the draft while a dialog had the focus."""


class PlainTerminal(Protocol):
    """A terminal on which questions are asked line by line."""

    @property
    def numbers(self) -> bool:
        """True if choices are numbered lists, as screen readers need them."""
        ...

    def say(self, text: str) -> None:
        """Write a line that is not part of the program's output."""
        ...

    async def read(self, prompt: str) -> str | None:
        """Read one line; return None at the end of input."""
        ...


@dataclass(frozen=True, slots=True)
class QuestionKind:
    """One kind of question, found by the type of its event. `dialog` may import the user interface."""

    event: type[Asked]
    dialog: Callable[[Any, PasteIntoDraft], Dialog[Any]]
    """Makes the dialog of a request, whose outcome is the reply or None."""
    plain: Callable[[Any, PlainTerminal], Awaitable[Any]]
    """Asks on a plain terminal and returns the reply."""
    reads: tuple[str, ...] = ()
    """The modules of the dialog, which are imported in advance."""


QUESTIONS = PartKind("questions", "app.tui.questions", "_question")


def kind_of(request: Asked) -> QuestionKind:
    """Return the kind of a request. Raises `LookupError` for an event without a declared kind."""
    kinds = _kinds(tuple(search_path()))
    for event in type(request).__mro__:
        if event in kinds:
            return kinds[event]
    raise LookupError(f"no kind of question is declared for {type(request).__name__}")


def kinds() -> list[QuestionKind]:
    """Import and return all declared kinds, without importing their dialogs."""
    return list(_kinds(tuple(search_path())).values())


@cache
def _kinds(_search_path: tuple[object, ...]) -> dict[type, QuestionKind]:
    return {kind.event: kind for kind in QUESTIONS.declarations("QUESTION")}
