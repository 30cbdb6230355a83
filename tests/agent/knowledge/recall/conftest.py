"""Stores in temporary folders, as for the tests of the store."""

from tests.agent.core.store.conftest import folder, path, session, store

__all__ = ["folder", "path", "session", "store"]
