"""What terminals send for keys that Textual cannot tell from others."""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

# Its table has no public door. Without the entry alt+enter would be enter, and send what was to go on.
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS


class _Key(Enum):
    ALT_ENTER = "alt+enter"


def tell_apart() -> None:
    """Know alt+enter on terminals without the Kitty protocol: they send escape and return in one go.

    A person who presses one after the other takes longer than Textual waits for the rest of a
    sequence (`ESCDELAY`, 100 ms), and is heard as before.
    """
    cast(dict[str, Any], ANSI_SEQUENCES_KEYS)["\x1b\r"] = (_Key.ALT_ENTER,)
