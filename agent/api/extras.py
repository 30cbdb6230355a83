"""Extras that can be added to the program, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.integrations.extras import ExtrasChange as ExtrasChange
    from agent.integrations.extras import ExtraState as ExtraState
    from agent.integrations.extras import adding as adding
    from agent.integrations.extras import checked as checked
    from agent.integrations.extras import removing as removing
    from agent.integrations.extras import states as states

__getattr__ = exports(
    __name__, {"agent.integrations.extras": "ExtrasChange ExtraState adding checked removing states"}
)
