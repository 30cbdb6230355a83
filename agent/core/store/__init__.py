"""The session store: a tree of nodes in one SQLite file."""
