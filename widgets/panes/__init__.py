"""Side panes: tasks, agents, logs, files, and the bars around them."""
