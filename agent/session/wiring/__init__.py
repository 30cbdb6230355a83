"""The parts of an engine, assembled layer by layer by `agent.session.runtime`."""
