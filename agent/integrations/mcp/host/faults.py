"""Faults of a server, as clauses after its name."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

from tools.text.words import one_line

LONGEST = 600
_FORGOTTEN = (INVALID_REQUEST, "Session terminated")
"""What the package makes of a session that the server answers with 404."""


class CallFaultError(Exception):
    """Something a server was asked failed. The text is a clause after its name."""

    def __init__(
        self, text: str, *, gone: bool = False, sign_in: bool = False, forgotten: bool = False
    ) -> None:
        super().__init__(text)
        self.forgotten = forgotten
        """Whether the server no longer knows the session, so that nothing was done."""
        self.gone = gone
        """Whether the server is no longer there."""
        self.sign_in = sign_in
        """Whether a person has to sign in first."""

    def to_json(self) -> dict[str, Any]:
        return {"text": str(self), "gone": self.gone, "sign_in": self.sign_in}


class SignInNeededError(Exception):
    """A person has to sign in, and nobody is there who could."""


def words(error: BaseException) -> CallFaultError:
    """An error of the package as a fault."""
    inner = _innermost(error)
    match inner:
        case CallFaultError():
            return inner
        case SignInNeededError():
            return CallFaultError("it asks for a sign-in", sign_in=True)
        case OAuthFlowError() | OAuthRegistrationError() | OAuthTokenError():
            return CallFaultError(f"signing in failed: {_oauth_words(str(inner))}")
        case MCPError() if (inner.code, inner.error.message) == _FORGOTTEN:
            return CallFaultError("it has forgotten the session", gone=True, forgotten=True)
        case MCPError() if inner.code == CONNECTION_CLOSED:
            return CallFaultError(f"the connection ended: {_short(inner)}", gone=True)
        case MCPError():
            return CallFaultError(f"it answered with error {inner.code}: {_short(inner)}")
        case httpx2.HTTPStatusError():
            return CallFaultError(f"it answered with HTTP {inner.response.status_code}")
        case httpx2.TimeoutException() | TimeoutError():
            return CallFaultError("it did not answer in time", gone=True)
        case httpx2.ConnectError():
            return CallFaultError(f"it cannot be reached ({_short(inner)})", gone=True)
        case httpx2.HTTPError():
            return CallFaultError(_short(inner) or type(inner).__name__, gone=True)
        case OSError():
            return CallFaultError(f"it cannot be started: {inner.strerror or _short(inner)}", gone=True)
        case ValueError():
            return CallFaultError(f"it answered with what is no valid answer ({_short(inner, 200)})")
        case _:
            return CallFaultError(f"{type(inner).__name__}: {_short(inner)}".rstrip(": "))


def _oauth_words(text: str) -> str:
    """What a server said in a refusal, in words where it is the JSON that the protocol asks for."""
    start = text.find("{")
    try:
        said = json.loads(text[start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("error"), str):
        return _short(Exception(text), 300)
    described = said.get("error_description")
    more = f" ({described})" if isinstance(described, str) and described else ""
    return _short(Exception(f"{text[:start]}{said['error']}{more}"), 300)


def _innermost(error: BaseException) -> BaseException:
    """The first error of a group, however deep."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def _short(error: BaseException, limit: int = LONGEST) -> str:
    return one_line(str(error))[:limit].rstrip(".")
