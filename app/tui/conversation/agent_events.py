"""Shows the events of one agent in its conversation: the session's own agent or any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.core.attachments import shown
from agent.events import (
    AssistantMessageAdded,
    Event,
    Noticed,
    PrefixBroken,
    ReasoningAdded,
    ReplyCut,
    StepTaken,
    TextAdded,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    UserMessageAdded,
)
from app.tui.conversation.attachments import sources

if TYPE_CHECKING:
    from widgets.transcript.view import Transcript


def tell(transcript: Transcript, event: Event) -> None:
    """Let a conversation show what happened in it: words, calls, notices."""
    match event:
        case UserMessageAdded():
            said = shown(event.text, event.attachments)
            transcript.add_user(said, event.node, event.origin, sources(event.attachments))
        case ReasoningAdded():
            transcript.add_reasoning(event.text)
        case TextAdded():
            transcript.add_text(event.text)
        case AssistantMessageAdded():
            transcript.finish_answer(event.text, event.reasoning, event.node)
        case ReplyCut():
            transcript.cut(event.reason)
        case ToolStarted(parent=""):
            transcript.start_call(event.call, event.tool, event.display, event.arguments)
        case ToolProgressed():
            transcript.progress_call(event.call, event.text)
        case ToolFinished(parent=""):
            transcript.finish_call(event.call, event.outcome, event.seconds, event.display, event.result)
        case StepTaken():
            transcript.changed_files(event.call, event.count)
        case TurnEnded():
            for kind, words in ending(event):
                transcript.add_notice(kind, words)
        case PrefixBroken():
            transcript.add_notice("info", f"The provider's cache begins anew: {event.reason}.")
        case Noticed():
            transcript.add_notice(event.kind, event.text, event.detail)
        case _ if said := event.notice():
            transcript.add_notice(*said)


ENDS: Mapping[str, tuple[str, str]] = {
    "done": ("info", "It has ended: done."),
    "failed": ("error", "It has ended: failed."),
    "denied": ("warning", "It has ended: what it needed was not allowed."),
    "interrupted": ("info", "It has ended: stopped before it was done."),
    "budget": ("warning", "It has ended: its budget was reached."),
}
"""What is said of the end of an agent that was sent, as kind and words of a notice."""
_AS_STORED: Mapping[str, str] = {"completed": "done", "killed": "interrupted"}


def ended(outcome: str, why: str = "") -> tuple[str, str]:
    """The notice of an agent's end. `outcome` is that of its event, or as the store has it. Pure."""
    kind, words = ENDS.get(_AS_STORED.get(outcome, outcome), ENDS["failed"])
    return kind, f"{words} {why}".rstrip()


def ending(event: TurnEnded) -> list[tuple[str, str]]:
    """What is said when a turn ended in another way than by an answer, as notices. Pure."""
    match event.outcome:
        case "failed":
            return [("error", event.error or "The turn failed.")]
        case "interrupted":
            return [("info", "Stopped.")]
        case "denied":
            return [("warning", event.error or "Stopped at the gate.")]
        case "budget":
            return [("warning", "The limit of requests was reached; send a message to go on.")]
        case _:
            return []
