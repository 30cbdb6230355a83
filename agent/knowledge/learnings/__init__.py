"""Learnings: failures and their fixes, shown before the same call, then confirmed or refuted."""
