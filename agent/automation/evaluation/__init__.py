"""Evaluation: suites of tasks, results in numbers, comparisons of runs, and a model as judge."""
