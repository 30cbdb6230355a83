"""Reading input from the terminal, and writing output to it."""
