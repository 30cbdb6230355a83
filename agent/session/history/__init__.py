"""Navigation of the history: undo and redo, rewinding, checkpoints of a session, comparing branches."""
