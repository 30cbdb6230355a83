"""Recall: one ranking over everything that was said and noted, by words and by meaning."""
