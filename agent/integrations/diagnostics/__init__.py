"""Diagnostics from language servers: the problems that an edit has newly caused."""
