"""Session options made from the command line."""

from __future__ import annotations

import argparse

from agent.session.options import Options
from app.cli.safety.folder import demo_workspace, workspace
from app.tui.startup import fast_args


def options_of(
    args: fast_args.FastOptions | argparse.Namespace,
    *,
    attended: bool,
    surface: str,
    model: str | None = None,
) -> Options:
    """Return the session options for `args`. The tour gets a separate folder where its script may act
    freely.
    """
    tour = args.demo and args.cwd is None
    return Options(
        workspace=demo_workspace() if tour else workspace(args.cwd),
        model=model or ("demo" if args.demo else args.model),
        resume=args.resume,
        resume_last=args.resume_last,
        here=args.here,
        approve=args.approve or ("all" if tour and not attended else None),
        effort=args.effort,
        max_steps=args.max_turns,
        surface=surface,
        attended=attended,
    )
