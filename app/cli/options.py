"""Session options from the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.session.options import Options
from app.cli.safety.folder import demo_workspace, workspace

if TYPE_CHECKING:
    import argparse

    from app.tui.startup.fast_args import FastOptions


def options_of(
    args: FastOptions | argparse.Namespace,
    *,
    attended: bool,
    surface: str,
    model: str | None = None,
) -> Options:
    """Return the session options for `args`. The tour gets a separate folder, where its script may act
    without approval if no user is present.
    """
    tour = args.demo and args.cwd is None
    options = Options(
        workspace=demo_workspace() if tour else workspace(args.cwd),
        model=model or ("demo" if args.demo else args.model),
        resume=args.resume or None,
        resume_last=args.resume_last,
        here=args.here,
        approve=args.approve or ("all" if tour and not attended else None),
        effort=args.effort,
        max_steps=args.max_turns,
        settings={"tools": {"enabled": args.tools}} if args.tools else {},
        surface=surface,
        attended=attended,
    )
    return with_tour(options) if tour and attended else options


def with_tour(options: Options) -> Options:
    """Return the options of a session with the tour: in a separate folder, with approvals and forecasts."""
    return replace(
        options,
        workspace=demo_workspace(),
        model=options.model or "demo",
        approve=options.approve or "normal",
        settings={**options.settings, "subagents": {"forecast_tokens": 0}},
    )
