"""Screens for choosing a model, and for getting its key or weights."""
