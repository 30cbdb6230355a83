"""Sandboxes of two services: Modal and Daytona."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tools.extras import add_hint
from tools.results import ToolError
from tools.terminal.backend import COLUMNS, ROWS
from tools.terminal.backends.channel import last_words
from tools.terminal.backends.options import DaytonaOptions, ModalOptions
from tools.terminal.backends.scripts import quoted


def package(name: str) -> Any:
    """Return the package of a provider. Raises `ToolError` if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ToolError(
            f"The package {name} is not installed; run `{add_hint(name)}` or set terminal.backend to local."
        ) from error


class ModalConnector:
    """A connector to one Modal sandbox of the configured app. The package finds the account itself."""

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
                # It ends automatically after its lifetime.
                pass


class ModalChannel:
    """The channel to one process in a Modal sandbox."""

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
            # A broken connection ends the output; the reader sees that no end was reported.
            pass
        self._pieces.put(b"")


_CONNECT = 30.0


class DaytonaConnector:
    """A connector to one Daytona sandbox. The package finds the account in the environment."""

    def __init__(self, options: DaytonaOptions) -> None:
        self._options = options
        self._daytona: Any = None
        self._sandbox: Any = None

    @property
    def place(self) -> str:
        return "the Daytona sandbox"

    def anchor(self, command: Sequence[str]) -> DaytonaChannel:
        daytona = package("daytona")
        options = self._options
        try:
            self.release()
            self._daytona = daytona.Daytona()
            if options.image:
                parameters = daytona.CreateSandboxFromImageParams(
                    image=options.image, auto_stop_interval=options.lifetime, ephemeral=True
                )
            else:
                parameters = daytona.CreateSandboxFromSnapshotParams(
                    auto_stop_interval=options.lifetime, ephemeral=True
                )
            self._sandbox = self._daytona.create(parameters)
        except Exception as error:
            raise ToolError(self.explain(f"{type(error).__name__}: {error}")) from error
        return self.call(command, pty=False)

    def call(self, command: Sequence[str], *, pty: bool) -> DaytonaChannel:
        try:
            size = package("daytona").PtySize(rows=ROWS, cols=COLUMNS)
            name = f"hermes-{secrets.token_hex(8)}"
            handle = self._sandbox.process.create_pty_session(id=name, pty_size=size)
            handle.wait_for_connection(timeout=_CONNECT)
            channel = DaytonaChannel(handle)
            # What answers is a shell at its prompt.
            channel.write(" ".join([" exec", *map(quoted, command)]).encode() + b"\n")
            return channel
        except ToolError:
            raise
        except Exception as error:
            raise ToolError(self.explain(f"{type(error).__name__}: {error}")) from error

    def explain(self, words: str) -> str:
        lowered = words.lower()
        if "api key" in lowered or "api_key" in lowered or "unauthorized" in lowered:
            return "Daytona does not know you; set DAYTONA_API_KEY."
        return f"Daytona could not start a sandbox{last_words(words)}."

    def release(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            try:
                self._daytona.delete(sandbox)
            except Exception:
                # It is ephemeral: the provider stops and deletes it automatically.
                pass


class DaytonaChannel:
    """The channel to one terminal in a Daytona sandbox."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._pieces: queue.Queue[bytes] = queue.Queue()
        self._is_over = False
        self._code = 0
        threading.Thread(target=self._pump, name="daytona-output", daemon=True).start()

    def read(self, timeout: float | None = None) -> bytes | None:
        if self._is_over:
            return b""
        try:
            piece = self._pieces.get(timeout=timeout)
        except queue.Empty:
            return None
        self._is_over = not piece
        return piece

    def write(self, data: bytes) -> None:
        try:
            self._handle.send_input(data)
        except Exception as error:
            raise ToolError("The process has closed its input.") from error

    def close_input(self) -> None:
        self.write(b"\x04")

    def stop(self) -> None:
        try:
            self._handle.kill()
        except Exception:
            # It has ended already.
            pass
        self._pieces.put(b"")

    def finish(self) -> int:
        try:
            self._handle.disconnect()
        except Exception:
            # The connection was gone.
            pass
        return self._code

    def _pump(self) -> None:
        try:
            result = self._handle.wait(
                on_data=lambda piece: self._pieces.put(bytes(piece)) if piece else None
            )
            self._code = int(getattr(result, "exit_code", 0) or 0)
        except Exception:
            # A broken connection ends the output; the reader sees that no end was reported.
            pass
        self._pieces.put(b"")
