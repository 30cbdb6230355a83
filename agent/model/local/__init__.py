"""The model that runs on this machine: fetching its weights, serving them, speaking to it."""
