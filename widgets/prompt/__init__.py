"""The prompt: its editor, completion, history and message queue."""
