"""Extras that can be added to the program, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.extras import ExtrasChange as ExtrasChange
    from agent.extras import ExtraState as ExtraState
    from agent.extras import adding as adding
    from agent.extras import checked as checked
    from agent.extras import removing as removing
    from agent.extras import states as states

__getattr__ = exports(__name__, {"agent.extras": "ExtrasChange ExtraState adding checked removing states"})
