"""The prompt: an editor of its own, completion, history and the queue."""
