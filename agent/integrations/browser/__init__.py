"""Browsers inside our boundary: how they start, what they reach, and where they keep things."""
