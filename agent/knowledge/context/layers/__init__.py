"""The layers of the system prompt. Each file here is one layer and declares it as `LAYER`."""
