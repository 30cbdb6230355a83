"""The version of the program."""

from __future__ import annotations


def version() -> str:
    """Return the installed version, or `(not installed)`."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hermes-tui")
    except PackageNotFoundError:
        return "(not installed)"
