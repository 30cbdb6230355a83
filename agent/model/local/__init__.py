"""The model that runs on this machine: fetching its weights, serving them, and its client."""
