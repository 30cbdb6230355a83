"""The check of the tools for images, speech, listening and messages."""

from __future__ import annotations

from agent.errors import ConfigError
from app.cli.health.check import HealthFinding, HealthSubject


def senses(subject: HealthSubject) -> HealthFinding:
    """Report each tool, and the fix for a missing one; warn only about tools the settings enable."""
    from agent.core.config.loader import load
    from agent.integrations.senses.service import readiness
    from agent.model.providers import resolve
    from agent.session.wiring.outside_services import service_names

    loaded = load(subject.home, subject.environ, subject.workspace)
    sees = False
    try:
        target = resolve(loaded.settings, loaded.environ, None)[0]
        sees = target.info.images is not False and target.tool_mode == "native"
    except ConfigError:
        pass  # the check of the model says so
    brought = service_names(subject.home, subject.workspace, loaded)
    found = readiness(loaded.settings, loaded.environ, sees=sees, brought=brought)
    # A plugin's service is named; of the others only where they are missing is news.
    works = ", ".join(
        f"{each.tool} ({each.by})" if each.tool in brought else each.tool for each in found if each.works
    )
    lacking = [each for each in found if not each.works]
    detail = "; ".join(
        filter(None, [works, "not offered: " + ", ".join(each.tool for each in lacking) if lacking else ""])
    )
    # What was not asked for gets its first way only; docs/senses.md has the others.
    mend = "\n".join(
        f"{each.tool}: {each.missing}; {each.mend}"
        if each.is_chosen
        else f"{each.tool}: {each.mend.split(', or ')[0].split(' (or ')[0]}"
        for each in lacking
    )
    wanted = any(each.is_chosen for each in lacking)
    return HealthFinding("senses", "warn" if wanted else "ok", detail, mend)
