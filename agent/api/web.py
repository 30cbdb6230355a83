"""The program's network access, replaceable by tests (docs/web.md)."""

from agent.core.net.exchange import Network as Network
from agent.core.net.exchange import use_network as use_network
