"""Input from the terminal, and output to it."""
