"""Other agents and Hermes on the same work, terminal, machine and model server: `make bench-peers`.

Installs each program of `peers.yaml` in a folder and with a home of its own, serves all of them from one
loopback server, and measures each row by turns with Hermes. See `docs/developing/benchmarks.md`.
"""
