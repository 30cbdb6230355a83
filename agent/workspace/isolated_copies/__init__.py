"""Isolated copies of a workspace: see `agent.workspace.isolated_copies.workspace_copy`."""
