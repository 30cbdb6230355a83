"""Figures about runs hold against what is known of them, and planted differences are found."""

from __future__ import annotations

import random
from dataclasses import replace
from math import comb, isclose

import pytest

from agent.automation.evaluation.figures import (
    RunFigures,
    SuiteResult,
    bootstrap,
    compare,
    kappa,
    paired_p,
    pass_at,
    wilson,
)
from agent.automation.evaluation.report import page
from agent.errors import ConfigError


@pytest.mark.parametrize("runs", [1, 5, 10])
def test_the_chance_that_one_of_k_passes_is_that_of_drawing(runs: int):
    for passed in range(runs + 1):
        for k in range(1, runs + 1):
            assert isclose(pass_at(k, runs, passed), 1 - comb(runs - passed, k) / comb(runs, k))


def test_an_interval_of_a_share_is_that_of_the_books():
    low, high = wilson(8, 10)
    assert isclose(low, 0.4902, abs_tol=1e-3) and isclose(high, 0.9433, abs_tol=1e-3)
    assert wilson(0, 0) == (0.0, 1.0) and wilson(0, 5)[0] == 0.0


def test_agreement_beyond_chance_is_none_for_a_rater_that_always_says_the_same():
    assert kappa([("a", "a"), ("b", "a"), ("a", "a"), ("b", "a")]) == 0.0
    assert kappa([("a", "a"), ("b", "b")]) == 1.0 and kappa([("a", "a")] * 9) == 0.0
    assert isclose(kappa([("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15), 0.4)


def test_a_paired_test_is_that_of_signs_for_one_run_and_deals_runs_for_more():
    assert paired_p([(1, 1), (0, 0)] * 9, 1, 1) == 1.0 and isclose(paired_p([(0, 1)] * 6, 1, 1), 2 / 64)
    assert isclose(paired_p([(0, 1)] * 8 + [(1, 0)] * 2 + [(1, 1)] * 50, 1, 1), 112 / 1024)
    # One task, three runs each, all pass here and none there: 2 of the 20 ways to deal six runs.
    assert isclose(paired_p([(0, 3)], 3, 3), 2 / 20) and isclose(paired_p([(0, 2)], 1, 2), 1 / 3)


@pytest.mark.thorough
def test_a_paired_test_agrees_with_dealing_the_runs_again_and_again():
    chance, tasks = random.Random(5), [(3, 1), (2, 0), (3, 3), (0, 2), (2, 1), (3, 0), (0, 0)]
    seen = abs(sum(mine - others for mine, others in tasks))

    def dealt() -> int:
        hands = (chance.sample([True] * (a + b) + [False] * (6 - a - b), 6) for a, b in tasks)
        return abs(sum(sum(hand[:3]) - sum(hand[3:]) for hand in hands))

    share = sum(dealt() >= seen for _ in range(20_000)) / 20_000
    assert isclose(paired_p(tasks, 3, 3), share, abs_tol=0.015)


def result(passed: list[list[bool]], seed: int = 0) -> SuiteResult:
    runs = [
        RunFigures(f"t{task:03}", run + 1, each, float(each), 2, 100, 0.01, 1.0, "done")
        for task, row in enumerate(passed)
        for run, each in enumerate(row)
    ]
    return SuiteResult("s", len(passed[0]), seed, "m", "1", tuple(runs))


def drawn(rates: list[float], seed: int, runs: int = 3) -> SuiteResult:
    chance = random.Random(seed)
    return result([[chance.random() < rate for _ in range(runs)] for rate in rates], seed)


@pytest.mark.thorough
def test_twenty_planted_regressions_among_two_hundred_tasks_are_found():
    rates = [0.95] * 120 + [0.6] * 80
    worse = [0.05 if 10 <= task < 30 else rate for task, rate in enumerate(rates)]
    found = [compare(drawn(rates, seed), drawn(worse, seed + 500)) for seed in range(20)]
    assert sum(each.better == "A" and each.significant for each in found) >= 18
    named = [sum(f"t{task:03}" in each.worse for task in range(10, 30)) for each in found]
    assert min(named) >= 17 and sum(named) / len(named) >= 19.5


@pytest.mark.thorough
def test_between_equal_runs_chance_makes_at_most_one_difference_of_twenty():
    rates = [0.95] * 120 + [0.6] * 80
    told = [compare(drawn(rates, seed), drawn(rates, seed + 1_000)).significant for seed in range(20)]
    assert sum(told) <= 1


def test_results_without_a_common_task_are_not_compared():
    other = result([[True]])
    moved = replace(other, runs_of_tasks=(replace(other.runs_of_tasks[0], task="else"),))
    with pytest.raises(ConfigError, match="no task in common"):
        compare(other, moved)


def test_an_interval_of_a_mean_holds_the_mean():
    low, high = bootstrap([0.0, 1.0, 1.0, 0.5, 0.25] * 8, 3)
    assert low < 0.55 < high and bootstrap([1.0], 0) == (1.0, 1.0)


def test_a_page_shows_outside_text_as_text():
    whole = result([[True], [False]])
    hostile = replace(whole.runs_of_tasks[1], task="<script>x</script>", error="\x1b[31m<b>no</b>")
    text = page(replace(whole, runs_of_tasks=(whole.runs_of_tasks[0], hostile)))
    assert "<script" not in text and "<b>" not in text and "\x1b" not in text and "&lt;b&gt;no" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("detail", "error", "said"),
    [
        ("the file exists", "", "file: path a, exists False – the file exists"),
        ("", "", "file: path a, exists False"),
        ("the file exists", "The model is gone.", "The model is gone."),
    ],
)
def test_a_report_keeps_a_check_and_why_it_failed_apart(detail: str, error: str, said: str):
    check = {"check": "file: path a, exists False", "passed": False, "detail": detail}
    failed = RunFigures("one", 1, False, 0.0, 0, 0, None, 1.0, "done", (check,), error=error)
    text = page(SuiteResult("mine", 1, 0, "", "", (failed,)))
    assert f'<span class="dim">{said}</span>' in text
    assert text.count("<figcaption>Share of the runs that passed") == 1
