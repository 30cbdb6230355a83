"""The engine of Hermes. Imports no user interface."""
