"""The session store: trees of nodes, such as messages, in one SQLite file."""
