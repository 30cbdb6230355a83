"""Recall: one ranking of all messages and notes, by words and by meaning."""
