"""Events of servers: learned rules of model providers, log lines of tool servers, and forms for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from agent.core.event_data import FormReply
from agent.events import Asked, Event

if TYPE_CHECKING:
    from agent.integrations.mcp.server_requests import FormField


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLogged(Event):
    """A tool server has written a line into its log."""

    type: ClassVar[str] = "server_log"
    server: str
    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormAsked(Asked):
    """A tool server asks the person to fill in a form."""

    type: ClassVar[str] = "form"
    cancelled: ClassVar[FormReply] = FormReply("cancelled")
    unattended: ClassVar[FormReply] = FormReply("declined")
    server: str
    message: str
    fields: tuple[FormField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectLearned(Event):
    """A provider's refusal has taught how to send requests to a model.

    `rule` names the adjustment, and `reason` is the provider's error message.
    """

    type: ClassVar[str] = "dialect_learned"
    provider: str
    model: str
    rule: str
    reason: str
