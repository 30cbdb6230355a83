"""What is left of a parametrized test in the usual run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sample import spread

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]
SWEEP = """
import pytest

@pytest.mark.sample(3)
@pytest.mark.parametrize("number", range(10))
def test_sweep(number):
    pass

@pytest.mark.parametrize("number", range(4))
def test_whole(number):
    pass
"""


@pytest.mark.parametrize(
    ("words", "passed", "left_out"),
    [
        (["-m", "not thorough"], 7, 7),
        (["-m", "thorough"], 7, 7),
        (["test_sweep.py::test_sweep[8]", "-m", "not thorough"], 1, 0),
    ],
)
def test_a_sample_is_usual_and_the_rest_is_thorough(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, words: list[str], passed: int, left_out: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_sweep=SWEEP)
    pytester.makeini("[pytest]\nmarkers =\n    sample: x\n    thorough: x\n")
    result = pytester.runpytest_subprocess("-p", "tests.support.sample", *words)
    result.assert_outcomes(passed=passed, deselected=left_out)


@pytest.mark.parametrize(
    ("many", "wanted", "places"), [(10, 3, [0, 3, 6]), (2, 3, [0, 1]), (5, 1, [0]), (4, 4, [0, 1, 2, 3])]
)
def test_a_sample_is_spread_evenly_from_the_first(many: int, wanted: int, places: list[int]) -> None:
    assert list(spread(many, wanted)) == places
