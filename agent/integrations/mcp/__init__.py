"""Clients for servers of the Model Context Protocol, which give the model tools, resources and prompts."""
