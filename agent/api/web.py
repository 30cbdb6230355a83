"""The network of the program for tests that bring their own (docs/web.md)."""

from agent.core.net.connecting import Network as Network
from agent.core.net.upstream import use_network as use_network
