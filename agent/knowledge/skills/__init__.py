"""Skills: written instructions for a kind of task, in the agentskills.io format."""
