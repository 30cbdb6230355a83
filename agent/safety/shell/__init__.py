"""Shell scripts read without running them: words, structure, and what would be started."""
