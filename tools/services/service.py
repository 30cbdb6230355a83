"""Services that tools ask for by their type, and the one table in which an agent's stand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from tools.results import ToolError


class Caller(Protocol):
    """Who asks; `tools.context` says what each of these is."""

    @property
    def task(self) -> str: ...

    @property
    def workspace(self) -> Path: ...

    @property
    def scratch(self) -> Path: ...

    @property
    def options(self) -> Mapping[str, Any]: ...


class Service:
    """What a tool asks for by its type, as in `context.service(JobKeeper)`.

    The engine puts what it implements into the table. A service that needs no more than a place to work
    opens itself: it overrides `open`, and the module it stands in is all there is to add beside its tool.
    """

    absent: ClassVar[str] = "This is not available in this session."
    """What the model reads where a session does not have it."""

    @classmethod
    def open(cls, caller: Caller) -> Self:
        """The service of one agent, when its first call asks. Raises `ToolError` where there is none."""
        raise ToolError(cls.absent)

    async def aclose(self) -> None:
        """End with the session; called for a service that has opened itself."""


S = TypeVar("S", bound=Service)
C = TypeVar("C", bound=Caller)


class ServiceTable(Generic[C]):
    """The services of one agent by their type; `closers` takes what ends those that open themselves."""

    def __init__(self, closers: list[Callable[[], Awaitable[None]]]) -> None:
        self._makers: dict[type[Service], Callable[[C], Service]] = {}
        self._closers = closers

    def add(self, kind: type[S], service: S | None) -> None:
        """One for all calls; None: the session does not have it."""
        if service is not None:
            self._makers[kind] = lambda _: service

    def add_for_call(self, kind: type[S], make: Callable[[C], S] | None) -> None:
        """What makes the one of a call."""
        if make is not None:
            self._makers[kind] = make

    def get(self, kind: type[S], caller: C) -> S:
        """The service for a call. Raises `ToolError` where the session does not have it."""
        make = self._makers.get(kind)
        if make is None:
            opened = kind.open(caller)
            self.add(kind, opened)
            self._closers.append(opened.aclose)
            return opened
        return make(caller)  # pyright: ignore[reportReturnType] - `add` puts each under its own type
