"""Learnings: what failed and what worked, told before the same call, confirmed or refuted."""
