"""Commands that run with nobody there to be asked."""
