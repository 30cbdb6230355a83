"""Events of servers: learned rules of model providers, log lines of MCP servers, and forms for the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from agent.core.event_data import FormReply
from agent.events import Asked, Event

if TYPE_CHECKING:
    from agent.integrations.mcp.server_requests import FormField


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLogged(Event):
    """The event that an MCP server has written a line into its log."""

    type: ClassVar[str] = "server_log"
    server: str
    level: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormAsked(Asked):
    """The event that an MCP server asks the user to fill in a form."""

    type: ClassVar[str] = "form"
    cancelled: ClassVar[FormReply] = FormReply("cancelled")
    unattended: ClassVar[FormReply] = FormReply("declined")
    server: str
    message: str
    fields: tuple[FormField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectLearned(Event):
    """The event that a provider's refusal has shown how requests to a model must be sent.

    `rule` names the adjustment, and `reason` is the provider's error message.
    """

    type: ClassVar[str] = "dialect_learned"
    provider: str
    model: str
    rule: str
    reason: str
