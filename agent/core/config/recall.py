"""Settings of the search over what was said and noted."""

from __future__ import annotations

from pydantic import Field

from agent.core.config.section import SettingsSection


class RecallSettings(SettingsSection):
    embeddings: str = Field(
        "auto",
        min_length=1,
        description="What tells the meaning of texts in searches: `auto` (the extra `semantic` where it is "
        "installed), `off`, or `PROVIDER/MODEL`, which is sent all that is said.",
    )
