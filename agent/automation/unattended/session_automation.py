"""Jobs and training for a session, passed in by the code that opens the session."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from agent.automation.schedule.book import JobBook, JobNeeds, SessionJobs
from agent.automation.training_runs.service import SessionTraining
from agent.automation.unattended.commands import UnattendedCommands
from agent.session.wiring.shared_services import Automation, SharedServices
from tools.services.job_keeper import JobKeeper
from tools.services.training_keeper import TrainingKeeper

TOOLSET = "rl"
_UNATTENDED = ("batch", "cron")
"""Kinds of sessions that may be rollouts themselves, or run without a user."""


def offer_training(base: SharedServices) -> TrainingKeeper | None:
    """Return the training service and enable its tools; None in unattended sessions and in the demo."""
    target = base.plan.targets[0]
    if target.kind == "demo" or base.options.surface in _UNATTENDED:
        return None
    for entry in base.tools.entries():
        if entry.toolset == TOOLSET:
            base.tools.replace_entry(replace(entry, check_fn=None))
    environ = {**base.environ, "HERMES_HOME": str(base.home.root)}
    return SessionTraining(
        base.home.training,
        base.options.workspace,
        target.label,
        environ,
        base.variables.get("TINKER_API_KEY", ""),
    )


def session_jobs(base: SharedServices, workspace: Path) -> JobKeeper:
    """Return the jobs of the home folder for an agent that works in `workspace`."""
    book = JobBook(base.store.database, base.home.schedule, needs=JobNeeds(base.home))
    later = UnattendedCommands(home=base.home, surface="cron", environ=os.environ)
    return SessionJobs(book, workspace, later)


AUTOMATION = Automation(session_jobs, offer_training)
