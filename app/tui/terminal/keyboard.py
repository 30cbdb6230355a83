"""Key sequences that Textual cannot tell from others, or takes for others."""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

# Its table has no public door. Without these entries alt+enter would be enter, and send what was to go on;
# alt and a digit would write what one terminal of macOS writes for it: `™` for alt+2.
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS

_SENT = {
    "\x1b\r": "alt+enter",
    "\x1b-": "alt+minus",
    "\x1b=": "alt+equals_sign",
    **{f"\x1b{digit}": f"alt+{digit}" for digit in "0123456789"},
}
_Key = cast(Any, Enum("_Key", [(name, name) for name in _SENT.values()]))


def tell_apart() -> None:
    """Know alt+enter, and alt with a digit, on terminals without the Kitty protocol.

    They send escape and the key in one go. A person who presses one after the other takes longer than
    Textual waits for the rest of a sequence (`ESCDELAY`, 100 ms), and is heard as before.
    """
    for sequence, name in _SENT.items():
        cast(dict[str, Any], ANSI_SEQUENCES_KEYS)[sequence] = (_Key[name],)
