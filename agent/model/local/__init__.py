"""The model that runs on this machine: downloading its weights, serving them, and its client."""
