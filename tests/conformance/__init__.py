"""The official conformance suite of the Model Context Protocol, driven through our command line."""
