"""Going back: undo and redo, rewinding, checkpoints of a session, comparing branches."""
