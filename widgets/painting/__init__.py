"""Painting rows: how often, and straight to the terminal."""
