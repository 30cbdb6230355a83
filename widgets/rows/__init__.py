"""Lists of rows, filtered and read."""
