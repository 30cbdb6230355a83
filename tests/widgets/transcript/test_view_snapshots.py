"""How the transcript looks in each of its states."""

from __future__ import annotations

import pytest

from tests.widgets.transcript.support import Host, call, converse
from tools.results import TextDetail

SIZES = [(80, 24), (120, 40)]


async def _empty(host: Host) -> None:
    """Nothing was said yet."""


async def _full(host: Host) -> None:
    converse(host)
    host.transcript.focus()
    host.transcript.action_move(-1)
    host.transcript.action_move(-1)


async def _failed(host: Host) -> None:
    host.transcript.add_user("Run the tests.")
    output = "\n".join(f"tests/test_money.py::test_{n} PASSED" for n in range(20)) + "\nE   assert 99 == 100"
    error = '{"error": "The command ended with code 1."}'
    detail = TextDetail(output)
    call(
        host.transcript,
        1,
        "terminal",
        "pytest -q",
        "exit 1",
        detail,
        outcome="failed",
        seconds=1.9,
        result=error,
    )
    denied = '{"error": "The gate denied this command.", "status": "blocked"}'
    call(host.transcript, 2, "terminal", "rm -rf build", "denied", None, outcome="denied", result=denied)
    host.transcript.add_text("The tests fail beca")
    host.transcript.mark_interrupted()
    host.transcript.add_notice("warning", "The sandbox is off: commands run with your rights.")


async def _streaming(host: Host) -> None:
    host.transcript.add_user("Write it.")
    host.transcript.add_reasoning("hm")
    host.transcript.flush()
    host.time.now += 2
    host.transcript.add_text("# Rounding\n\nA *short* plan:\n\n1. test\n2. fix\n\n```python\ndef round(amo")


async def _unread(host: Host) -> None:
    host.transcript.add_user("Explain.")
    host.transcript.finish_answer("\n\n".join(f"Paragraph {n} of it." for n in range(60)), "", 2)
    host.transcript.flush()
    host.transcript.navigator.scroll(-40)
    host.transcript.add_notice("compaction", "Older messages were summed up.")


MADE_ROOM = (
    "Made room: the conversation so far is folded into a summary and your own words (52,000 → 9,100 tokens)."
)
FOLDED = """[To make room, the conversation up to here was folded.]

# Summary, written by a model
## Goal
Round amounts by the currency of the order.
## Next
Run the tests of src/money.py.

# What the user wrote
<user id="4">
Never use float for [bold]money[/bold].
</user>"""


async def _folded(host: Host) -> None:
    """A compaction that was opened, and one below it that is closed."""
    host.transcript.add_user("Go on.")
    host.transcript.add_notice("compaction", MADE_ROOM, FOLDED)
    host.transcript.finish_answer("I go on with the tests.", "", 2)
    host.transcript.add_notice("compaction", MADE_ROOM, FOLDED)
    host.transcript.flush()
    host.transcript.focus()
    for _ in range(3):
        host.transcript.action_move(-1)
    host.transcript.action_open()


async def _search(host: Host) -> None:
    converse(host)
    await host.transcript.navigator.find("round")
    host.transcript.navigator.find_next()
    host.transcript.navigator.find_next()


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "120x40"])
@pytest.mark.parametrize("state", [_empty, _full, _folded])
def test_looks(snap_compare, state, size):
    assert snap_compare(Host(), terminal_size=size, run_before=shown(state))


@pytest.mark.sample(2)
@pytest.mark.parametrize("state", [_failed, _streaming, _unread, _search])
def test_looks_at_80x24(snap_compare, state):
    assert snap_compare(Host(), terminal_size=(80, 24), run_before=shown(state))


def shown(state):
    async def run_before(pilot):
        await pilot.pause()
        await state(pilot.app)
        pilot.app.transcript.flush()
        await pilot.pause()

    return run_before
