"""The channels of Harmony, the format of gpt-oss, where a server passes them on as text.

<|channel|>analysis<|message|>…<|end|>
<|start|>assistant<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>
<|start|>assistant<|channel|>final<|message|>…<|return|>
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BEGINNINGS = ("<|channel|>", "<|start|>assistant")

_MESSAGE = re.compile(
    r"(?:<\|start\|>(?P<role>[^<]{0,200}))?<\|channel\|>(?P<channel>[^<]{0,200})"
    r"(?:<\|constrain\|>[^<]{0,50})?<\|message\|>(?P<body>.*?)(?:<\|(?:end|call|return)\|>|(?=<\|start\|>)|\Z)",
    re.DOTALL,
)
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([\w.:-]+)")


@dataclass(frozen=True, slots=True)
class HarmonyReply:
    """What one reply says on its channels; `calls` are names and the texts of their arguments."""

    reasoning: str
    text: str
    calls: tuple[tuple[str, str], ...]


def read_harmony(text: str) -> HarmonyReply | None:
    """The reply that the whole of `text` is, or None if something in it is no message of Harmony."""
    reasoning: list[str] = []
    said: list[str] = []
    calls: list[tuple[str, str]] = []
    text = text.strip()
    at = 0
    while at < len(text):
        message = _MESSAGE.match(text, at)
        if message is None:
            return None
        at = message.end()
        while at < len(text) and text[at].isspace():
            at += 1
        recipient = _RECIPIENT.search(f"{message['role'] or ''} {message['channel']}")
        if recipient:
            calls.append((recipient[1], message["body"].strip() or "{}"))
        elif message["channel"].strip().startswith("analysis"):
            reasoning.append(message["body"])
        else:
            said.append(message["body"])
    return HarmonyReply("\n".join(reasoning), "\n\n".join(said), tuple(calls)) if at else None
