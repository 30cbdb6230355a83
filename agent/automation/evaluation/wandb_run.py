"""A result as a run of Weights & Biases, written offline: nothing leaves this machine (extra `wandb`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from agent.automation.evaluation.figures import SuiteResult
from agent.errors import ConfigError
from tools.extras import missing

_RUN_COLUMNS = ("task", "run", "passed", "score", "calls", "tokens", "cost", "seconds", "outcome")
_CONFIGURATION = ("suite", "model", "seed", "version", "skills", "memory")


def write_run(result: SuiteResult, folder: Path) -> Path:
    """Write the run into `folder`, for `wandb sync`; where it lies. Blocks. Raises `ConfigError`."""
    try:
        wandb = import_module("wandb")
    except ImportError:
        raise ConfigError(missing("--format wandb", "wandb")) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}; choose another with -o.") from error
    summary = result.summary()
    low, high = summary.pop("interval")
    at = {f"pass@{k}": value for k, value in summary.pop("pass_at").items()}
    settings = wandb.Settings(mode="offline", silent=True, disable_git=True, disable_code=True)
    run = wandb.init(
        project="hermes",
        name=result.suite,
        dir=str(folder),
        settings=settings,
        config={
            **{name: getattr(result, name) for name in _CONFIGURATION},
            "judge": None if result.judge is None else result.judge.to_json(),
        },
    )
    try:
        table = wandb.Table(columns=list(_RUN_COLUMNS))
        for each in result.runs_of_tasks:
            table.add_data(*(getattr(each, name) for name in _RUN_COLUMNS))
        figures = {**summary, **at, "passed_low": low, "passed_high": high}
        run.log({**{name: value for name, value in figures.items() if value is not None}, "runs": table})
        place = Path(str(run.dir)).parent
    finally:
        run.finish()
    return place
