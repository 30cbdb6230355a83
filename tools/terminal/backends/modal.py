"""Commands in a sandbox of Modal, over its Python package, which is read only when it is needed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tools.extras import add_hint
from tools.results import ToolError
from tools.terminal.backends.clients import last_words
from tools.terminal.backends.options import ModalOptions


def package(name: str) -> Any:
    """The package of a provider. Raises `ToolError` when it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ToolError(
            f"The package {name} is not installed; run `{add_hint(name)}` or set terminal.backend to local."
        ) from error


class ModalConnector:
    """One sandbox of the configured app. The package finds the account by itself."""

    def __init__(self, options: ModalOptions) -> None:
        self._options = options
        self._sandbox: Any = None

    @property
    def place(self) -> str:
        return f"the Modal sandbox of {self._options.image}"

    def anchor(self, command: Sequence[str]) -> ModalChannel:
        modal = package("modal")
        options = self._options
        limits: dict[str, Any] = {}
        if options.cpus:
            limits["cpu"] = options.cpus
        if options.memory:
            limits["memory"] = options.memory
        try:
            self.release()
            app = modal.App.lookup(options.app, create_if_missing=True)
            self._sandbox = modal.Sandbox.create(
                app=app,
                image=modal.Image.from_registry(options.image),
                timeout=options.lifetime,
                block_network=not options.network,
                **limits,
            )
        except Exception as error:
            raise ToolError(self.explain(f"{type(error).__name__}: {error}")) from error
        return self.call(command, pty=False)

    def call(self, command: Sequence[str], *, pty: bool) -> ModalChannel:
        try:
            return ModalChannel(self._sandbox.exec(*command, text=False, pty=pty))
        except Exception as error:
            raise ToolError(self.explain(f"{type(error).__name__}: {error}")) from error

    def explain(self, words: str) -> str:
        if "AuthError" in words or "Token missing" in words:
            return "Modal does not know you; run `modal token new` once."
        return f"Modal could not start a sandbox of {self._options.image}{last_words(words)}."

    def release(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            try:
                sandbox.terminate()
            except Exception:
                # It ends by itself when its lifetime is over.
                pass


class ModalChannel:
    """The channel of one process in a sandbox."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._pieces: queue.Queue[bytes] = queue.Queue(maxsize=64)
        self._is_stopped = False
        self._is_over = False
        threading.Thread(target=self._pump, name="modal-output", daemon=True).start()

    def read(self, timeout: float | None = None) -> bytes | None:
        if self._is_over or self._is_stopped:
            return b""
        try:
            piece = self._pieces.get(timeout=timeout)
        except queue.Empty:
            return None
        self._is_over = not piece
        return piece

    def write(self, data: bytes) -> None:
        self._input(lambda stdin: stdin.write(data))

    def close_input(self) -> None:
        self._input(lambda stdin: stdin.write_eof())

    def stop(self) -> None:
        self._is_stopped = True
        try:
            self._pieces.put_nowait(b"")
        except queue.Full:
            # The reader has enough to see that it is over.
            pass

    def finish(self) -> int:
        self._is_stopped = True
        code = self._process.poll()
        return 0 if code is None else int(code)

    def _input(self, act: Any) -> None:
        try:
            with self._lock:
                act(self._process.stdin)
                self._process.stdin.drain()
        except Exception as error:
            raise ToolError("The process has closed its input.") from error

    def _pump(self) -> None:
        try:
            for piece in self._process.stdout:
                while not self._is_stopped and piece:
                    try:
                        self._pieces.put(bytes(piece), timeout=1)
                        break
                    except queue.Full:
                        continue
                if self._is_stopped:
                    return
        except Exception:
            # A broken connection ends the output; the reader sees that no end was told.
            pass
        self._pieces.put(b"")
