"""The network of the program for tests that bring their own (docs/web.md)."""

from agent.core.net.exchange import Network as Network
from agent.core.net.exchange import use_network as use_network
