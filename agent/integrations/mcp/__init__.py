"""Servers that speak the Model Context Protocol: their tools, resources and prompts for the model."""
