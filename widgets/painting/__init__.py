"""Painting of rows: rate limits and direct output to the terminal."""
