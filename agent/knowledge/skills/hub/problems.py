"""Errors between a source of skills and the home, in words a person can act on."""

from __future__ import annotations

from agent.errors import ExitCode, HermesError


class HubError(HermesError):
    """A skill could not be found, fetched, installed or removed. Nothing has changed."""


class HubUnreachableError(HubError):
    """A source did not answer, or not in time."""

    exit_code = ExitCode.UNREACHABLE


class HubMissingError(HubError):
    """A source answered that there is no such thing."""


class HubRefusedError(HubError):
    """What a source delivered is not taken."""

    exit_code = ExitCode.DENIED


class HubLimitError(HubRefusedError):
    """A skill is larger than skills from elsewhere may be, or not text only."""
