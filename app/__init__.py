"""The surfaces of Hermes: the command line and the application. Wiring only."""
