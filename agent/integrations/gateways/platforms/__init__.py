"""Adapters, one module per platform.

Each declares `GATEWAY`, a `GatewayKind`, and is found by its file name.
"""
