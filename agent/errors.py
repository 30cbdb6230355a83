"""Errors in words that a user can act on.

Every error that may reach a user is a `HermesError`: one sentence with cause and fix, and an exit code. No
other error may escape to a surface.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import Literal

from tools import ExplainedError


class ExitCode(IntEnum):
    """Exit codes of the `hermes` command (documented in docs/cli.md)."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    DENIED = 4
    INTERRUPTED = 130


class HermesError(ExplainedError):
    """An error with a sentence for the user and an exit code."""

    exit_code: ExitCode = ExitCode.FAILED


def explain_failure(error: Exception) -> str:
    """Return the sentence about an error. An unexpected one is logged with its traceback."""
    if isinstance(error, HermesError):
        return str(error)
    logging.getLogger("hermes").error("unexpected error", exc_info=error)
    return f"Internal error ({type(error).__name__}: {error}); the log has the details."


class ConfigError(HermesError):
    """Raised if a setting or an argument is wrong."""

    exit_code = ExitCode.USAGE


class StoreError(HermesError):
    """Raised if the session store cannot be used or a session cannot be found."""


ModelErrorKind = Literal[
    "unreachable",  # no connection, DNS, TLS
    "timeout",  # no byte for longer than the stall timeout
    "cut",  # the stream ended before it was complete
    "rate_limit",  # 429
    "overloaded",  # 5xx
    "auth",  # 401, 403
    "billing",  # 402, quota exhausted
    "overflow",  # the request is larger than the window
    "not_found",  # no such model or path
    "bad_request",  # any other 4xx
    "content_filter",
    "images",  # the model or its server does not take an image of the conversation
    "bad_reply",  # the answer is not a chat completion
]

RETRYABLE: frozenset[str] = frozenset(
    {"unreachable", "timeout", "cut", "rate_limit", "overloaded", "bad_reply"}
)
"""Kinds of errors that may disappear when the request is sent again."""


class ModelError(HermesError):
    """Raised for a failed request to a model. `kind` determines how it is handled."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        limit: int | None = None,
        said: str = "",
        words: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.limit = limit
        """The tokens that fit the context window, if an overflow error names them."""
        self.status = status
        self.retry_after = retry_after
        """Seconds to wait before a retry, if the provider named them."""
        self.said = said
        """The provider's text, unchanged. It is only searched, and never shown."""
        self.words = words
        """Code and type of the provider's text."""
        self.no_tools = False
        """True if the model accepts no tools in the field for them."""
