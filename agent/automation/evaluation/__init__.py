"""Suites of tasks, their figures, comparisons of runs, a model as judge."""
