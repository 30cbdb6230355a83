"""Commands that run without a user who could be asked."""
