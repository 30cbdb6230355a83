"""Evaluation: suites, their results, comparisons, judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.batch.run import BatchOptions as BatchOptions
    from agent.batch.run import BatchProgress as BatchProgress
    from agent.evaluation.agreement import Calibration as Calibration
    from agent.evaluation.agreement import pairs_in as pairs_in
    from agent.evaluation.calibration import calibrate as calibrate
    from agent.evaluation.comparison import ResultComparison as ResultComparison
    from agent.evaluation.comparison import compare as compare
    from agent.evaluation.figures import SuiteResult as SuiteResult
    from agent.evaluation.figures import read_result as read_result
    from agent.evaluation.inspect_log import inspect_log as inspect_log
    from agent.evaluation.run import require_folder as require_folder
    from agent.evaluation.run import run_suite as run_suite
    from agent.evaluation.suite import bundled as bundled
    from agent.evaluation.suite import read_suite as read_suite
    from agent.evaluation.wandb_run import write_run as write_run
    from agent.spending.budget import Budget as Budget
    from agent.store.export import masked as masked
    from agent.store.store import Store as Store

__getattr__ = exports(
    __name__,
    {
        "agent.batch.run": "BatchOptions BatchProgress",
        "agent.evaluation.agreement": "Calibration pairs_in",
        "agent.evaluation.calibration": "calibrate",
        "agent.evaluation.comparison": "ResultComparison compare",
        "agent.evaluation.figures": "SuiteResult read_result",
        "agent.evaluation.inspect_log": "inspect_log",
        "agent.evaluation.wandb_run": "write_run",
        "agent.store.export": "masked",
        "agent.store.store": "Store",
        "agent.evaluation.run": "require_folder run_suite",
        "agent.evaluation.suite": "bundled read_suite",
        "agent.spending.budget": "Budget",
    },
)
