"""Real model servers and gateways: installed, started, and given tasks. Run by `make test-servers`."""
