"""One module per platform; each declares `GATEWAY`, a `GatewayKind`, and is found by the name of its file."""
