"""The version of the program."""

from __future__ import annotations


def version() -> str:
    """As it was installed; a word in brackets where it was not."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hermes-tui")
    except PackageNotFoundError:
        return "(not installed)"
