"""The parts of an engine, put together floor by floor by `agent.session.runtime`."""
