"""Texts of a suite that a person wrote, read up to a size."""

from __future__ import annotations

from pathlib import Path

from agent.errors import ConfigError


def bounded_text(path: Path, largest: int, shorter: str) -> str:
    """The text of a file in UTF-8 of at most `largest` bytes, in millions; `shorter` says how to mend it.

    Raises `ConfigError` naming file and fault.
    """
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    # Before it is decoded: where it is cut, a character may end in its middle.
    if len(data) > largest:
        raise ConfigError(f"{path} is larger than {largest // 1_000_000} MB; {shorter}.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not encoded in UTF-8.") from None
