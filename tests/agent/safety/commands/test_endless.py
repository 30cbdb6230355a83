"""Output without end: followed through filters into files, and let go where something stops it."""

from __future__ import annotations

import pytest

from tests.agent.safety.commands.corpus import judged


@pytest.mark.parametrize(
    "command",
    [
        "cat /dev/urandom > big",
        "yes | gzip | tee big",
        "tr a b < /dev/zero >> big",
        "timeout 60 base64 /dev/urandom > big",
        "yes | dd of=big",
        "cp /dev/zero big",
        "while :; do echo x >> big; done",
        "for ((;;)); do mkdir x; cd x; done",
    ],
)
def test_what_fills_the_disk_asks(command: str) -> None:
    assert judged(command).kind == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cat /dev/urandom | head -c 100 > x",
        "yes | head -3; cat a.txt > b.txt",
        "yes > /dev/null & kill $!",
        "dd if=/dev/zero of=image bs=1M count=10",
        "while true; do date >> log; sleep 60; done",
        "grep -n yes a.txt > found.txt",
    ],
)
def test_what_ends_by_itself_passes(command: str) -> None:
    assert judged(command).kind == "allow"
