"""Parts of isolated copies of a workspace: see `agent.workspace.isolated_copies.workspace_copy`."""
