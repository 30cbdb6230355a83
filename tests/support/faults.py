"""Everything a provider may do to an answer, by name: `FAULTS["crlf"](say("Hello."))`."""

from __future__ import annotations

from tests.support.broken_answers import BROKEN
from tests.support.fault_kit import Fault
from tests.support.odd_answers import ODD

__all__ = ["FAULTS", "Fault"]

FAULTS: dict[str, Fault] = {**ODD, **BROKEN}
