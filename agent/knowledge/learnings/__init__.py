"""Learnings: what failed and what worked, shown before the same call, confirmed or refuted."""
