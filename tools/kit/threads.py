"""Blocking work in threads, and waiting for work to end despite cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


class Stopped(Exception):  # noqa: N818 - a signal like StopIteration, not a failure
    """Raised by work that was asked to stop."""


async def in_thread(work: Callable[[threading.Event], R]) -> R:
    """Run `work(stop)` in a thread. If the caller is cancelled, `stop` is set so that it ends soon."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    except asyncio.CancelledError:
        stop.set()
        raise


def on_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
    """Run `work` on a new daemon thread; return a future of its result. Cancelling does not stop the work.

    The future is not a task, because a closing loop would cancel a task while `to_the_end` waits for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def settle(outcome: R | None, failure: BaseException | None) -> None:
        if done.done():
            return
        if failure is not None:
            done.set_exception(failure)
        else:
            done.set_result(cast(R, outcome))

    def run() -> None:
        outcome, failure = None, None
        try:
            outcome = work(*args, **kwargs)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, outcome, failure)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            pass

    threading.Thread(target=run, name=getattr(work, "__name__", "work"), daemon=True).start()
    return done


async def to_the_end(work: asyncio.Future[R]) -> R:
    """Wait for `work` to end even if the caller is cancelled; raise the cancellation afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            if work.cancelled():
                raise
            cancelled = error
        except Exception:
            break
    if cancelled is not None:
        raise cancelled
    return work.result()


async def close_all(closers: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Call all functions one after another, even if one fails or is cancelled.

    Raises the cancellation, or else the first error, at the end.
    """
    errors: list[BaseException] = []
    for close in closers:
        try:
            await close()
        except asyncio.CancelledError as error:
            errors.insert(0, error)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
