"""Skills: written-down ways of doing a kind of task, in the agentskills.io format."""
