"""Evaluation: suites of tasks, their figures, comparisons of runs, and a model as judge."""
