"""The health of servers and the state of their tools, as displayed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from agent.integrations.mcp.catalog import MOST_AGREED, ServerCatalog, ToolDefinition

State = Literal["idle", "starting", "ready", "failed", "parked", "sign-in", "off", "not agreed"]
"""`idle`: it starts at the first use. `failed`: it is tried again soon. `parked`: it failed several times in
a row, and is tried again at the first use after a longer pause.
"""

PAUSES = (1.0, 4.0, 15.0, 60.0, 300.0)
"""Seconds until the next try, by the number of failures in a row; the last value is for all further ones."""
PARKED_AFTER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of one server. Times are those of `time.monotonic`."""

    state: State = "idle"
    failures: int = 0
    """The number of failures in a row."""
    retry_at: float = 0.0
    reason: str = ""
    """Why it failed last, as a clause."""
    starts: int = 0
    took: float = 0.0
    """The duration of its last start, in seconds."""
    protocol: str = ""
    calls: int = 0
    """The number of requests that it answered since the session began."""
    answered_in: float = 0.0
    """The duration of the last of them, in seconds."""

    def waits(self, now: float) -> float:
        """Return the seconds until the next try is allowed; 0 if it is allowed now."""
        return max(self.retry_at - now, 0.0) if self.state in ("failed", "parked") else 0.0

    def starting(self) -> Health:
        return replace(self, state="starting", starts=self.starts + 1)

    def ready(self, protocol: str, took: float) -> Health:
        return replace(self, state="ready", failures=0, retry_at=0.0, reason="", protocol=protocol, took=took)

    def after_answer(self, took: float) -> Health:
        return replace(self, calls=self.calls + 1, answered_in=took)

    def after_failure(self, reason: str, now: float) -> Health:
        """Return the health after one more failure in a row."""
        failures = self.failures + 1
        pause = PAUSES[min(failures, len(PAUSES)) - 1]
        state: State = "parked" if failures >= PARKED_AFTER else "failed"
        return replace(self, state=state, failures=failures, retry_at=now + pause, reason=reason)

    def needs_sign_in(self) -> Health:
        return replace(self, state="sign-in", reason="it asks for a sign-in")

    def after_stop(self) -> Health:
        return replace(self, state="idle", failures=0, retry_at=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolState:
    """One tool of a server, as displayed. Its texts come from the server."""

    name: str
    description: str
    why: str = ""
    """Why the tool is not approved, as a clause; empty for one that can be called."""
    difference: str = ""
    """The lines that changed since its approval, as a unified diff; empty if it did not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server, as displayed."""

    name: str
    origin: str
    place: str
    health: Health
    terms: tuple[str, ...] = ()
    """What the user approves besides its command or URL, a line each."""
    retry_in: float = 0.0
    """Seconds until the next try."""
    tools: tuple[str, ...] = ()
    parked: tuple[tuple[str, str], ...] = ()
    """The tools that wait for the user's approval, each with the reason."""
    seen: str = ""
    """A hash of all waiting tools as shown here; an approval counts for exactly these."""
    offer: tuple[ToolState, ...] = ()
    """All its tools, in the order of the server."""
    prompts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    signs_in: bool = False
    """Whether the server supports a sign-in."""
    signed_in: bool = False
    """Whether sign-in tokens are stored."""
    sign_in: str | None = None
    """The URL to sign in at; empty until the server has sent it, None if no sign-in is running."""


def why_parked(catalog: ServerCatalog, tool: ToolDefinition) -> str:
    """Return why a tool waits for approval, as a clause."""
    if catalog.standing(tool) == "changed":
        return "has changed its description or parameters since it was agreed to"
    if tool.suspicion:
        return f"has a description that reads like an order ({tool.suspicion})"
    return f"came after {MOST_AGREED:,} others, and no more are taken unasked"


def tool_state(catalog: ServerCatalog, tool: ToolDefinition) -> ToolState:
    """Return one tool as it is displayed."""
    why = "" if catalog.standing(tool) == "ready" else why_parked(catalog, tool)
    difference = catalog.differences.get(tool.name, "")
    return ToolState(name=tool.name, description=tool.description, why=why, difference=difference)


def waiting(name: str, catalog: ServerCatalog | None) -> list[str]:
    """Return one sentence about a server's tools that wait for approval, as a list; empty if none wait."""
    parked = catalog.parked_tools() if catalog is not None else ()
    if not parked or catalog is None:
        return []
    shown = "; ".join(f"{tool.name} {why_parked(catalog, tool)}" for tool in parked[:3])
    more = f"; and {len(parked) - 3} more" if len(parked) > 3 else ""
    mend = f"look and agree with `hermes mcp trust {name}`"
    return [f"Tools of the MCP server {name} are parked: {shown}{more}; {mend}."]
