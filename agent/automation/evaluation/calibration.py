"""Calibration of a judge: measured once with labelled pairs, kept in the home by model and pairs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from agent.automation.checks.judge import Judge, open_judge
from agent.automation.evaluation.agreement import Calibration, CalibrationSet, agreement_of, bundled_pairs
from agent.core.config.loader import load
from agent.core.home import PRIVATE_FILE, Home, private_folder

log = logging.getLogger(__name__)

Told = Callable[[str, int, int], None]
"""Hears the name of the judge, how many pairs are done and of how many; at first before it is asked."""


async def calibrate(
    model: str,
    pairs: CalibrationSet | None,
    environ: Mapping[str, str],
    *,
    seed: int = 0,
    anew: bool = False,
    told: Told = lambda model, done, pairs: None,
) -> Calibration:
    """The calibration of a judge by name, or of the usual model, with `pairs` or those that ship.

    What is kept of an earlier one is taken, unless `anew`. Raises `HermesError` where the judge cannot
    be asked.
    """
    home = Home.locate(dict(environ))
    loaded = await asyncio.to_thread(load, home, environ)
    chosen = pairs or await asyncio.to_thread(bundled_pairs)
    async with open_judge(loaded, home, model) as judge:
        place = home.judges / f"{_key(judge, chosen)}.json"
        kept = None if anew else await asyncio.to_thread(_kept, place)
        if kept is not None:
            return kept
        heard = partial(told, judge.model)
        heard(0, len(chosen.pairs))
        agreement = await agreement_of(
            judge, chosen.pairs, seed=seed, told=lambda done: heard(done, len(chosen.pairs))
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = Calibration(judge.model, chosen.name, now, agreement)
    await asyncio.to_thread(_keep, place, made)
    return made


def _key(judge: Judge, pairs: CalibrationSet) -> str:
    return sha256(f"{judge.identity} {pairs.name} {pairs.digest}".encode()).hexdigest()[:32]


def _kept(place: Path) -> Calibration | None:
    """None where nothing that can be read is kept."""
    try:
        return Calibration.from_json(json.loads(place.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _keep(place: Path, made: Calibration) -> None:
    """Keep it for the next run, where that is possible."""
    new = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        private_folder(place.parent)
        new.write_text(json.dumps(made.to_json()), "utf-8")
        new.chmod(PRIVATE_FILE)
        new.replace(place)
    except OSError as error:
        log.warning("%s cannot be written: %s", place, error)
        with suppress(OSError):
            new.unlink(missing_ok=True)
