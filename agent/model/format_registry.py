"""Registry of wire formats by name: each is one file (or package) that declares `FORMAT`.

The built-in ones are in `agent.model.formats`; a file in a folder `formats` of the search path adds one. A
format is imported on first use, so a session loads only its own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from tools.parts import PartKind

if TYPE_CHECKING:
    from agent.model.wire_format import WireFormat

log = logging.getLogger(__name__)

DEFAULT_FORMAT = "chat"
"""The format of a provider that does not specify one."""


class FormatRegistry:
    """The built-in formats and those on the search path, which cannot replace built-in ones."""

    def __init__(self) -> None:
        self._kind = PartKind("formats", "agent.model.formats")

    def names(self) -> list[str]:
        """Return the names of all formats, built-in ones first. Reads the names of files."""
        return list(dict.fromkeys(part.name for part in self._kind.files()))

    def get(self, name: str) -> WireFormat:
        """Return the format with this name. Raises `ConfigError` if it is missing or cannot be loaded."""
        part = next((each for each in self._kind.files() if each.name == name), None)
        if part is None:
            raise ConfigError(f"There is no wire format {name!r}; known are {', '.join(self.names())}.")
        try:
            declared: WireFormat = self._kind.load(part).FORMAT
        except Exception as error:
            log.exception("a wire format could not be loaded")
            raise ConfigError(
                f"The wire format in {part.path or part.module} cannot be loaded "
                f"({type(error).__name__}: {error}); correct the file."
            ) from None
        if declared.name != name:
            raise ConfigError(
                f"The wire format in {part.path or part.module} calls itself {declared.name!r}; "
                "name its file so."
            )
        return declared


FORMATS = FormatRegistry()
"""The registry used by this program."""
