"""Recall: one ranking over all messages and notes, by words and by meaning."""
