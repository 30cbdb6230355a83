"""Evaluation: suites, their results, comparisons, judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.automation.batch.run import BatchOptions as BatchOptions
    from agent.automation.batch.run import BatchProgress as BatchProgress
    from agent.automation.evaluation.agreement import Calibration as Calibration
    from agent.automation.evaluation.agreement import pairs_in as pairs_in
    from agent.automation.evaluation.calibration import calibrate as calibrate
    from agent.automation.evaluation.comparison import ResultComparison as ResultComparison
    from agent.automation.evaluation.comparison import compare as compare
    from agent.automation.evaluation.figures import SuiteResult as SuiteResult
    from agent.automation.evaluation.figures import read_result as read_result
    from agent.automation.evaluation.inspect_log import inspect_log as inspect_log
    from agent.automation.evaluation.run import require_folder as require_folder
    from agent.automation.evaluation.run import run_suite as run_suite
    from agent.automation.evaluation.suite import bundled as bundled
    from agent.automation.evaluation.suite import read_suite as read_suite
    from agent.automation.evaluation.wandb_run import write_run as write_run
    from agent.core.store.export import masked as masked
    from agent.core.store.store import Store as Store
    from agent.session.spending.budget import Budget as Budget

__getattr__ = exports(
    __name__,
    {
        "agent.automation.batch.run": "BatchOptions BatchProgress",
        "agent.automation.evaluation.agreement": "Calibration pairs_in",
        "agent.automation.evaluation.calibration": "calibrate",
        "agent.automation.evaluation.comparison": "ResultComparison compare",
        "agent.automation.evaluation.figures": "SuiteResult read_result",
        "agent.automation.evaluation.inspect_log": "inspect_log",
        "agent.automation.evaluation.wandb_run": "write_run",
        "agent.core.store.export": "masked",
        "agent.core.store.store": "Store",
        "agent.automation.evaluation.run": "require_folder run_suite",
        "agent.automation.evaluation.suite": "bundled read_suite",
        "agent.session.spending.budget": "Budget",
    },
)
