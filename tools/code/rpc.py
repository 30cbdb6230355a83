"""The wire between a script and the agent.

Requests are lines of JSON: `{"id", "token", "tool", "args"}`. A small result
comes back as `{"id", "result"}`, a large one as `{"id", "size"}` followed by
that many raw bytes of JSON, which nobody has to search for a line end.
"""

from __future__ import annotations

import hmac
import json
import marshal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tools.text.json_text import to_json

LINE_LIMIT = 16_000_000
"""Bytes of the longest request; a file to write travels in one."""

SMALL = 64_000
"""Characters up to which a result travels inside its line."""

_PIECE = 131_072


class BadRequestError(Exception):
    """A request that is none. The message is for whoever sent it."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """A call of a tool, or (`event`) a note about the script. The token was checked."""

    number: int
    tool: str
    arguments: dict[str, Any]
    event: str = ""
    code: int = 0


_decode = json.JSONDecoder().decode


def parse_request(line: bytes | bytearray, token: str) -> RpcRequest:
    """Read a request. Raises `BadRequestError` for anything that is not one or lacks the token."""
    try:
        data = _decode(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise BadRequestError("The request is no JSON.") from None
    if not isinstance(data, dict):
        raise BadRequestError("The request is no JSON object.")
    number = data.get("id")
    number = number if isinstance(number, int) and not isinstance(number, bool) else None
    given = data.get("token")
    if not isinstance(given, str) or not hmac.compare_digest(
        given.encode("utf-8", "replace"), token.encode()
    ):
        raise BadRequestError("The token of the request is not that of this script.", number)
    if isinstance(data.get("event"), str):
        code = data.get("code")
        return RpcRequest(0, "", {}, data["event"], code if isinstance(code, int) else 1)
    tool, arguments = data.get("tool"), data.get("args", {})
    if number is None or not isinstance(tool, str) or not isinstance(arguments, dict):
        raise BadRequestError("A request needs a number `id`, a text `tool` and an object `args`.", number)
    if b"\\u" in line:
        # Escapes are the one way for half a surrogate pair to come in.
        tool, arguments = _whole(tool), _whole(arguments)
    return RpcRequest(number, tool, arguments)


def reply(number: int | None, result: str) -> bytes | None:
    """What to send for a small result, which is JSON text; None when it has to travel in pieces."""
    if len(result) > SMALL or "\n" in result:
        return None
    return f'{{"id": {"null" if number is None else number}, "result": {result}}}\n'.encode(
        "utf-8", "replace"
    )


def pieces(number: int, result: str) -> Iterator[bytes]:
    """What to send for any result, piece by piece: several copies of a small piece beat one of the whole."""
    if not result.isascii():
        result_bytes = result.encode("utf-8", "replace")
        yield b'{"id": %d, "size": %d}\n' % (number, len(result_bytes))
        yield result_bytes
        return
    yield b'{"id": %d, "size": %d}\n' % (number, len(result))
    for start in range(0, len(result), _PIECE):
        yield result[start : start + _PIECE].encode()


def error_text(message: str) -> str:
    """A failure as the JSON text of a result."""
    return to_json({"error": message})


def frame(data: Mapping[str, Any]) -> bytes:
    """Plain data for the child, in the oldest form that every interpreter reads."""
    body = marshal.dumps(dict(data), 2)
    return len(body).to_bytes(4, "big") + body


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value
