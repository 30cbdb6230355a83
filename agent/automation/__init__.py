"""Work without a user present: scheduled jobs, batches, evaluation and training.

This package starts sessions; sessions do not import it.
"""
