"""Calls to the agent: one connection per thread, one call at a time on each."""

from __future__ import annotations

import math
import os
from _thread import get_ident

from .frames import read_into, write_all

GONE = "The agent process disconnected: tools cannot be called any more."

_PIECE = 65_536
_ESCAPES = [(chr(code), f"\\u{code:04x}") for code in range(32)]


class Line:
    """One connection to the agent. `is_busy` stays set if an exception interrupted a call."""

    def __init__(self, descriptor, owner=None):
        self.descriptor = descriptor
        self.is_busy = False
        self._owner = owner
        self._rest = bytearray()
        self._large = bytearray()
        self._number = 0

    def ask(self, token, tool, arguments):
        """Send one call and return its parsed result. Raises RuntimeError if the agent is gone."""
        self._number += 1
        # Written out: half the time of building a dict to encode, and the token needs no quoting.
        head = f'{{"id": {self._number}, "token": "{token}", "tool": {encode(tool)}, "args": '
        data = (head + encode(arguments) + "}\n").encode("utf-8", "surrogatepass")
        self.is_busy = True
        try:
            write_all(self.descriptor, data)
            reply = self._read_reply()
        except ConnectionError as error:
            # No wider: a signal handler of the script may raise a TimeoutError, an OSError too, right here.
            raise RuntimeError(GONE) from error
        self.is_busy = False
        return reply

    def tell(self, message):
        """Send a message that has no answer."""
        write_all(self.descriptor, (encode(message) + "\n").encode("utf-8", "surrogatepass"))

    def _read_reply(self):
        # Imported while the agent works on the first call, not before it is sent.
        json = _import_json()
        at = 0
        while (end := self._rest.find(b"\n", at)) < 0:
            at = len(self._rest)
            piece = os.read(self.descriptor, _PIECE)
            if not piece:
                raise RuntimeError(GONE)
            self._rest += piece
        head = json.loads(str(self._rest[:end], "utf-8"))
        del self._rest[: end + 1]
        if "size" not in head:
            return head["result"]
        return json.loads(self._read_payload(head["size"]))

    def _read_payload(self, size):
        # Kept for the next one: fresh memory costs as much as what is read into it.
        if len(self._large) < size:
            self._large = bytearray(size)
        view = memoryview(self._large)[:size]
        have = min(len(self._rest), size)
        view[:have] = self._rest[:have]
        del self._rest[:have]
        if not read_into(self.descriptor, view[have:]):
            raise RuntimeError(GONE)
        return str(view, "utf-8")


class Lines:
    """The connections of this process, by thread. The first thread uses the inherited one."""

    def __init__(self, token, path, first):
        self._token = token
        self._path = path
        self._by_thread = {} if first is None else {get_ident(): Line(first)}
        os.register_at_fork(after_in_child=self._by_thread.clear)

    def call(self, tool, arguments):
        """Run a tool of the agent and return its result."""
        thread = get_ident()
        line = self._by_thread.get(thread)
        if line is None or line.is_busy:
            line = self._by_thread[thread] = self._connect()
        return line.ask(self._token, tool, arguments)

    def _connect(self):
        import socket

        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(self._path)
        except OSError as error:
            raise RuntimeError(GONE) from error
        return Line(connection.fileno(), connection)


def _import_json():
    """Import `json` with signals held back.

    A signal handler of the script may raise a TimeoutError. That is an OSError, which imports swallow.
    """
    import sys

    if "json" not in sys.modules:
        # Built into the interpreter; the module `signal` would have to be imported itself.
        import _signal  # pyright: ignore[reportMissingImports]

        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            import json
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    import json

    return json


def encode(value):
    """Return `value` as JSON on one line; unsupported types become text, as in the agent's results.

    The module `json` would triple the time to the first call of a fresh interpreter.
    """
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        # str() once more: a subclass may have ideas of its own.
        return _quote(str(value))
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if math.isfinite(value) else "null"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quote(str(key))}: {encode(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "[" + ", ".join(map(encode, value)) + "]"
    if isinstance(value, (bytes, bytearray)):
        return _quote(value.decode("utf-8", "replace"))
    return _quote(str(value))


def _quote(text):
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    if not text.isprintable():
        for control, escape in _ESCAPES:
            if control in text:
                text = text.replace(control, escape)
    return f'"{text}"'
