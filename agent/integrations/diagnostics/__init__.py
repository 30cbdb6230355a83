"""Diagnostics from language servers: problems that an edit has newly caused."""
