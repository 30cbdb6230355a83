"""Hostile frames over a socket that was let in, and the statuses they are refused with.

`R` is the request that waits in the session, `PAST` one that was decided.
"""

from __future__ import annotations

import struct
from typing import Any

SEMANTIC: dict[str, tuple[str, Any, int]] = {
    # The device's scope, the frame (a text is sent as it stands), the status
    "look approves": ("look", {"type": "answer", "request": "R", "answer": "once"}, 403),
    "look denies": ("look", {"type": "answer", "request": "R", "answer": "deny"}, 403),
    "look talks": ("look", {"type": "message", "text": "greet"}, 403),
    "look queues": ("look", {"type": "message", "text": "greet", "how": "queue"}, 403),
    "look steers": ("look", {"type": "message", "text": "greet", "how": "steer"}, 403),
    "look stops": ("look", {"type": "interrupt"}, 403),
    "look moves": ("look", {"type": "move", "to": "telegram"}, 403),
    "look says nothing": ("look", {}, 403),
    "talk approves": ("talk", {"type": "answer", "request": "R", "answer": "once"}, 403),
    "talk approves for good": ("talk", {"type": "answer", "request": "R", "answer": "always"}, 403),
    "talk denies": ("talk", {"type": "answer", "request": "R", "answer": "deny"}, 403),
    "talk names a scope": (
        "talk",
        {"type": "answer", "request": "R", "answer": "once", "scope": "approve"},
        400,
    ),
    "talk names a person": ("talk", {"type": "answer", "request": "R", "answer": "once", "by": "owner"}, 400),
    "an answer of one's own": ("approve", {"type": "answer", "request": "R", "answer": "yes"}, 400),
    "an answer in capitals": ("approve", {"type": "answer", "request": "R", "answer": "ONCE"}, 400),
    "an answer that is true": ("approve", {"type": "answer", "request": "R", "answer": True}, 400),
    "an answer that is a list": ("approve", {"type": "answer", "request": "R", "answer": ["once"]}, 400),
    "an answer of nothing": ("approve", {"type": "answer", "request": "R", "answer": None}, 400),
    "no answer": ("approve", {"type": "answer", "request": "R"}, 400),
    "no request": ("approve", {"type": "answer", "answer": "once"}, 400),
    "a request that is a list": ("approve", {"type": "answer", "request": ["R"], "answer": "once"}, 400),
    "a request that is not there": (
        "approve",
        {"type": "answer", "request": "approval-0", "answer": "once"},
        404,
    ),
    "a request that is a path": (
        "approve",
        {"type": "answer", "request": "../R", "answer": "once"},
        404,
    ),
    "a request with a long name": (
        "approve",
        {"type": "answer", "request": "R" * 300, "answer": "once"},
        413,
    ),
    "an answer once more": ("approve", {"type": "answer", "request": "PAST", "answer": "once"}, 409),
    "feedback that is a list": (
        "approve",
        {"type": "answer", "request": "R", "answer": "deny", "feedback": ["x"]},
        400,
    ),
    "feedback without an end": (
        "approve",
        {"type": "answer", "request": "R", "answer": "deny", "feedback": "x" * 10_001},
        413,
    ),
    "a message of nothing": ("talk", {"type": "message", "text": " "}, 400),
    "a message that is a list": ("talk", {"type": "message", "text": ["greet"]}, 400),
    "a message in another way": ("talk", {"type": "message", "text": "x", "how": "approve"}, 400),
    "a message to another session": ("talk", {"type": "message", "text": "x", "session": "other"}, 400),
    "a message with a token": ("talk", {"type": "message", "text": "x", "token": "hmt_0_x"}, 400),
    "a message with attachments of a path": (
        "talk",
        {"type": "message", "text": "x", "attachments": ["/etc/passwd"]},
        400,
    ),
    "an image from a path": (
        "talk",
        {"type": "message", "text": "x", "images": [{"name": "../../a.png", "path": "/etc/passwd"}]},
        400,
    ),
    "an image that is none": (
        "talk",
        {"type": "message", "text": "x", "images": [{"name": "a.png", "data": "aGk="}]},
        400,
    ),
    "a message that is too long": ("talk", {"type": "message", "text": "a" * 400_001}, 413),
    "a move with more": ("talk", {"type": "move", "to": "telegram", "scope": "approve"}, 400),
    "a move to nowhere": ("talk", {"type": "move"}, 400),
    "a frame of the terminal": ("approve", {"cast": "answer", "arguments": []}, 400),
    "a frame that opens": ("approve", {"open": {}, "environ": None, "preview": False}, 400),
    "a type that is a list": ("approve", {"type": ["message"]}, 400),
    "a type of ours": ("approve", {"type": "request_resolved", "id": "R", "outcome": "once"}, 400),
    "a list": ("approve", "[1]", 400),
    "a text": ("approve", '"message"', 400),
    "no JSON": ("approve", "type=interrupt", 400),
    "deep JSON": ("approve", "[" * 100_000, 400),
    "a number of many digits": ("approve", '{"type":' + "9" * 5_000 + "}", 400),
    "nothing": ("approve", "", 400),
}


def frame(code: int, data: bytes, *, masked: bool = True, final: bool = True, reserved: int = 0) -> bytes:
    """A frame as it goes over the wire."""
    head = bytes([(0x80 if final else 0) | reserved | code])
    mark = 0x80 if masked else 0
    if len(data) < 126:
        head += bytes([mark | len(data)])
    elif len(data) < 65_536:
        head += bytes([mark | 126]) + struct.pack(">H", len(data))
    else:
        head += bytes([mark | 127]) + struct.pack(">Q", len(data))
    key = b"\1\2\3\4"
    return head + (key + bytes(each ^ key[at % 4] for at, each in enumerate(data)) if masked else data)


TEXT, BINARY, CLOSE, PING, MORE = 1, 2, 8, 9, 0
STOP = b'{"type":"interrupt"}'
BROKEN: dict[str, bytes] = {
    # What no client sends: the socket is closed, and nothing of it is done
    "a frame without a mask": frame(TEXT, STOP, masked=False),
    "a frame of bytes": frame(BINARY, STOP),
    "a packed frame": frame(TEXT, STOP, reserved=0x40),
    "a frame with unknown marks": frame(TEXT, STOP, reserved=0x30),
    "a frame of an unknown kind": frame(3, STOP),
    "a control frame of an unknown kind": frame(11, b""),
    "more of what never began": frame(MORE, STOP),
    "a frame within a frame": frame(TEXT, STOP[:5], final=False) + frame(TEXT, STOP),
    "a ping in pieces": frame(PING, b"x", final=False),
    "a ping that is too long": frame(PING, b"x" * 126),
    "a text that is none": frame(TEXT, b'{"type":"\xff\xfe"}'),
    "a close with half a code": frame(CLOSE, b"\3"),
    "a close with a code of nobody": frame(CLOSE, struct.pack(">H", 999)),
    "a frame that is too large": frame(TEXT, b'{"type":"' + b"a" * 1_000_001 + b'"}'),
    "a frame said to be huge": bytes([0x81, 0xFF]) + struct.pack(">Q", 1 << 62) + b"\1\2\3\4",
    "a frame of a length below nothing": bytes([0x81, 0xFF]) + b"\xff" * 8 + b"\1\2\3\4",
    "many pieces that are too large together": frame(TEXT, b'{"a":"', final=False)
    + frame(MORE, b"a" * 400_000, final=False) * 3,
}
