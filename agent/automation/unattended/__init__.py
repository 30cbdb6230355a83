"""Commands that run without a person present."""
