"""The layers of the system prompt. Each file here is one and declares itself as `LAYER`."""
