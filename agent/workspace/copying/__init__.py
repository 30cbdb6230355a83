"""What isolated copies of a workspace are made with: see `agent.workspace.copies`."""
